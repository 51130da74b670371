"""Statistics of every batch."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def every_batch_is_counted(nothing_has_been_compiled: None) -> None:
    """See there."""
