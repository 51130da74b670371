"""Paces trait writes and keeps them on the kernel's main thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Publisher"]

INTERVAL_S = 0.05
"""At most 20 updates a second: past 1,000 messages a second a server drops them without a word."""

BURST = 4
"""Updates that may follow each other at once after a quiet moment: a step is `running`, then `paused`."""


LOST_S = 2.0
"""After so long without an update another is ordered: an interrupt of the kernel may have ended the first."""


class Publisher:
    """Calls `update` soon after a poke, on the event loop of the main thread, at most 20 times a second.

    Many pokes make one update, of the latest state. While a cell keeps the loop busy, whoever holds the
    main thread (a training loop in a cell, `session.wait()`) calls `pump` instead.
    """

    def __init__(self, update: Callable[[], None]) -> None:
        self._update = update
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._poked = False
        self._scheduled = False
        self._scheduled_at = 0.0
        self._next = 0.0

    def find_loop(self) -> None:
        """Remember the running event loop (called from a cell, where there is one)."""
        with suppress(RuntimeError):  # a plain script or a test: `pump` is all there is
            self._loop = asyncio.get_running_loop()

    def poke(self) -> None:
        """An update is due (any thread)."""
        with self._lock:
            self._poked = True
            now = time.monotonic()
            waits = self._scheduled and now < self._scheduled_at + LOST_S
            if waits or self._loop is None or self._loop.is_closed():
                return
            self._scheduled, self._scheduled_at = True, now
        with suppress(RuntimeError):  # the loop was closed just now: nobody is left to be told
            self._loop.call_soon_threadsafe(self._tick)

    def pump(self) -> None:
        """Update now if one is due (main thread only)."""
        now = time.monotonic()
        with self._lock:
            if not self._poked or now < self._next:
                return
            self._poked = False
            # A quiet moment earns a few updates without a wait between them, not more.
            self._next = max(self._next, now - BURST * INTERVAL_S) + INTERVAL_S
        self._update()

    def _tick(self) -> None:
        with self._lock:
            wait = self._next - time.monotonic()
            if wait <= 0:
                self._scheduled = False
        if wait > 0 and self._loop is not None:
            self._loop.call_later(wait, self._tick)
            return
        self.pump()
