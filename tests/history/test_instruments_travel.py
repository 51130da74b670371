"""After a jump metrics go on as if the abandoned future had never been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nansense_widgets import LayerContext
from tests.driver import TIMEOUT_S, Driver
from tests.history.test_travel import Program


@pytest.fixture(autouse=True)
def every_batch_is_counted(nothing_has_been_compiled: None) -> None:
    """See there."""


class Running:
    """A mean over all batches so far, which a jump begins anew."""

    def __init__(self) -> None:
        self.kept: dict[int, float] = {}
        self.total = 0.0

    def __call__(self, ctx: LayerContext) -> float:
        epoch = ctx.position.epoch
        self.kept.setdefault(epoch, self.total)
        self.total += float(ctx.activation.mean())
        return self.total

    def on_rewind(self, epoch: int) -> None:
        self.total = self.kept[epoch]
        self.kept = {of: total for of, total in self.kept.items() if of < epoch}


def watched(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    session = program.session
    session.watch("1")
    session.watch_metric("norm")(lambda ctx: ctx.activation.norm())
    for reduce in ("mean", "sum", "min", "max", "last", sum):
        session.watch_metric(f"fold {reduce}", on="epoch", reduce=reduce)(lambda ctx: ctx.activation.std())
    session.watch_metric("running")(Running())
    return program


def series(program: Program) -> dict[Any, Any]:
    found = program.session.watch_metrics_snapshot().series
    return {key: (one.xs.tolist(), one.values.tolist(), one.breaks) for key, one in found.items()}


def test_metrics_are_those_of_the_first_run(tmp_path: Path) -> None:
    straight = watched(tmp_path / "straight")
    straight.session.detach()
    straight.session.launch(straight.loop)
    assert straight.session.wait(TIMEOUT_S)
    program = watched(tmp_path / "jumps")
    driver = Driver(program.session, program.loop)
    driver.do("step_epoch")
    driver.do("step_epoch")
    driver.do("step_batch")
    driver.do("request_time_travel", 1)
    assert len(series(program)["1", "train", "norm", ""][0]) == 4  # of the epoch before
    driver.do("step_batch")
    driver.do("request_time_travel", 0)
    driver.finish()
    expected = series(straight)
    assert len(expected) == 16
    assert series(program) == expected
    assert program.session.instrument_errors == {}
    straight.session.close()
    program.session.close()
