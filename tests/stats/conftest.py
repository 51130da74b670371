"""Statistics of every batch need code that hooks can look into: what other tests compiled is forgotten."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_has_been_compiled() -> None:
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    if eval_frame is not None:
        eval_frame.cached_backends.clear()
