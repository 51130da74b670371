"""The Jupyter kernel around this process, if there is one, and hearing its messages from a busy cell.

While a cell runs, the kernel's main thread reads no messages, so a click on a widget waits for the cell's
end. `ShellMailbox` lets the running cell read them itself: it takes what has arrived on the shell channel,
hands widget messages to their handlers and puts everything else back in order. The names it uses are
private to ipykernel and differ between its versions, so it looks for them and says if they are not there.
See https://github.com/ipython/ipykernel/issues/65 for the question behind it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["ShellMailbox", "current_kernel", "running_cell"]

COMM_MESSAGES = frozenset({"comm_msg", "comm_open", "comm_close"})


def current_kernel() -> Any | None:
    """The ipykernel of this process, or None in a script, a test or plain IPython."""
    if "ipykernel" not in sys.modules or "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None)


def running_cell() -> tuple[str | None, str | None]:
    """Identity of the notebook cell that runs now, where the front end sends one, and of this run of it."""
    kernel = current_kernel()
    if kernel is None:
        return None, None
    parent: dict[str, Any] = kernel.get_parent("shell") or {}
    cell = parent.get("metadata", {}).get("cellId")
    run = parent.get("header", {}).get("msg_id")
    return (str(cell) if cell else None), (str(run) if run else None)


class ShellMailbox:
    """Reads the shell channel of a kernel from the cell that keeps it busy (main thread only)."""

    def __init__(self, kernel: Any, socket: Any, put_back: Callable[[Any], None]) -> None:
        self._kernel = kernel
        self._socket = socket
        self._put_back = put_back

    @staticmethod
    def of(kernel: Any) -> ShellMailbox | None:
        """The mailbox of a kernel, or None if this ipykernel keeps its messages elsewhere."""
        if not hasattr(kernel, "shell_handlers") or not hasattr(kernel, "session"):
            return None
        channel = getattr(kernel, "shell_channel_thread", None)
        if channel is not None and hasattr(kernel, "shell_main"):  # ipykernel 7
            pair = getattr(getattr(channel, "manager", None), "_shell_channel_to_main", None)
            socket = getattr(pair, "to_socket", None)
            if socket is None:
                return None
            loop, main = kernel.io_loop, kernel.shell_main
            return ShellMailbox(kernel, socket, lambda raw: loop.add_callback(main, None, raw))
        stream = getattr(kernel, "shell_stream", None)
        if stream is not None and hasattr(kernel, "schedule_dispatch"):  # ipykernel 6
            dispatch = kernel.dispatch_shell
            return ShellMailbox(kernel, stream.socket, lambda raw: kernel.schedule_dispatch(dispatch, raw))
        return None

    def drain(self) -> None:
        """Handle the widget messages that have arrived; keep all others for after the cell."""
        import zmq  # comes with every kernel, not with this package

        kept = []
        while True:
            try:
                raw = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            if not self._handled(raw):
                kept.append(raw)
        for raw in kept:
            self._put_back(raw)

    def _handled(self, raw: Any) -> bool:
        kernel = self._kernel
        try:
            idents, frames = kernel.session.feed_identities(raw, copy=False)
            # Only a look at the header: the signature of a message can be checked once, by who handles it.
            header = kernel.session.unpack(frames[1].bytes)
            if header["msg_type"] not in COMM_MESSAGES:
                return False
            message = kernel.session.deserialize(frames, content=True, copy=False)
        except Exception:
            return False  # malformed or foreign: the kernel's own loop reports it
        with _ParentMessage(kernel, idents, message):
            try:
                kernel.shell_handlers[header["msg_type"]](None, idents, message)
            except Exception:
                kernel.log.exception("error in a widget message handler")
        return True


class _ParentMessage:
    """Sets the kernel's parent message around a handler, so that its output belongs to the click."""

    def __init__(self, kernel: Any, idents: Any, message: Any) -> None:
        self._kernel = kernel
        self._new = (idents, message)
        self._old = (_parent_ident(kernel), kernel.get_parent("shell"))

    def __enter__(self) -> None:
        self._kernel.set_parent(*self._new, channel="shell")

    def __exit__(self, *_: object) -> None:
        self._kernel.set_parent(*self._old, channel="shell")


def _parent_ident(kernel: Any) -> Any:
    if hasattr(kernel, "_get_shell_context_var"):  # ipykernel 7
        return kernel._get_shell_context_var(kernel._shell_parent_ident)
    return kernel._parent_ident["shell"]
