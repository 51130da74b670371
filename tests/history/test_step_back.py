"""Single batches in reverse: what comes again, what is kept, and what is said where there is no way back."""

from __future__ import annotations

import re
import threading
import time
from collections import UserDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session, TimeTravelError
from tests.driver import Driver, small_data, small_model, start_small
from tests.history.test_rewinding import plain


class Pair(NamedTuple):
    x: torch.Tensor
    y: list[int]


@dataclass
class Batch:
    x: torch.Tensor
    more: dict[str, Any]


def small_run(loop_body: Any, batches: int = 12, **arguments: Any) -> tuple[Session, nn.Module, Driver]:
    """One long phase of the small model, without a restore point."""
    model, data = small_model(), small_data(batches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = nansense_widgets.start(model, optimizer=optimizer, epochs=1, **arguments)

    def loop() -> None:
        for x, y in session.batches(data, phase="train", epoch=0):
            optimizer.zero_grad()
            loop_body(x, y, model, optimizer)

    return session, model, Driver(session, loop)


def plain_step(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def test_a_run_that_turned_nan_is_seen_to_do_it_again() -> None:
    batch = iter(range(10**6))

    def body(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        loss = nn.functional.cross_entropy(model(x), y)
        (loss * torch.where(x.flatten()[0] > 1.5, torch.nan, 1.0)).backward()
        optimizer.step()
        next(batch)

    session, model, driver = small_run(body, batches=40)
    while bool(torch.stack([p.isfinite().all() for p in model.parameters()]).all()):
        driver.do("step_batch")
    broken = driver.live
    assert broken[2] >= 3
    driver.do("step_back")
    assert driver.live == driver.shown == (*broken[:2], broken[2] - 1)
    assert all(p.isfinite().all() for p in model.parameters())
    driver.do("step_batch")
    assert driver.live == broken
    assert not all(p.isfinite().all() for p in model.parameters())
    assert not session.history.parted
    assert next(batch) > broken[2] + 1  # batches came again
    driver.finish()
    session.close()


@pytest.mark.parametrize("small", [True, False])
def test_a_loop_that_writes_to_its_items_gets_them_as_they_were(
    monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr("nansense_widgets.history.items.COPIED", 0)

    def body(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        x.mul_(0.5).add_(1)
        y.add_(1).remainder_(3)
        plain_step(x.requires_grad_(), y, model, optimizer)
        assert x.grad is not None
        assert x.grad.abs().max() < 1  # of this pass only

    session, model, driver = small_run(body)
    for _ in range(6):
        driver.do("step_batch")
    after = weights(model)
    driver.do("step_back", 3)
    for _ in range(3):
        driver.do("step_batch")
    assert all(map(torch.equal, after, weights(model)))
    assert not session.history.parted
    if not small:  # the first item was written to before this was known
        with pytest.raises(TimeTravelError, match=r"batch_idx=0: states in memory lead back to batch 2 "):
            session.rewind(phase="train", epoch=0, batch_idx=0)
    driver.finish()
    session.close()


def test_items_of_all_kinds_come_again_as_they_were() -> None:
    seen: list[list[Any]] = []
    items: list[list[Any]] = [
        [
            Pair(torch.ones(2) * i, [i]),
            Batch(torch.ones(1) * i, {"a": np.ones(2) * i}),
            UserDict(ids=torch.ones(1)),
        ]
        for i in range(6)
    ]
    model = small_model()
    session = nansense_widgets.start(model, epochs=1)

    def loop() -> None:
        for item in session.batches(items, phase="train", epoch=0):
            first, batch, words = item
            seen.append([plain(list(first)), plain(batch), dict(plain(words.data))])
            first.y.append("mine")
            batch.more["b"] = 1
            words.pop("ids")
            item.append("mine")

    driver = Driver(session, loop)
    for _ in range(3):
        driver.do("step_batch")
    driver.do("step_back", 3)
    for _ in range(3):
        driver.do("step_batch")
    assert len(seen) == 8
    assert seen[:4] == [seen[4], *seen[5:]]
    driver.finish()
    session.close()


def test_a_loop_that_is_not_repeatable_is_told_where_it_parted() -> None:
    passed = iter(range(10**6))

    def body(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        number = next(passed)
        plain_step(x + (number > 7) * 0.01, y, model, optimizer)

    session, _, driver = small_run(body)
    for _ in range(6):
        driver.do("step_batch")
    driver.do("step_back", 4)
    assert not session.history.parted
    for _ in range(3):
        driver.do("step_batch")
    assert session.history.parted.startswith("not repeatable: epoch 1, train, batch 4 came again with loss")
    assert [event.text for event in session.events if event.kind == "replay"] == [session.history.parted]
    (branch,) = session.branches
    assert branch.left is not None
    assert (branch.left.batch_idx, branch.why) == (6, "the loop is not repeatable")
    assert branch.log[("loss", "loss", "train")].batch_indices.tolist() == [3, 4, 5, 6]
    driver.finish()
    session.close()


def test_another_learning_rate_leaves_a_branch_behind() -> None:
    session, _, driver = small_run(plain_step)
    for _ in range(8):
        driver.do("step_batch")
    losses = session.run_log.series("loss")["train"].values
    driver.do("step_back", 4)
    session.set_hyperparameter("lr", 0.001)
    for _ in range(2):
        driver.do("step_batch")
    (branch,) = session.branches
    assert branch.why == "lr was set to 0.001"
    kept = branch.log[("loss", "loss", "train")]
    assert kept.batch_indices.tolist() == [5, 6, 7, 8]  # the loss of 5 is of weights before the change
    assert kept.values.tolist() == losses[5:].tolist()
    assert not session.history.parted
    assert session.run_log.series("loss")["train"].values.tolist()[:5] == losses[:5].tolist()
    driver.finish()
    session.close()


def test_the_beginning_of_the_run_is_reached_and_not_passed() -> None:
    session, model, driver = small_run(plain_step)
    first = weights(small_model())
    with pytest.raises(TimeTravelError, match="has not been yet"):
        session.rewind(phase="train", epoch=0, batch_idx=3)
    driver.do("step_batch")
    driver.do("step_back", 9)
    assert session.standing == "before"
    assert driver.live == ("train", 0, 0)
    assert all(map(torch.equal, first, weights(model)))
    with pytest.raises(TimeTravelError, match="n=1: the run stands at its beginning"):
        session.step_back()
    driver.do("step_batch")
    assert driver.shown == ("train", 0, 0)
    driver.finish()
    session.close()


def test_another_phase_needs_a_restore_point() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    driver.do("step_until_position", "val", 0, 1)
    with pytest.raises(TimeTravelError, match=r"n=3: .*train.* is in another phase.*has no restore point"):
        session.step_back(3)
    driver.do("step_back")
    assert driver.shown == ("val", 0, 0)
    driver.finish()
    session.close()


def test_detached_batches_are_not_kept() -> None:
    session, _, driver = small_run(plain_step, batches=200)
    driver.do("step_batch")
    assert session.history.used_bytes
    done = session.schedule.batches_done
    session.detach()
    while session.schedule.batches_done < done + 20:
        pass
    driver.do("stop")
    here = driver.live[2]
    assert session.history.first_batch >= here  # only what came after
    with pytest.raises(TimeTravelError, match=r"lead back to batch|no state"):
        session.rewind(phase="train", epoch=0, batch_idx=2)
    driver.finish()
    session.close()


def test_the_budget_is_kept() -> None:
    session, _, driver = small_run(plain_step, batches=120)
    one = session.history.used_bytes
    session.set_history(budget=12 * one)
    for _ in range(60):
        driver.do("step_batch")
    history = session.history
    assert history.budget_bytes == 12 * one
    assert one < history.used_bytes <= 12 * one
    assert history.first_batch > 5
    assert history.last_batch == 60
    gaps = np.diff(history.states)
    assert gaps[0] >= gaps[-1]  # thinner with age
    driver.do("rewind", phase="train", epoch=0, batch_idx=history.first_batch)
    assert driver.shown == ("train", 0, history.first_batch)
    driver.do("step_until_position", "train", 0, 60)
    assert not session.history.parted
    session.set_history(budget=one // 8)
    driver.do("step_batch")
    assert "more than" in session.history.reason
    session.set_history(budget=0)
    driver.do("step_batch")
    assert session.history.used_bytes == 0
    with pytest.raises(TimeTravelError, match="the history is off"):
        session.step_back()
    driver.finish()
    session.close()


@pytest.mark.parametrize(
    ("budget", "size"),
    [
        (0, 0),
        (5000, 5000),
        ("1 GB", 10**9),
        ("1.5GiB", 3 * 2**29),
        ("64 kB", 64_000),
        ("12", 12),
        ("8 MiB", 2**23),
    ],
)
def test_budgets(budget: int | str, size: int) -> None:
    session, _, driver = small_run(plain_step)
    session.set_history(budget=budget)
    assert session.history.budget_bytes == size
    driver.finish()
    session.close()


def test_a_disabled_session_has_no_history() -> None:
    session = nansense_widgets.start(small_model(), enabled=False)
    session.set_history("1 GB")
    assert session.history.reason == "this session is disabled"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": "3", "start_epoch": 1}, TypeError, "n='3' must be an int"),
        ({"n": -1, "start_epoch": 1}, ValueError, "n=-1 must not be negative"),
        ({"n": 3, "cache_dir": 5}, TypeError, "cache_dir=5 must be a path"),
        ({"n": 3, "cache_dir": "a\0b"}, ValueError, "must not hold a null character"),
        ({"n": 3, "cache_dir": __file__}, ValueError, "must be a folder"),
        ({"n": 3, "cache_dir": Path(__file__) / "deeper"}, ValueError, "must be a folder"),
        ({"n": 3, "keep": 0}, ValueError, "keep=0 must be at least 1"),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_wrong_arguments_of_epochs(
    arguments: dict[str, Any], error: type[Exception], message: str, enabled: bool
) -> None:
    session = nansense_widgets.start(small_model(), enabled=enabled)
    with pytest.raises(error, match=message):
        session.epochs(**arguments)
    session.close()


def test_wrong_arguments_name_what_would_be_right() -> None:
    session, _, driver = small_run(plain_step)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: session.step_back(0), ValueError, "n=0 must be at least 1"),
        (lambda: session.step_back(True), TypeError, "n=True must be an int"),
        (lambda: session.step_back("2"), TypeError, "n='2' must be an int"),  # type: ignore[arg-type]
        (
            lambda: session.rewind(phase="tra", epoch=0, batch_idx=0),
            ValueError,
            "is no phase of this run; there are 'train'",
        ),
        (lambda: session.rewind(phase="", epoch=0, batch_idx=0), ValueError, "phase=''"),
        (lambda: session.rewind(phase="train", epoch=-1, batch_idx=0), ValueError, "epoch=-1"),
        (lambda: session.rewind(phase="train", epoch=0, batch_idx=-1), ValueError, "batch_idx=-1"),
        (lambda: session.rewind(phase="train", epoch=None, batch_idx=0), TypeError, "epoch=None"),  # type: ignore[arg-type]
        (
            lambda: session.set_history(budget="much"),
            ValueError,
            "budget='much' must be a number",
        ),
        (lambda: session.set_history(budget=-1), ValueError, "budget=-1 must not be negative"),
        (lambda: session.set_history(budget=1.5), TypeError, "budget=1.5 must be bytes"),  # type: ignore[arg-type]
    ]
    for call, error, match in calls:
        with pytest.raises(error, match=match):
            call()
    driver.finish()
    session.close()


def test_what_is_too_large_is_not_copied_to_find_out(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    monkeypatch.setattr("nansense_widgets.history.tape.take_state", taken.append)
    model = nn.Linear(1000, 100)
    session = nansense_widgets.start(model, epochs=1)
    session.set_history(budget="600 kB")

    def loop() -> None:
        for x in session.batches([torch.randn(4, 1000)] * 5, phase="train", epoch=0):
            model(x).sum().backward()

    driver = Driver(session, loop)
    driver.do("step_batch")
    assert not taken
    assert session.history.reason == "one state takes 391 KiB, more than half of the history's 586 KiB"
    driver.finish()
    session.close()


def test_an_item_larger_than_the_history_is_not_kept() -> None:
    model = small_model()
    other = nansense_widgets.start(model, epochs=1)
    other.set_history(budget="300 kB")

    def loop() -> None:
        for x in other.batches([torch.randn(4000, 16)] * 5, phase="train", epoch=0):
            model(x)

    wide = Driver(other, loop)
    assert other.history.reason == "an item takes more than half of the history's memory (set_history)"
    wide.finish()
    other.close()


class Opaque:
    """As batches of other libraries are: nobody knows what is in it."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def run_over(
    items: Any, body: Any, model: nn.Module | None = None, **arguments: Any
) -> tuple[Session, Driver]:
    session = nansense_widgets.start(model or small_model(), epochs=1, **arguments)

    def loop() -> None:
        for item in session.batches(items, phase="train", epoch=0):
            body(item)

    return session, Driver(session, loop)


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (Opaque(torch.ones(2)), "an item holds a tests.history.test_step_back.Opaque, which cannot be kept"),
        ([np.array([object()])], "an item holds a numpy.ndarray, which cannot be kept"),
        (nn.Parameter(torch.ones(2)), "an item holds a torch.nn.parameter.Parameter, which cannot be kept"),
        ("x" * 10**6, "an item takes more than half of the history's memory (set_history)"),
        (torch.ones(2, requires_grad=True) * 2, "an item holds a tensor that was computed with a graph"),
    ],
    ids=["opaque", "objects", "parameter", "large", "graph"],
)
def test_what_cannot_be_kept_exactly_is_not_kept_and_named(item: Any, why: str) -> None:
    session, driver = run_over([item] * 3, lambda _: None)
    session.set_history(budget="1 MB")
    driver.do("step_batch")
    assert session.history.reason == why
    with pytest.raises(TimeTravelError, match=re.escape(why)):
        session.step_back()
    driver.finish()
    session.close()


def test_one_object_stays_one_and_circles_are_gone_through_once() -> None:
    x = torch.ones(3)
    circle: dict[str, Any] = {"x": x, "twice": [x, x]}
    circle["self"] = circle
    for _ in range(12):
        circle = {"a": circle, "b": circle}
    seen: list[Any] = []

    def body(item: Any) -> None:
        while "a" in item:
            assert item["a"] is item["b"]
            item = item["a"]
        assert item["self"] is item
        assert item["twice"][0] is item["x"] is item["twice"][1]
        item["x"].mul_(3)
        seen.append(item["x"].tolist())

    session, driver = run_over([circle, circle], body)
    driver.do("step_batch")
    driver.do("step_back", 2)
    driver.do("step_batch")
    assert seen == [[3.0] * 3, [9.0] * 3, [3.0] * 3]
    driver.finish()
    session.close()


def test_writes_that_no_version_tells_of_do_not_reach_what_is_kept() -> None:
    def body(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        x.data.mul_(0.5)
        x.numpy()[...] += 1
        plain_step(x, y, model, optimizer)

    session, model, driver = small_run(body)
    for _ in range(4):
        driver.do("step_batch")
    after = weights(model)
    driver.do("step_back", 3)
    driver.do("step_until_position", "train", 0, 4)
    assert all(map(torch.equal, after, weights(model)))
    assert not session.history.parted
    driver.finish()
    session.close()


def test_an_optimizer_that_writes_past_versions_is_repeatable() -> None:
    model, data = small_model(), small_data(8)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    session = nansense_widgets.start(model, optimizer=optimizer, epochs=1)

    def loop() -> None:
        for x, y in session.batches(data, phase="train", epoch=0):
            optimizer.zero_grad()
            plain_step(x, y, model, optimizer)

    driver = Driver(session, loop)
    driver.do("step_until_position", "train", 0, 5)
    driver.do("step_back", 4)
    driver.do("step_until_position", "train", 0, 6)
    assert not session.history.parted
    driver.finish()
    session.close()


class Failing(torch.optim.lr_scheduler.ExponentialLR):
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        raise RuntimeError("not today")


def test_a_way_back_that_fails_changes_nothing_and_waits() -> None:
    model, data = small_model(), small_data(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = nansense_widgets.start(model, optimizer=optimizer, scheduler=Failing(optimizer, 0.9), epochs=1)

    def loop() -> None:
        for x, y in session.batches(data, phase="train", epoch=0):
            optimizer.zero_grad()
            plain_step(x, y, model, optimizer)

    driver = Driver(session, loop)
    driver.do("step_until_position", "train", 0, 4)
    before = weights(model)
    driver.do("step_back", 2)
    assert all(map(torch.equal, before, weights(model)))
    assert (session.standing, driver.live) == ("before", ("train", 0, 5))
    assert session.notice == "did not go back to epoch 1, train, batch 3: RuntimeError: not today"
    driver.finish()
    session.close()


def test_what_is_tracked_and_cannot_be_put_back_is_named() -> None:
    class Stubborn:
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            raise KeyError("mine")

    session, _, driver = small_run(plain_step)
    session.track("stubborn", Stubborn())
    for _ in range(3):
        driver.do("step_batch")
    driver.do("step_back")
    assert session.history.parted == "stubborn was not put back: KeyError: 'mine'"
    driver.finish()
    session.close()


def test_a_buffer_that_a_forward_registered_is_gone_again() -> None:
    class Lazy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "scale"):
                self.register_buffer("scale", torch.ones(1), persistent=False)
            return x * self.get_buffer("scale")

    model = nn.Sequential(nn.Linear(4, 4), Lazy())
    session, driver = run_over([torch.ones(2, 4)] * 4, lambda x: model(x).sum().backward(), model)
    driver.do("step_back")
    assert not hasattr(model[1], "scale")
    driver.do("step_batch")
    assert hasattr(model[1], "scale")
    driver.finish()
    session.close()


def test_a_phase_that_comes_twice_an_epoch_goes_back_within_its_pass() -> None:
    session = nansense_widgets.start(small_model(), epochs=1)

    def loop() -> None:
        for _ in range(2):
            for _ in session.batches([torch.ones(2)] * 3, phase="train", epoch=0):
                pass

    driver = Driver(session, loop)
    for _ in range(4):
        driver.do("step_batch")
    driver.do("step_back")
    assert driver.live == ("train", 0, 3)
    with pytest.raises(TimeTravelError, match="lead back to batch 4 of this phase only"):
        session.step_back()
    driver.finish()
    session.close()


def test_commands_given_on_the_way_back_are_carried_out_there() -> None:
    session, _, driver = small_run(plain_step, batches=30)
    driver.do("step_until_position", "train", 0, 9)
    before = session.pause_count
    session.step_back(3)
    session.set_hyperparameter("lr", 0.01)
    session.step_until_position("train", 0, 8)
    assert "set_hyperparameter" in session.pending
    driver.paused(before)
    assert driver.live == ("train", 0, 8)
    rates = session.run_log.series("lr")["train"].values
    assert rates.tolist() == [0.1] * 7 + [0.01] * 2
    (branch,) = session.branches
    assert branch.why == "lr was set to 0.01"
    session.step_back(3)
    session.detach()
    assert session.wait(20)
    assert session.schedule.batches_done == 30
    assert session.run_log.series("lr")["train"].values.tolist()[:6] == [0.1] * 6
    session.close()


def test_stop_ends_the_way_where_it_is() -> None:
    gate = threading.Event()
    gate.set()

    def body(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        assert gate.wait(20)
        plain_step(x, y, model, optimizer)

    session, _, driver = small_run(body, batches=30)
    session.set_history(budget="1 GB")
    driver.do("step_until_position", "train", 0, 12)
    tape = session._tape  # noqa: SLF001
    assert tape is not None
    tape._frames.drop_from(1)  # noqa: SLF001  so that the way is long
    gate.clear()
    before = session.pause_count
    session.step_back()
    while session.status.detail != "computing batches anew, up to epoch 1, train, batch 12":
        time.sleep(0.001)
    session.step_batch()  # is given up with the way
    session.stop()
    gate.set()
    driver.paused(before)
    assert driver.live[2] < 11
    driver.finish()
    session.close()


def test_pressed_several_times_it_goes_back_as_often() -> None:
    session, _, driver = small_run(plain_step, batches=30)
    driver.do("step_until_position", "train", 0, 20)
    for _ in range(5):
        session.step_back()
    while driver.live != ("train", 0, 15) or session.status.word != "paused":
        time.sleep(0.001)
    driver.do("step_batch")
    assert driver.live == ("train", 0, 16)
    assert not session.history.parted
    driver.finish()
    session.close()


def test_a_loss_that_the_loop_still_holds_does_not_end_the_run() -> None:
    held: list[torch.Tensor] = []

    def body(x: torch.Tensor, y: torch.Tensor, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        held.append(nn.functional.cross_entropy(model(x), y))
        if len(held) == 4:
            torch.stack(held).sum().backward()
            held.clear()
            optimizer.step()

    session, _, driver = small_run(body)
    driver.do("step_batch")
    driver.do("step_back")
    driver.do("step_until_position", "train", 0, 6)
    driver.finish()
    session.close()


def test_a_way_back_in_a_phase_that_was_left_is_given_up() -> None:
    session = nansense_widgets.start(small_model(), epochs=1)
    asked: list[int] = []

    def loop() -> None:
        for number, _ in enumerate(session.batches([torch.ones(2)] * 5, phase="train", epoch=0)):
            if number == 3:
                asked.append(1)
                session.step_back()
                break
        for _ in range(4):
            with session.batch(phase="val", epoch=0):
                pass

    driver = Driver(session, loop)
    session.step_until_position("train", 0, 4)
    driver.paused(1)
    assert asked
    assert session.live_position is not None
    assert session.live_position.phase == "val"
    assert session.notice.startswith(
        "did not go back to epoch 1, train, batch 3: the loop has left that phase"
    )
    driver.finish()
    session.close()


def test_switched_off_it_lets_go_at_once() -> None:
    session, _, driver = small_run(plain_step)
    driver.do("step_batch")
    assert session.history.used_bytes
    session.set_history(budget=0)
    while session.pending:
        time.sleep(0.001)
    assert session.history.used_bytes == 0
    driver.finish()
    session.close()
