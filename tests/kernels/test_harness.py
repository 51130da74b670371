"""The kernel harness itself: the right version answers; comm messages arrive idle, busy and in subshells."""

from __future__ import annotations

import json
import time

from tests.kernels.kernel import Kernel

HEARD = """
import anywidget, json, threading, time, traitlets

class Listener(anywidget.AnyWidget):
    _esm = "export default { render() {} }"
    level = traitlets.Int(0).tag(sync=True)

heard = []
listener = Listener()

def note(widget, content, buffers):
    heard.append([content["n"], time.monotonic(), threading.current_thread() is threading.main_thread()])
    widget.send({"echo": content["n"]})

listener.on_msg(note)
"""

BUSY = """
print("busy", flush=True)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    time.sleep(0.01)
busy_until = time.monotonic()
"""


def heard(kernel: Kernel) -> list[tuple[int, float, bool]]:
    return [tuple(entry) for entry in json.loads(kernel.execute("print(json.dumps(heard))").text)]


def test_version_and_errors(kernel: Kernel) -> None:
    assert kernel.execute("import ipykernel; print(ipykernel.__version__)").text.strip() == kernel.version
    failed = kernel.wait(kernel.start("1 / 0"))
    assert failed.error == "ZeroDivisionError: division by zero"
    assert [output["msg_type"] for output in failed.outputs] == ["error"]


def test_comm_message_when_idle(kernel: Kernel) -> None:
    kernel.execute(HEARD)
    listener = kernel.widget(_model_name="AnyModel")
    sent = kernel.send_custom(listener, {"n": 7})
    assert {"method": "custom", "content": {"echo": 7}} in kernel.wait_for_message(listener)
    [(number, when, on_main)] = heard(kernel)
    assert number == 7
    assert on_main
    # One clock for both processes: the call happened after the sending and before now.
    assert sent < when < time.monotonic()

    kernel.send_state(listener, {"level": 3})
    assert kernel.execute("print(listener.level)").text.strip() == "3"


def test_comm_message_while_busy_waits_for_the_cell(kernel: Kernel) -> None:
    """Nothing in the kernel drains the queue here, so the main shell handles it after the cell."""
    kernel.execute(HEARD)
    listener = kernel.widget(_model_name="AnyModel")
    cell = kernel.start(BUSY)
    kernel.wait_for_output(cell, "busy")
    kernel.send_custom(listener, {"n": 1})
    kernel.wait(cell)
    kernel.wait_for_message(listener)
    [(_, when, on_main)] = heard(kernel)
    assert on_main
    assert when > float(kernel.execute("print(busy_until)").text)


def test_comm_message_in_a_subshell_while_busy(kernel: Kernel) -> None:
    """Records what each version does with a message that names a subshell, as JupyterLab's comms do."""
    assert kernel.has_subshells == kernel.version.startswith("7.")
    if not kernel.has_subshells:
        return
    kernel.execute(HEARD)
    listener = kernel.widget(_model_name="AnyModel")
    subshell = kernel.create_subshell()
    cell = kernel.start(BUSY)
    kernel.wait_for_output(cell, "busy")
    kernel.send_custom(listener, {"n": 2}, subshell=subshell)
    kernel.wait(cell)
    kernel.wait_for_message(listener)
    [(_, when, on_main)] = heard(kernel)
    during = when < float(kernel.execute("print(busy_until)").text)
    # 7.4 hands it to the shell of the last message sent on the comm, here the main one: after the cell.
    assert (during, on_main) == ((True, False) if kernel.version == "7.3.0" else (False, True))
    kernel.delete_subshell(subshell)
