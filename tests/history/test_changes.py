"""Changes of hyperparameters that are gone back over, and over again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from tests.driver import Driver

EPOCHS, BATCHES = 5, 8


class Run:
    """A straight line of batches with a state before each epoch, and the rates they were trained with."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        session = nansense_widgets.start(self.model, optimizer=optimizer)
        data = [torch.randn(4, 3) for _ in range(BATCHES)]
        self.rates: dict[tuple[int, int], float] = {}

        def loop() -> None:
            for _ in session.epochs(EPOCHS, cache_dir=folder):
                with session.restore_point():
                    for x in session.batches(data, phase="train"):
                        at = session.live_position
                        assert at is not None
                        self.rates[at.epoch, at.batch_idx] = optimizer.param_groups[0]["lr"]
                        optimizer.zero_grad()
                        self.model(x).pow(2).mean().backward()
                        optimizer.step()

        self.session = session
        self.driver = Driver(session, loop)

    def to(self, epoch: int, batch: int) -> None:
        self.driver.do("step_until_position", "train", epoch, batch)

    def end(self) -> None:
        self.driver.finish()
        self.session.close()


WAYS: dict[str, list[tuple[Any, ...]]] = {
    "once": [("rewind", "train", 0, 1)],
    "twice": [("rewind", "train", 0, 3), ("rewind", "train", 0, 1)],
    "step by step": [("step_back",)] * 6,
    "to the epoch, twice": [("request_time_travel", 0), ("request_time_travel", 0)],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_change_that_was_undone_is_why_the_run_parts(way: list[tuple[Any, ...]], tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.to(0, 4)
    run.session.set_hyperparameter("lr", 0.01)
    run.to(0, 7)
    for command, *arguments in way:
        run.driver.do(command, *arguments)
    run.to(0, 7)
    assert run.rates[0, 7] == 0.1
    assert run.session.history.parted == ""
    assert "lr was not set to 0.01 again" in [branch.why for branch in run.session.branches]
    run.end()


def test_changes_before_a_jump_forward_are_made_again_after_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.to(4, 2)
    run.driver.do("request_time_travel", 1)
    run.to(1, 2)
    run.session.set_hyperparameter("lr", 0.01)
    run.to(1, 5)
    weights = run.model.weight.detach().clone()
    run.driver.do("request_time_travel", 3)  # what an earlier run has kept
    run.to(3, 1)
    run.rates.clear()
    run.driver.do("rewind", "train", 1, 5)
    assert run.rates == {(1, batch): 0.1 if batch < 3 else 0.01 for batch in range(6)}
    assert torch.equal(run.model.weight, weights)
    assert run.session.history.parted == ""
    run.end()
