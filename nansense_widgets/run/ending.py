"""The end of the process: threads of ours that are inside torch then would take it down with an abort.

Python ends daemon threads when they next ask for its lock. One that is inside torch is unwound through C++
code that does not allow it: "terminate called without an active exception".
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["before_exit"]

Owner = TypeVar("Owner")

_STEPS: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def before_exit(owner: Owner, step: Callable[[Owner], None]) -> None:
    """Call `step(owner)` before the process ends, if `owner` still lives then."""
    if not _STEPS:
        atexit.unregister(_run)
        atexit.register(_run)
    _STEPS[owner] = step


def _run() -> None:
    for owner, step in list(_STEPS.items()):
        step(owner)
