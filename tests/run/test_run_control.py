"""Stepping, running and stopping: where training stands, and which batch is shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import nansense_widgets
from nansense_widgets import Mode, SessionStateError
from tests.driver import TIMEOUT_S, Driver, small_data, small_model, start_small


def test_the_first_batch_pauses_and_each_step_is_one_batch() -> None:
    driver = Driver(*start_small())
    assert driver.live == driver.shown == ("train", 0, 0)
    assert driver.session.mode is Mode.STEP
    for batch in range(1, 5):
        driver.do("step_batch")
        assert driver.live == driver.shown == ("train", 0, batch)
        assert driver.session.standing == "after"
    driver.do("step_batch")
    assert driver.live == driver.shown == ("val", 0, 0)
    assert driver.finish() == "trained"
    assert driver.session.pause_count == 6


@pytest.mark.parametrize("declared", [False, True], ids=["lazy", "declared"])
def test_step_phase_and_epoch_pause_before_the_next_with_the_finished_one_shown(declared: bool) -> None:
    phases = {"train": 5, "val": 2} if declared else None
    driver = Driver(*start_small(phases=phases))
    driver.do("step_phase")
    assert (driver.live, driver.session.standing) == (("val", 0, 0), "before")
    assert driver.shown == ("train", 0, 4)
    driver.do("step_batch")
    assert (driver.live, driver.session.standing) == (("val", 0, 0), "after")
    assert driver.shown == ("val", 0, 0)
    driver.do("step_epoch")
    assert (driver.live, driver.session.standing) == (("train", 1, 0), "before")
    assert driver.shown == ("val", 0, 1)
    driver.do("step_epoch")
    assert driver.live == ("train", 2, 0)
    assert driver.shown == ("val", 1, 1)
    driver.finish()


def test_step_phase_shows_the_last_batch_of_a_loader_without_length() -> None:
    session, _ = start_small()
    model, data = small_model(), small_data()

    def items(count: int) -> Iterator[torch.Tensor]:
        for x, _ in data[:count]:
            yield x

    def loop() -> None:
        for _ in session.epochs(2):
            for x in session.batches(items(4), phase="train"):
                model(x)
            for x in session.batches(items(2), phase="val"):
                model(x)

    driver = Driver(session, loop)
    driver.do("step_phase")
    assert driver.live == ("val", 0, 0)
    assert driver.shown == ("train", 0, 3)
    driver.finish()


def test_run_pauses_on_the_last_batch_of_the_run() -> None:
    driver = Driver(*start_small())
    driver.do("step_run")
    assert driver.live == driver.shown == ("val", 2, 1)
    assert driver.session.live_position is not None
    assert driver.session.live_position.is_last_overall
    driver.session.step_batch()
    assert driver.session.wait(TIMEOUT_S)
    assert driver.session.status.word == "finished"
    assert driver.session.result == "trained"


@pytest.mark.parametrize("phase", ["val", 1])
def test_step_until_position(phase: str | int) -> None:
    driver = Driver(*start_small())
    driver.do("step_phase")
    driver.do("step_until_position", phase, 1, 1)
    assert driver.live == driver.shown == ("val", 1, 1)
    with pytest.raises(ValueError, match=r"has passed: training stands at epoch 1, val, batch 1"):
        driver.session.step_until_position(phase, 1, 1)
    assert driver.session.status.word == "paused"
    driver.finish()


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (("train", 3, 0), ValueError, "epoch=3 must be below the run's 3 epochs"),
        (("train", 1, 5), ValueError, "batch_idx=5 must be below the 5 batches of phase 'train'"),
        (("train", -1, 0), ValueError, "epoch=-1 must not be negative"),
        (("train", 1, -1), ValueError, "batch_idx=-1 must not be negative"),
        ((7, 1, 0), ValueError, "phase=7 must be 0"),
        ((None, 1, 0), TypeError, "phase=None must be a phase's name or index"),
        (("train", 1.5, 0), TypeError, "epoch=1.5 must be an int"),
        (("train", 1, "0"), TypeError, "batch_idx='0' must be an int"),
    ],
)
def test_a_wrong_target_raises_and_leaves_the_pause(
    target: tuple[Any, Any, Any], error: type[Exception], message: str
) -> None:
    driver = Driver(*start_small())
    with pytest.raises(error, match=message.replace("(", r"\(")):
        driver.session.step_until_position(*target)
    assert driver.session.status.word == "paused"
    driver.finish()


def test_stop_pauses_a_free_run_and_cancel_withdraws_it() -> None:
    session, _ = start_small()
    model, data = small_model(), small_data()
    gate = threading.Event()

    def loop() -> None:
        for _ in session.epochs(50):
            for x, _ in session.batches(data, phase="train"):
                model(x)
                gate.wait(TIMEOUT_S)

    gate.set()
    driver = Driver(session, loop)
    gate.clear()
    session.step_run()
    while session.status.word != "running":
        time.sleep(0.001)
    session.stop()
    assert session.pending == ["stop"]
    session.cancel()
    assert session.pending == []
    assert session.mode is Mode.UNTIL_END
    session.stop()
    before = session.pause_count
    gate.set()
    driver.paused(before)
    assert session.pending == []
    assert driver.live == driver.shown
    driver.finish()


def test_refresh_publishes_the_next_batch_without_a_pause() -> None:
    driver = Driver(*start_small())
    driver.session.set_update_frequency(unit="epoch", n=100)
    driver.session.request_snapshot()
    assert driver.session.pending == ["refresh"]
    driver.do("step_until_position", "val", 0, 1)
    assert driver.session.snapshot is not None
    assert driver.session.snapshot.number == 2  # the first batch, the refreshed one, the last one
    driver.finish()


@pytest.mark.parametrize(
    ("frequency", "expected"),
    [
        ({"unit": "epoch"}, ["train 0 0", "train 1 0", "train 2 0", "val 2 1"]),
        ({"unit": "epoch", "n": 2}, ["train 0 0", "train 2 0", "val 2 1"]),
        ({"unit": "batch", "n": 5}, ["train 0 0", "val 0 0", "train 1 3", "train 2 1", "val 2 1"]),
        (
            {"unit": "batch", "n": 2, "phase": "val"},
            ["train 0 0", "val 0 0", "val 1 0", "val 2 0", "val 2 1"],
        ),
    ],
    ids=str,
)
def test_update_frequency(frequency: dict[str, Any], expected: list[str]) -> None:
    """Which batches are captured in a run of 3 epochs: the first and last pause, the others are updates."""
    session, _ = start_small(phases={"train": 5, "val": 2})
    model, data = small_model(), small_data()
    captured: list[str] = []

    def note() -> None:
        assert session.snapshot is not None
        name = " ".join(map(str, session.snapshot.position.key))
        if not captured or captured[-1] != name:
            captured.append(name)

    def loop() -> None:
        for _ in session.epochs(3):
            for phase, count in (("train", 5), ("val", 2)):
                for x, _ in session.batches(data[:count], phase=phase):
                    model(x)
                    if session.snapshot is not None:
                        note()

    driver = Driver(session, loop)
    session.set_update_frequency(**frequency)
    driver.do("step_run")
    note()
    assert captured == expected
    driver.finish()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unit": "hour"}, "unit='hour' must be 'epoch' or 'batch'"),
        ({"unit": "batch", "n": 0}, "n=0 must be at least 1"),
        ({"unit": "batch", "n": 1.5}, "n=1.5 must be an int"),
        ({"unit": "epoch", "phase": "train"}, "phase='train' only goes with unit='batch'"),
        ({"unit": "batch", "phase": "test"}, "phase='test' is not a known phase; known: train"),
    ],
)
def test_a_wrong_update_frequency_raises_and_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    driver = Driver(*start_small())
    before = driver.session.update_frequency
    with pytest.raises((ValueError, TypeError), match=message):
        driver.session.set_update_frequency(**arguments)
    assert driver.session.update_frequency == before
    driver.finish()


def test_break_shows_its_batch_and_pauses_before_the_next() -> None:
    """Overfitting one batch: a loop that always breaks still steps batch by batch."""
    session, _ = start_small()
    model, data = small_model(), small_data()

    def loop() -> int:
        for _ in session.epochs(4):
            for x, _ in session.batches(data, phase="train"):
                model(x)
                break
        return 4

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    assert session.snapshot is not None
    assert session.snapshot.position.key == ("train", 0, 0)
    assert session.snapshot.complete is False
    assert session.live_position is not None
    assert (session.live_position.key, session.standing) == (("train", 1, 0), "before")
    session.detach()
    assert session.wait(TIMEOUT_S)
    assert session.schedule.phases == {"train": 1}  # what a loop that breaks each time has shown


def test_batch_context_and_nesting() -> None:
    session, _ = start_small()
    model, data = small_model(), small_data()

    def loop() -> str:
        with session.batch(phase="train", epoch=0, item=data[0]):
            model(data[0][0])
        with session.batch(phase="train", epoch=0), session.batch(phase="train"):
            pass
        return "unreached"

    driver = Driver(session, loop)
    assert driver.shown == ("train", 0, 0)
    session.step_batch()
    with pytest.raises(SessionStateError, match="batches do not nest"):
        session.wait(TIMEOUT_S)
    assert session.status.word == "failed"


def test_an_exception_in_the_loop_is_kept_with_its_line_and_batch() -> None:
    session, _ = start_small()
    model, data = small_model(), small_data()

    def loop() -> None:
        for index, (x, _) in enumerate(session.batches(data, phase="train")):
            if index == 2:
                model(x[:, :, :2])
            model(x)

    driver = Driver(session, loop)
    driver.session.step_run()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        session.wait(TIMEOUT_S)
    failure = session.failure
    assert failure is not None
    assert failure.type == "RuntimeError"
    assert failure.line.endswith("model(x[:, :, :2])")
    assert failure.position is not None
    assert failure.position.key == ("train", 0, 2)
    assert "frames of libraries" in failure.traceback
    assert "nansense_widgets" not in failure.traceback
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        session.result  # noqa: B018  a property that raises
    assert session.snapshot is not None  # the last state stays to be looked at
    # A mended loop on the same session begins anew.
    pauses = session.pause_count
    session.launch(lambda: [None for _ in session.batches(data, phase="train")])
    assert session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S)
    assert session.failure is None
    assert driver.live == ("train", 0, 0)
    driver.finish()


def test_close_ends_the_worker_at_its_next_batch_and_leaves_no_hook() -> None:
    before = threading.active_count()
    session, loop = start_small()
    driver = Driver(session, loop)
    session.watch("*")
    driver.do("step_batch")
    session.close()
    assert session.status.word == "closed"
    assert session.status.detail == "closed by session.close()"
    hooks = torch.nn.modules.module
    assert len(hooks._global_forward_hooks) == 0  # noqa: SLF001  there is no public way to count them
    assert len(hooks._global_forward_pre_hooks) == 0  # noqa: SLF001
    assert threading.active_count() == before
    assert session.wait_until_paused(timeout=0.1) is False
    with pytest.raises(SessionStateError, match="has no result"):
        session.result  # noqa: B018
    with pytest.raises(SessionStateError, match="this session is closed"):
        session.launch(loop)
    assert session.snapshot is not None


def test_close_lets_a_loop_of_the_users_own_thread_go_on() -> None:
    session, loop = start_small()
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(loop()))
    thread.start()
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    session.close()
    thread.join(TIMEOUT_S)
    assert results == ["trained"]


def test_starting_again_for_the_same_model_closes_the_earlier_session() -> None:
    model = small_model()
    sessions = [nansense_widgets.start(model) for _ in range(5)]
    assert [session.status.word for session in sessions] == ["closed"] * 4 + ["waiting"]
    assert sessions[0].status.detail.startswith("replaced by a newer session")


def test_two_loops_at_once_are_refused() -> None:
    driver = Driver(*start_small())
    with pytest.raises(SessionStateError, match="has not ended yet"):
        driver.session.launch(lambda: None)
    assert driver.session.status.word == "paused"
    driver.finish()


def test_a_script_that_nobody_steers_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("nansense_widgets.run.control.IDLE_WAIT_S", 0.2)
    _session, loop = start_small()
    began = time.monotonic()
    assert loop() == "trained"
    assert time.monotonic() - began < 5
    said = capsys.readouterr().err
    assert said.count("nansense_widgets:") == 1
    assert "session.detach()" in said


def test_a_second_thread_counts_as_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.run.control.IDLE_WAIT_S", 0.1)
    session, loop = start_small()
    thread = threading.Thread(target=loop)
    thread.start()
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    time.sleep(0.4)
    assert session.status.word == "paused"
    session.detach()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_disabled_is_inert_everywhere() -> None:
    session, loop = start_small(enabled=False)
    assert loop() == "trained"
    session.step_batch()
    session.step_run()
    session.stop()
    session.cancel()
    session.request_snapshot()
    session.step_until_position("nowhere", 99, 99)
    assert session.watch("no such layer") == []
    assert session.unwatch() == []
    assert session.watched_layers == ()
    assert session.layer_names == []
    assert session.snapshot is None
    assert session.live_position is None
    assert session.pause_count == 0
    assert session.is_running is False
    assert session.wait_until_paused(timeout=0) is False
    assert session.status.word == "disabled"
    with session.batch(phase="train"):
        pass
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert session.result == "trained"
    session.dashboard()
    session.close()


def test_progress_counts_and_forecasts() -> None:
    driver = Driver(*start_small())
    progress = driver.session.progress
    assert (progress.epoch_done, progress.epoch_total, progress.run_total) == (1, None, None)
    driver.do("step_epoch")
    progress = driver.session.progress
    assert (progress.run_done, progress.run_total) == (7, 21)
    assert (progress.epoch_done, progress.epoch_total) == (0, 7)
    assert progress.run_left_s is not None
    assert progress.run_left_s > 0
    driver.finish()
    assert driver.session.progress.run_done == 21


def test_run_pauses_at_the_end_of_a_run_of_one_epoch_that_nobody_declared() -> None:
    session, _ = start_small()
    model, data = small_model(), small_data()

    def loop() -> str:
        for _ in session.epochs(1):
            for x, _ in session.batches(data, phase="train"):
                model(x)
            for x, _ in session.batches(data[:2], phase="val"):
                model(x)
        return "done"

    driver = Driver(session, loop)
    driver.do("step_run")
    assert driver.live == driver.shown == ("val", 0, 1)
    assert session.standing == "after"
    assert driver.finish() == "done"


def test_a_phase_that_is_none_is_refused_once_the_phases_are_known() -> None:
    driver = Driver(*start_small(phases={"train": 5, "val": 2}))
    with pytest.raises(ValueError, match="phase='trian' is not a phase of this run: train, val"):
        driver.session.step_until_position("trian", 1, 0)
    driver.finish()


def test_another_thread_cannot_run_batches_of_a_launched_session() -> None:
    driver = Driver(*start_small())
    with pytest.raises(SessionStateError, match="runs in its worker thread"):
        driver.session.batches([1], phase="train")
    assert driver.live == ("train", 0, 0)
    driver.finish()


def test_a_loader_whose_length_cannot_be_asked_for_is_iterated_all_the_same() -> None:
    class Odd:
        def __len__(self) -> int:
            raise NotImplementedError

        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    session, _ = start_small()
    driver = Driver(session, lambda: list(session.batches(Odd(), phase="train")))
    assert driver.finish() == [0, 1, 2]


def test_a_loop_over_epochs_in_a_script_ends_and_may_run_again() -> None:
    session, loop = start_small()
    session.detach()
    assert loop() == "trained"
    assert session.status.word == "finished"
    assert session.is_running is False
    session.detach()
    assert loop() == "trained"
    assert session.progress.run_done == 21


def test_an_exception_after_a_break_is_no_exception_of_that_batch() -> None:
    session, _ = start_small()
    data = small_data()

    def loop() -> None:
        for _ in session.batches(data, phase="train"):
            break
        raise RuntimeError("afterwards")

    session.detach()
    session.launch(loop)
    with pytest.raises(RuntimeError, match="afterwards"):
        session.wait(TIMEOUT_S)
    assert session.failure is not None
    assert session.failure.position is None


def test_closing_a_disabled_session_does_not_wait_for_its_loop() -> None:
    session, _ = start_small(enabled=False)
    gate = threading.Event()
    session.launch(lambda: gate.wait(TIMEOUT_S))
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 1
    gate.set()
    assert session.wait(TIMEOUT_S)


def test_steering_a_closed_session_says_so() -> None:
    session, _ = start_small()
    session.close()
    with pytest.raises(SessionStateError, match=r"closed \(closed by session.close\(\)\)"):
        session.step_batch()


def test_closing_from_another_thread_in_the_middle_of_a_forward_leaves_nothing_behind() -> None:
    session, _ = start_small()
    inside, go_on = threading.Event(), threading.Event()

    class Slow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside.set()
            go_on.wait(TIMEOUT_S)
            return self.fc(x)

    model = Slow()
    session = nansense_widgets.start(model)
    left: list[Any] = []

    def loop() -> None:
        for x in session.batches([torch.ones(1, 2)] * 2, phase="train"):
            model(x)
        left.append(torch.overrides._get_current_function_mode_stack())  # noqa: SLF001

    thread = threading.Thread(target=loop)
    thread.start()
    assert inside.wait(TIMEOUT_S)
    session.close()
    go_on.set()
    thread.join(TIMEOUT_S)
    assert left == [[]]
    assert len(torch.nn.modules.module._global_forward_hooks) == 0  # noqa: SLF001


def test_a_step_is_not_taken_for_the_pause_that_it_leaves() -> None:
    """`step_batch(); wait_until_paused()` waits for the next pause, however slowly the thread wakes."""
    session, _ = start_small()
    model, data = small_model(), small_data()

    def loop() -> None:
        for x, _ in session.batches(data, phase="train"):
            time.sleep(0.05)
            model(x)

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    for batch in range(1, 5):
        session.step_batch()
        assert session.wait_until_paused(timeout=TIMEOUT_S)
        assert session.live_position is not None
        assert session.live_position.batch_idx == batch
    session.detach()
    assert session.wait(TIMEOUT_S)


def test_a_snapshot_prints_as_one_line() -> None:
    driver = Driver(*start_small())
    assert repr(driver.snapshot).startswith("<BatchSnapshot 0 of epoch 0, train, batch 0")
    assert len(repr(driver.snapshot)) < 200
    driver.finish()


def test_a_loop_that_dies_says_so_where_it_was_launched(capsys: Any) -> None:
    session, _ = start_small()
    session.detach()
    session.launch(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        session.wait(TIMEOUT_S)
    assert "the launched loop ended with ZeroDivisionError" in capsys.readouterr().err


def test_detach_holds_over_the_end_of_a_loop() -> None:
    session, loop = start_small()
    session.detach()
    assert loop() == "trained"
    assert loop() == "trained"
    assert session.pause_count == 0
    session.launch(loop)
    assert session.wait(TIMEOUT_S)


def test_a_command_between_a_break_and_the_next_batch_is_heeded() -> None:
    session, _ = start_small()
    model, data = small_model(), small_data()

    def loop() -> str:
        for x, _ in session.batches(data, phase="train"):
            model(x)
            break
        session.detach()
        for x, _ in session.batches(data, phase="val"):
            model(x)
        return "done"

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert session.result == "done"
    assert session.pause_count == 0


def test_a_command_that_comes_while_a_pause_is_decided_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    session, loop = start_small()
    control = session._run.control  # noqa: SLF001  the moment in question cannot be hit from outside
    pause = control.pause

    def late(*arguments: Any) -> None:
        session.detach()
        pause(*arguments)

    monkeypatch.setattr(control, "pause", late)
    session.launch(loop)
    assert session.wait(TIMEOUT_S)


@pytest.mark.parametrize("timeout", [float("nan"), -1, "x", True])
def test_a_wrong_timeout_is_refused(timeout: Any) -> None:
    driver = Driver(*start_small())
    for call in (driver.session.wait, lambda timeout: driver.session.wait_until_paused(timeout=timeout)):
        with pytest.raises((ValueError, TypeError), match="timeout="):
            call(timeout=timeout)
    assert driver.session.wait_until_paused(timeout=float("inf"))
    driver.finish()


def test_an_interrupt_while_a_batch_is_being_set_up_leaves_the_session_usable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, _ = start_small()
    data = small_data()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("nansense_widgets.capture.parameters.ParameterWatch.install", interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(session.batches(data, phase="train"))
    assert len(torch.nn.modules.module._global_forward_hooks) == 0  # noqa: SLF001
    session.detach()
    assert len(list(session.batches(data, phase="train", epoch=1))) == len(data)


def test_launch_refuses_what_would_not_run() -> None:
    session, _ = start_small()

    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    for loop in (coroutine, generator):
        with pytest.raises(TypeError, match="must be a plain function"):
            session.launch(loop)


def test_the_loader_draws_its_random_numbers_when_it_would_without_us() -> None:
    session, _ = start_small()
    session.detach()
    dataset = torch.utils.data.TensorDataset(torch.arange(8.0))

    def numbers(watched: bool) -> list[Any]:
        torch.manual_seed(5)
        loader = torch.utils.data.DataLoader(dataset, batch_size=2, shuffle=True)
        batches = iter(session.batches(loader, phase="train") if watched else loader)
        first = torch.randn(2).tolist()
        return [first, *[batch[0].tolist() for batch in batches]]

    assert numbers(watched=True) == numbers(watched=False)
