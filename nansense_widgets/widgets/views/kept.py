"""What a view has made and may use again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Kept"]

Made = TypeVar("Made")


class Kept:
    """The last `most` things that were made, by key; of more, the oldest goes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for a key, or `make()`."""
        if key in self._made:
            self._made[key] = self._made.pop(key)  # it is the newest now
        else:
            made = make()
            while len(self._made) >= self._most:
                del self._made[next(iter(self._made))]
            self._made[key] = made
        found: Made = self._made[key]
        return found

    def clear(self) -> None:
        self._made.clear()
