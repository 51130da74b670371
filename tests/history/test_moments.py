"""A moment that is frozen and loaded shows the very numbers, and neither saving nor loading moves anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from tests.driver import Driver
from tests.history.programs import AT, Halves, Program, Tokens, Training, differences, shown


def frozen(program: Program, path: Path, **settings: Any) -> tuple[Training, Driver]:
    """A training that is paused after the batch whose moment is in the file."""
    training = Training(program)
    session = training.session
    session.watch(*program.watched)
    for name, value in settings.items():
        getattr(session, name)(**value)
    session.freeze_moment(path, **AT)  # type: ignore[arg-type]
    session.step_run()  # past the first pause
    session.step_until_position(**AT)
    driver = Driver(session, training.loop)
    assert driver.shown == tuple(AT.values())
    assert session.notice == ""
    return training, driver


def load(program: Program, path: Path, model: nn.Module | None = None) -> Session:
    torch.manual_seed(99)
    return nansense_widgets.load_moment(model or program.model(), path, replay=program.loss)


@pytest.mark.parametrize("program", [Program(), Tokens(), Halves()], ids=lambda one: type(one).__name__)
def test_what_was_shown_is_shown(program: Program, tmp_path: Path) -> None:
    training, driver = frozen(program, tmp_path / "a.moment")
    before = shown(training.session)
    loaded = load(program, tmp_path / "a.moment")
    assert differences(before, shown(loaded)) == []
    snapshot = loaded.snapshot
    assert snapshot is not None
    assert snapshot.activations
    assert snapshot.activation_gradients
    assert snapshot.notes == ()
    assert loaded.status.word == "paused"
    driver.finish()
