"""How much of the training's time may be spent on keeping its past."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["SHARE", "Spending"]

SHARE = 0.015
"""Of the time that goes by; pauses count, in which nobody waits for a computation."""

AT_ONCE = 0.02
"""Seconds that may come together, at least: after a pause the next batch may cost that much at once."""


CHEAP = 0.001
"""Seconds a batch that are spent in any case: short batches can be gone back to as well."""


class Spending:
    """A purse that fills with time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last = clock()
        self._credit = AT_ONCE
        self._costs: dict[str, float] = {}

    def affords(self, what: str) -> bool:
        """Whether there is credit for what it cost the last times."""
        now = self._clock()
        cost = self._costs.get(what, 0.0)
        self._credit = min(self._credit + SHARE * (now - self._last), max(AT_ONCE, 2 * cost))
        self._last = now
        return self._credit >= cost

    def is_cheap(self, what: str) -> bool:
        """Whether it cost so little the last times that nobody feels it."""
        return self._costs.get(what, 0.0) < CHEAP

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Pay for what happens inside: processor time of this thread, which others do not lengthen."""
        began = time.thread_time()
        try:
            yield
        finally:
            took = time.thread_time() - began
            known = self._costs.get(what)
            self._costs[what] = took if known is None else (3 * known + took) / 4
            self._credit -= took
