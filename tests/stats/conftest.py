"""Statistics of every batch need code that hooks can look into: what other tests compiled is forgotten."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_has_been_compiled() -> None:
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.counters.clear()
