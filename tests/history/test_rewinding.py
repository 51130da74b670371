"""Back by batches: whatever way leads to a batch, all is as it is in a straight run to it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import nansense_widgets
from nansense_widgets.history.state import RunParts, take_state
from tests.driver import Driver
from tests.history.test_travel import Pictures

EPOCHS = 3
Place = tuple[str, int, int]


class Program:
    """A loop with all that decides a next batch, and instruments along it."""

    def __init__(self, folder: Path, workers: int = 0, restore: bool = True) -> None:
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(0)
        self.model = nn.Sequential(
            nn.Flatten(), nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 3)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.7)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
        self.loader = DataLoader(Pictures(), batch_size=4, shuffle=True, num_workers=workers)
        self.session = nansense_widgets.start(self.model, optimizer=self.optimizer, scheduler=self.scheduler)
        self.session.track("scaler", self.scaler)
        self.session.watch("1", "2", "3")
        self.session.set_stats_scope("watched")
        self.session.set_patch_layers(None)
        self.session.watch_metric("largest")(lambda ctx: float(ctx.activation.max()))
        self.session.watch_metric("folded", on="epoch", reduce="sum")(lambda ctx: float(ctx.activation.sum()))
        self.folder, self.restore = folder, restore

    def loop(self) -> None:
        for epoch in self.session.epochs(EPOCHS, cache_dir=self.folder):
            if self.restore:
                with self.session.restore_point():
                    self.epoch(epoch)
            else:
                self.epoch(epoch)

    def epoch(self, epoch: int) -> None:
        self.model.train()
        for x, y in self.session.batches(self.loader, phase="train"):
            loss = nn.functional.cross_entropy(self.model(x + 0.1 * torch.randn_like(x)), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=epoch % 2 == 0)
            self.session.log("accuracy", float(loss.detach()) ** 2)
        self.model.eval()
        with torch.no_grad():
            for x, y in self.session.batches(self.loader, phase="val"):
                self.session.log("accuracy", nn.functional.cross_entropy(self.model(x), y))
        self.scheduler.step()

    @property
    def place(self) -> Place:
        last = self.session._run.loop.last  # noqa: SLF001
        assert last is not None
        return last.phase, last.epoch, last.batch_idx

    def seen(self) -> dict[str, Any]:
        """Everything that a straight run to the same batch must have, in plain values."""
        parts = RunParts(self.model, [self.optimizer], [self.scheduler], {"scaler": self.scaler})
        snapshot, stats = self.session.snapshot, self.session.watch_snapshot()
        assert snapshot is not None
        return {
            "state": plain(take_state(parts)),
            "shown": plain((snapshot.position, snapshot.activations, snapshot.activation_gradients)),
            "activations": {key: plain(one.activations) for key, one in stats.stats.items()},
            "gradients": {key: plain(one.gradients) for key, one in stats.stats.items()},
            "batches": {key: one.batches for key, one in stats.stats.items()},
            "patches": {
                key: plain([patch(some) for some in one.gallery or ()]) for key, one in stats.stats.items()
            },
            "parameters": {key: plain(one) for key, one in stats.parameters.items()},
            "metrics": {key: plain(one) for key, one in self.session.watch_metrics_snapshot().series.items()},
            "log": {key: plain(one) for key, one in self.session.run_log.all.items()},
            "progress": (self.session.schedule.batches_done, self.session.schedule.epoch_batches_done),
        }


def patch(one: Any) -> tuple[Any, ...]:
    return one.value, one.position, one.sample.key, one.sample.values, one.heat, one.crop


def plain(value: Any) -> Any:
    """Values that compare by `==`, bit for bit."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), tuple(value.shape), value.detach().contiguous().cpu().numpy().tobytes())
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict) or hasattr(value, "items"):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return plain(vars(value)) if hasattr(value, "__dict__") else value


def stepped_through(program: Program) -> dict[Place, dict[str, Any]]:
    """What is seen after each batch of a straight run."""
    driver = Driver(program.session, program.loop)
    found = {}
    while True:
        found[program.place] = program.seen()
        before = program.session.pause_count
        program.session.step_batch()
        if not program.session.wait_until_paused(after_pauses=before, timeout=20):
            break
    assert driver.session.wait(20)
    program.session.close()
    return found


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if key not in one or key not in other:
                yield f"{place}[{key!r}] is only in {'the second' if key not in one else 'the first'}"
            else:
                yield from differences(one[key], other[key], f"{place}[{key!r}]")
    elif one != other:
        yield f"{place}: {str(one)[:80]} and {str(other)[:80]}"


def check(program: Program, truth: dict[Place, dict[str, Any]]) -> None:
    found = list(differences(program.seen(), truth[program.place]))
    assert not found, (program.place, found[:5])


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[Place, dict[str, Any]]:
    return stepped_through(Program(tmp_path_factory.mktemp("straight")))


def test_a_batch_back_is_the_batch_before(truth: dict[Place, dict[str, Any]], tmp_path: Path) -> None:
    program = Program(tmp_path, restore=False)
    driver = Driver(program.session, program.loop)
    for _ in range(4):
        driver.do("step_batch")
    assert program.place == ("train", 0, 4)
    driver.do("step_back")
    assert program.place == driver.shown == ("train", 0, 3)
    check(program, truth)
    driver.do("step_back", 2)
    assert program.place == ("train", 0, 1)
    check(program, truth)
    for _ in range(6):  # over what was, and on
        driver.do("step_batch")
        check(program, truth)
    assert not program.session.history.parted
    assert not program.session.branches
    driver.finish()
    program.session.close()


@pytest.mark.parametrize("seed", range(6))
def test_any_way_to_a_batch_is_the_straight_one(
    truth: dict[Place, dict[str, Any]], tmp_path: Path, seed: int
) -> None:
    program = Program(tmp_path)
    choose = random.Random(seed)
    driver = Driver(program.session, program.loop)
    order = list(truth)
    for _ in range(30):
        here = order.index(program.place)
        what = choose.choice(["step", "step", "back", "rewind", "until", "phase", "jump"])
        if what == "step" and here < len(order) - 1:
            driver.do("step_batch")
        elif what == "back" and here:
            driver.do("step_back", choose.randint(1, min(here, 5)))
        elif what == "rewind":
            phase, epoch, batch = order[choose.randint(0, here)]
            driver.do("rewind", phase=phase, epoch=epoch, batch_idx=batch)
            assert program.place == (phase, epoch, batch)
        elif what == "until" and here < len(order) - 1:
            driver.do("step_until_position", *order[choose.randint(here + 1, min(here + 9, len(order) - 1))])
        elif what == "phase" and here < len(order) - 8:
            driver.do("step_phase")  # pauses before a batch: what comes before it has begun
            driver.do("step_batch")
        elif what == "jump":
            epochs = program.session.time_travel_status().cached_epochs
            driver.do("request_time_travel", choose.choice([e for e in epochs if e <= program.place[1]]))
            driver.do("step_batch")
        check(program, truth)
    assert not program.session.history.parted
    driver.finish()
    program.session.close()


@pytest.mark.parametrize("seed", range(4))
def test_changes_are_made_again_on_the_way(tmp_path: Path, seed: int) -> None:
    program = Program(tmp_path / "random")
    session, choose = program.session, random.Random(100 + seed)
    driver = Driver(session, program.loop)
    driver.do("step_until_position", "val", 0, 2)
    for _ in range(20):
        trail = session._run.loop.trail  # noqa: SLF001
        order = [(one.phase, one.epoch, b) for one in trail.segments() for b in range(one.first, one.end)]
        what = choose.choice(["step", "back", "rewind", "change", "until"])
        if what == "change":
            session.set_hyperparameter("lr", choose.choice([0.5, 0.02, 0.001]))
            while session.pending:  # the training thread makes it
                time.sleep(0.001)
        elif what == "back" and len(order) > 1:
            driver.do("step_back", choose.randint(1, min(len(order) - 1, 7)))
        elif what == "rewind":
            phase, epoch, batch = choose.choice(order)
            driver.do("rewind", phase=phase, epoch=epoch, batch_idx=batch)
        elif program.place[1:] < (2, 2):
            for _ in range(1 if what == "step" else 4):
                driver.do("step_batch")
    changes = list(session._changes)  # noqa: SLF001
    assert not session.history.parted
    found = program.seen()
    driver.finish()
    session.close()

    other = Program(tmp_path / "straight")
    driver = Driver(other.session, other.loop)
    while other.place != program_place(found):
        for count, change in changes:
            if count == other.session.schedule.batches_done:
                other.session.set_hyperparameter(change.name, change.value)
        driver.do("step_batch")
    for count, change in changes:
        if count == other.session.schedule.batches_done:
            other.session.set_hyperparameter(change.name, change.value)
    while other.session.pending:
        time.sleep(0.001)
    apart = list(differences(found, other.seen()))
    assert not apart, (seed, changes, apart[:5])
    driver.finish()
    other.session.close()


def program_place(seen: dict[str, Any]) -> Place:
    phase, epoch, batch = (seen["shown"][0][name] for name in ("phase", "epoch", "batch_idx"))
    return phase, epoch, batch
