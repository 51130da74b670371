"""For all tests: quick ones first, browser tests last."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest

REPO = Path(__file__).resolve().parent.parent

# No time limit an example: two cores are shared with whatever else runs. CI tries the same examples each
# time, so that a red run is about the change; at a desk new ones are tried.
hypothesis.settings.register_profile("desk", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")

# What costs more comes later. Browser tests are last for a second reason: Playwright's synchronous API leaves
# an event loop running on the main thread, on which `asyncio.run` then refuses to work.
_ORDER = ("notebook", "kernel", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return max(
            (1 + _ORDER.index(mark.name) for mark in item.iter_markers() if mark.name in _ORDER), default=0
        )

    items.sort(key=rank)


@pytest.fixture
def nothing_has_been_compiled() -> None:
    """Statistics of every batch need code that hooks look into: what other tests compiled is forgotten."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    if eval_frame is not None:
        eval_frame.cached_backends.clear()
