"""Training loops in a kernel, on its main thread and in a worker: clicks and interrupts reach both."""

from __future__ import annotations

import time

from tests.kernels.kernel import Comm, Kernel

SETUP = """
import time, torch
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(4, 16), torch.randint(0, 3, (4,))) for _ in range(400)]
session = nansense_widgets.start(model, optimizer=optimizer)
controls = session.controls()

def train(count=400, wait=0.005):
    for x, y in session.batches(data[:count], phase="train"):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        time.sleep(wait)
    return "trained"
"""


def begin(kernel: Kernel) -> Comm:
    kernel.execute(SETUP)
    return kernel.widget(_model_name="AnyModel")


def press(kernel: Kernel, comm: Comm, name: str, **args: object) -> float:
    """Click a button as the browser does; returns the seconds until its echo came back."""
    before = len(echoes(comm))
    began = kernel.send_custom(comm, {"type": "action", "view": "v", "req": 1, "name": name, "args": args})
    while len(echoes(comm)) == before:
        assert time.monotonic() - began < 15, f"no echo of {name}"
        time.sleep(0.001)
    when, echo = echoes(comm)[-1]
    assert echo["error"] == "", echo
    return when - began


def echoes(comm: Comm) -> list[tuple[float, dict[str, object]]]:
    return [
        (when, data["content"])
        for when, data in list(comm.received)
        if data.get("method") == "custom" and data["content"]["type"] == "echo"
    ]


def state(comm: Comm) -> dict[str, object]:
    """The trait `state` as a browser knows it by now."""
    states = [
        data["state"]["state"]
        for _, data in list(comm.received)
        if data.get("method") == "update" and "state" in data.get("state", {})
    ]
    return states[-1] if states else comm.data["state"]["state"]


def wait_for_status(comm: Comm, status: str, batch_idx: int | None = None) -> dict[str, object]:
    end = time.monotonic() + 15
    while True:
        now = state(comm)
        position = now["position"]
        reached = batch_idx is None or (isinstance(position, dict) and position["batch_idx"] == batch_idx)
        if now["status"] == status and reached:
            return now
        assert time.monotonic() < end, f"still {now['status']} at {position}"
        time.sleep(0.005)


def test_loop_in_a_cell_hears_every_click(kernel: Kernel) -> None:
    comm = begin(kernel)
    cell = kernel.start("print(train())")
    wait_for_status(comm, "paused", 0)
    times = []
    for batch in range(1, 5):
        times.append(press(kernel, comm, "step_batch"))
        wait_for_status(comm, "paused", batch)
    times.append(press(kernel, comm, "step_run"))
    wait_for_status(comm, "running")
    times.append(press(kernel, comm, "stop"))
    paused = wait_for_status(comm, "paused")
    assert paused["last_action"] == "session.stop()"
    press(kernel, comm, "step_run")
    assert kernel.wait(cell).text.strip() == "trained"
    wait_for_status(comm, "finished", 399)
    assert max(times) < 1.0, times


def test_cells_sent_while_a_loop_holds_the_kernel_run_after_it_in_order(kernel: Kernel) -> None:
    comm = begin(kernel)
    loop = kernel.start("train(30); order = ['loop']")
    wait_for_status(comm, "paused", 0)
    first = kernel.start("order.append('first')")
    second = kernel.start("order.append('second'); print(order)")
    press(kernel, comm, "step_batch")  # reads the queue past the two cells
    wait_for_status(comm, "paused", 1)
    press(kernel, comm, "step_run")
    assert kernel.wait(loop).error == ""
    assert kernel.wait(first).error == ""
    assert kernel.wait(second).text.strip() == "['loop', 'first', 'second']"


def test_one_cell_an_epoch_is_one_run(kernel: Kernel) -> None:
    comm = begin(kernel)
    kernel.execute("session.detach()")
    for epoch in range(3):
        kernel.execute(f"for x, y in session.batches(data[:5], phase='train', epoch={epoch}): model(x)")
        end = time.monotonic() + 10
        while state(comm)["progress"]["run_done"] != 5 * (epoch + 1):  # type: ignore[index]
            assert time.monotonic() < end, state(comm)
            time.sleep(0.01)
        finished = wait_for_status(comm, "finished", 4)
        assert finished["position"]["epoch"] == epoch  # type: ignore[index]
        kernel.execute("session.detach()")


def test_interrupt_pauses_a_loop_in_a_cell_and_a_second_one_ends_it(kernel: Kernel) -> None:
    comm = begin(kernel)
    cell = kernel.start("train()")
    wait_for_status(comm, "paused", 0)
    press(kernel, comm, "step_run")
    wait_for_status(comm, "running")
    kernel.interrupt()
    wait_for_status(comm, "paused")
    kernel.interrupt()
    assert kernel.wait(cell).error.startswith("KeyboardInterrupt")
    failed = wait_for_status(comm, "failed")
    assert failed["error"]["type"] == "KeyboardInterrupt"  # type: ignore[index]


def test_two_interrupts_end_a_cell_whose_first_batch_hangs(kernel: Kernel) -> None:
    begin(kernel)
    code = """
def hanging():
    print("hanging", flush=True)
    time.sleep(60)
    yield 1

for x in session.batches(hanging(), phase="train"):
    pass
"""
    cell = kernel.start(code)
    kernel.wait_for_output(cell, "hanging")
    kernel.interrupt()
    time.sleep(0.3)
    kernel.interrupt()
    assert kernel.wait(cell).error.startswith("KeyboardInterrupt")


def test_waiting_for_a_pause_in_a_cell_hears_clicks(kernel: Kernel) -> None:
    comm = begin(kernel)
    kernel.execute("_ = session.launch(train)")
    wait_for_status(comm, "paused", 0)
    press(kernel, comm, "step_run")
    cell = kernel.start(
        "print('waits', flush=True); print(session.wait_until_paused(after_pauses=1, timeout=30))"
    )
    # A click that arrives together with the cell itself is handled after it.
    kernel.wait_for_output(cell, "waits")
    assert press(kernel, comm, "stop") < 1.0
    assert kernel.wait(cell).text.split() == ["waits", "True"]
    kernel.execute("session.close()")


def test_exception_in_a_cell_is_shown_with_its_line_and_batch(kernel: Kernel) -> None:
    comm = begin(kernel)
    code = """
for x, y in session.batches(data, phase="train"):
    if session.live_position.batch_idx == 2:
        raise ValueError("the loss went away")
    model(x)
"""
    cell = kernel.start(code)
    wait_for_status(comm, "paused", 0)
    press(kernel, comm, "step_run")
    assert kernel.wait(cell).error == "ValueError: the loss went away"
    error = wait_for_status(comm, "failed")["error"]
    assert isinstance(error, dict)
    assert error["message"] == "the loss went away"
    assert error["line"].endswith('raise ValueError("the loss went away")')
    assert error["position"]["batch_idx"] == 2
    # The cell is mended and run again: the same session goes on.
    cell = kernel.start("print(train(5, 0))")
    wait_for_status(comm, "paused", 0)
    press(kernel, comm, "step_run")
    assert kernel.wait(cell).text.strip() == "trained"


def test_worker_leaves_the_kernel_free_and_prints_into_its_cell(kernel: Kernel) -> None:
    comm = begin(kernel)
    launched = kernel.start(
        "session.launch(lambda: [print('batch', i) for i, _ in enumerate("
        "session.batches(data[:6], phase='train'))] and 'done')"
    )
    assert kernel.wait(launched).error == ""
    wait_for_status(comm, "paused", 0)
    assert kernel.execute("print(1 + 1)").text.strip() == "2"
    press(kernel, comm, "step_batch")
    wait_for_status(comm, "paused", 1)
    kernel.execute("session.detach(); session.wait(10)")
    assert kernel.execute("print(session.result)").text.strip() == "done"
    printed = "".join(
        message["content"]["text"]
        for message in kernel.published(launched)
        if message["msg_type"] == "stream"
    )
    assert printed.split("\n")[:6] == [f"batch {i}" for i in range(6)]


def test_widgets_work_while_a_cell_waits_for_the_worker(kernel: Kernel) -> None:
    comm = begin(kernel)
    kernel.execute("_ = session.launch(train, 20, 0)")
    cell = kernel.start("print('waits', flush=True); print(session.wait())")
    kernel.wait_for_output(cell, "waits")
    wait_for_status(comm, "paused", 0)
    assert press(kernel, comm, "step_batch") < 1.0
    wait_for_status(comm, "paused", 1)
    press(kernel, comm, "step_run")
    # How many epochs there are is not known without `session.epochs`, so Run goes to the loop's end.
    assert kernel.wait(cell).text.split() == ["waits", "True"]
    wait_for_status(comm, "finished", 19)


def test_interrupt_of_an_idle_kernel_pauses_the_worker(kernel: Kernel) -> None:
    comm = begin(kernel)
    kernel.execute("_ = session.launch(train)")
    wait_for_status(comm, "paused", 0)
    time.sleep(0.5)  # the handler is set shortly after the launching cell
    press(kernel, comm, "step_run")
    wait_for_status(comm, "running")
    time.sleep(0.2)  # while ipykernel handles the click, an interrupt is its own
    kernel.interrupt()
    wait_for_status(comm, "paused")
    assert kernel.execute("print('alive')").text.strip() == "alive"
    kernel.execute("session.close()")


def test_start_cell_again_ends_the_earlier_session(kernel: Kernel) -> None:
    begin(kernel)
    kernel.execute("_ = session.launch(train); earlier = session; old_controls = controls")
    kernel.execute("session.wait_until_paused(timeout=10)")
    again = """
import threading
session = nansense_widgets.start(model, optimizer=optimizer)
print(earlier.status, [t.name for t in threading.enumerate() if 'training' in t.name])
"""
    text = kernel.execute(again).text
    assert "closed" in text
    assert "replaced by a newer session" in text
    assert text.strip().endswith("[]")
    hooks = "len(torch.nn.modules.module._global_forward_hooks), len(model._forward_pre_hooks)"
    assert kernel.execute(f"print({hooks})").text.strip() == "0 0"
