"""Statistics of every batch."""

from __future__ import annotations

import pytest

from nansense_widgets.history.spending import Spending


@pytest.fixture(autouse=True)
def every_batch_is_counted(nothing_has_been_compiled: None) -> None:
    """See there."""


@pytest.fixture(autouse=True)
def keeping_is_affordable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state before every batch, however busy the machine is; but for tests of that itself."""
    if "spending" not in request.node.name:
        monkeypatch.setattr(Spending, "affords", lambda *_: True)
