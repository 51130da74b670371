"""What is put in place once for the whole process, for as long as any capture needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Installed"]


class Installed:
    """Counts who needs it: captures of two sessions on two threads begin and end as they like.

    Args:
        put: puts it in place and returns what takes it away again.
    """

    def __init__(self, put: Callable[[], Callable[[], None]]) -> None:
        self._put = put
        self._take_away: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._users = 0

    def need(self) -> None:
        """Be there from here on."""
        with self._lock:
            if self._users == 0:
                self._take_away = self._put()
            self._users += 1

    def release(self) -> None:
        """Not needed any more by one who needed it."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._take_away is not None:
                self._take_away()
                self._take_away = None
