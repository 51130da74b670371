"""A kernel of a chosen ipykernel version, spoken to as a front end does, with no browser."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.kernels.specs import kernel_argv, kernel_env

Message = dict[str, Any]


class _OneVersion(KernelSpecManager):
    """Knows one kernel: the given ipykernel version, whatever name is asked for."""

    def __init__(self, version: str) -> None:
        super().__init__()
        self._version = version

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(
            argv=kernel_argv(),
            env=kernel_env(self._version),
            display_name=kernel_name,
            language="python",
            resource_dir="",
        )


@dataclass
class Outcome:
    """What a cell did."""

    reply: Message
    """Content of the execute_reply."""
    outputs: list[Message]
    """Its stream, display, result and error messages, in order."""

    @property
    def text(self) -> str:
        """All that it printed to stdout."""
        return "".join(
            output["content"]["text"]
            for output in self.outputs
            if output["msg_type"] == "stream" and output["content"]["name"] == "stdout"
        )

    @property
    def error(self) -> str:
        """Type and message of the exception that ended it, or nothing."""
        if self.reply["status"] == "ok":
            return ""
        return f"{self.reply.get('ename', self.reply['status'])}: {self.reply.get('evalue', '')}"


@dataclass
class Comm:
    """A comm that the kernel opened, and what it has sent on it since."""

    comm_id: str
    target: str
    data: Message
    """Data of the comm_open: for a widget, its first state."""
    received: list[tuple[float, Message]] = field(default_factory=list)
    """`time.monotonic()` at arrival, and the data, of each comm_msg from the kernel."""


class Kernel:
    """A running kernel. Use as a context manager.

    One thread of ours reads all that the kernel publishes, so comm messages and outputs are collected
    also while a cell is busy. Times are `time.monotonic()`, which on one machine every process shares.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self._manager = KernelManager(kernel_spec_manager=_OneVersion(version), kernel_name="python3")
        self._manager.start_kernel()
        self._client: BlockingKernelClient = self._manager.blocking_client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=60)
        except RuntimeError:
            self._manager.shutdown_kernel(now=True)
            raise
        self.comms: dict[str, Comm] = {}
        self._published: dict[str, list[Message]] = {}
        self._idle: set[str] = set()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, name="iopub reader", daemon=True)
        self._reader.start()

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._closing.set()
        self._reader.join()
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    # ------------------------------------------------------------ cells

    def start(self, code: str) -> str:
        """Send a cell and return at once; `wait` takes the result."""
        return str(self._client.execute(code, store_history=False, allow_stdin=False))

    def wait(self, cell: str, timeout_s: float = 60.0) -> Outcome:
        """Wait until a started cell is done and all that it published has arrived."""
        end = time.monotonic() + timeout_s
        while True:
            reply = self._client.get_shell_msg(timeout=max(0.0, end - time.monotonic()))
            if reply["parent_header"].get("msg_id") == cell:
                break
        with self._changed:
            if not self._changed.wait_for(lambda: cell in self._idle, max(0.1, end - time.monotonic())):
                raise TimeoutError("the kernel replied and never became idle")
            kinds = ("stream", "display_data", "execute_result", "error")
            outputs = [message for message in self._published.get(cell, []) if message["msg_type"] in kinds]
        return Outcome(reply["content"], outputs)

    def execute(self, code: str, timeout_s: float = 60.0) -> Outcome:
        """Run a cell to its end. Raises AssertionError if the cell raised."""
        outcome = self.wait(self.start(code), timeout_s)
        if outcome.error:
            raise AssertionError(outcome.error)
        return outcome

    def published(self, cell: str) -> list[Message]:
        """All that has been published for a cell so far, also after its end."""
        with self._changed:
            return list(self._published.get(cell, []))

    def wait_for_output(self, cell: str, text: str, timeout_s: float = 30.0) -> float:
        """Wait until a cell that still runs has printed `text`; returns when that was seen."""

        def printed() -> bool:
            return text in "".join(
                message["content"]["text"]
                for message in self._published.get(cell, [])
                if message["msg_type"] == "stream"
            )

        with self._changed:
            if not self._changed.wait_for(printed, timeout_s):
                raise TimeoutError(f"the cell did not print {text!r}")
        return time.monotonic()

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    # ------------------------------------------------------------ comms

    def widget(self, **state: object) -> Comm:
        """The one open widget whose first state had these values, e.g. `widget(_view_name="AnyView")`."""
        found = [
            comm
            for comm in self.comms.values()
            if all(comm.data.get("state", {}).get(key) == value for key, value in state.items())
        ]
        assert len(found) == 1, f"{len(found)} widgets with {state}"
        return found[0]

    def send(self, comm: Comm, data: Message, *, subshell: str | None = None) -> float:
        """Send a comm_msg on the shell channel, busy or not; returns the time of sending.

        `subshell` (from `create_subshell`) names the subshell that shall handle it, as JupyterLab does.
        """
        message = self._client.session.msg("comm_msg", {"comm_id": comm.comm_id, "data": data})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        sent = time.monotonic()
        self._client.shell_channel.send(message)
        return sent

    def send_custom(self, comm: Comm, content: Message, *, subshell: str | None = None) -> float:
        """Send a widget's custom message, as `model.send(content)` does in the browser."""
        return self.send(comm, {"method": "custom", "content": content}, subshell=subshell)

    def send_state(self, comm: Comm, state: Message, *, subshell: str | None = None) -> float:
        """Set traits of a widget, as `model.save_changes()` does in the browser."""
        return self.send(comm, {"method": "update", "state": state, "buffer_paths": []}, subshell=subshell)

    def wait_for_message(self, comm: Comm, count: int = 1, timeout_s: float = 30.0) -> list[Message]:
        """Wait until the kernel has sent at least `count` messages on a comm; returns all their data."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(comm.received) >= count, timeout_s):
                raise TimeoutError(f"{len(comm.received)} of {count} messages arrived")
            return [data for _, data in comm.received]

    # ------------------------------------------------------------ subshells

    @property
    def has_subshells(self) -> bool:
        """Whether the kernel says that it can run subshells (ipykernel 7)."""
        self._client.kernel_info()
        while True:
            reply = self._client.get_shell_msg(timeout=30)
            if reply["msg_type"] == "kernel_info_reply":
                return "kernel subshells" in reply["content"].get("supported_features", [])

    def create_subshell(self) -> str:
        """Ask for a subshell: a thread of the kernel that handles messages while a cell is busy."""
        content = self._control("create_subshell_request", {})
        return str(content["subshell_id"])

    def delete_subshell(self, subshell: str) -> None:
        self._control("delete_subshell_request", {"subshell_id": subshell})

    def _control(self, kind: str, content: Message) -> Message:
        message = self._client.session.msg(kind, content)
        self._client.control_channel.send(message)
        while True:
            reply = self._client.get_control_msg(timeout=30)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                assert reply["content"]["status"] == "ok", reply["content"]
                return dict(reply["content"])

    # ------------------------------------------------------------ what the kernel publishes

    def _read(self) -> None:
        while not self._closing.is_set():
            try:
                message = self._client.get_iopub_msg(timeout=0.2)
            except queue.Empty:
                continue
            now = time.monotonic()
            with self._changed:
                self._keep(message, now)
                self._changed.notify_all()

    def _keep(self, message: Message, now: float) -> None:
        content = message["content"]
        parent = message["parent_header"].get("msg_id", "")
        self._published.setdefault(parent, []).append(message)
        match message["msg_type"]:
            case "status" if content["execution_state"] == "idle":
                self._idle.add(parent)
            case "comm_open":
                comm = Comm(content["comm_id"], content["target_name"], content["data"])
                self.comms[comm.comm_id] = comm
            case "comm_msg" if content["comm_id"] in self.comms:
                self.comms[content["comm_id"]].received.append((now, content["data"]))
            case _:
                pass
