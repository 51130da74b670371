"""The public names: what is exported, that all of it is documented, and that the README's code runs."""

from __future__ import annotations

import inspect
import re
import threading
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Mode, Session
from tests.conftest import REPO

TIMEOUT_S = 20.0
NAMES = nansense_widgets.__all__
README = REPO / "README.md"
PAGES = [README, *sorted((REPO / "docs").rglob("*.md"))]


def session_members() -> list[str]:
    return [name for name in dir(Session) if not name.startswith("_")]


def test_the_public_names_are_sorted_and_there() -> None:
    assert sorted(NAMES) == NAMES
    assert all(hasattr(nansense_widgets, name) for name in NAMES)


def test_nothing_is_exported_by_accident() -> None:
    found = {
        name
        for name, value in vars(nansense_widgets).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented(name: str) -> None:
    value = getattr(nansense_widgets, name)
    assert value.__doc__
    # A dataclass without a docstring gets its signature for one.
    assert not value.__doc__.startswith(f"{name}(")
    page = (REPO / "docs/api.md").read_text(encoding="utf-8")
    assert re.search(rf"^::: nansense_widgets\.(start\.)?{name}$", page, re.MULTILINE)


@pytest.mark.parametrize("name", session_members())
def test_every_member_of_the_session_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(inspect.getattr_static(Session, name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_member_that_the_session_lacks(page: Path) -> None:
    named = set(re.findall(r"session\.([a-z_]+)", page.read_text(encoding="utf-8")))
    assert named <= {*session_members(), "py"}  # the module `session.py` is no member


def test_the_code_of_the_readme_runs() -> None:
    """As written, on a tiny model and data; this thread does what a user would click."""
    text = README.read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    batch = (torch.randn(4, 6), torch.randint(0, 3, (4,)))
    names = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss_fn": nn.CrossEntropyLoss(),
        "train_loader": [batch] * 3,
        "val_loader": [batch] * 2,
    }
    exec(compile(code, "README.md", "exec"), names)  # ours, and meant to be run

    session = names["session"]
    assert isinstance(session, Session)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    pauses = session.pause_count
    session.watch("0")
    session.step_phase()
    assert session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S)
    assert session.live_position is not None
    assert session.live_position.key == ("val", 0, 0)
    assert session.snapshot is not None
    assert session.snapshot.position.key == ("train", 0, 2)
    assert session.snapshot.activations["0"].shape == (4, 8)
    session.step_run()
    assert session.wait_until_paused(after_pauses=pauses + 1, timeout=TIMEOUT_S)
    assert session.live_position.key == ("val", 9, 1)
    session.detach()
    assert session.mode is Mode.DETACH
    assert session.wait(TIMEOUT_S)
    assert not [thread for thread in threading.enumerate() if thread.name == "nansense-training"]
    session.close()
