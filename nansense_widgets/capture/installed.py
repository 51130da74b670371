"""What is put in place once for the whole process, for as long as any capture needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Installed", "Patch"]

Patch = tuple[Any, str, Callable[[Any], Any]]
"""A module or class, the name of a function of it, and what makes the function put in its place."""


class Installed:
    """Knows who needs it: captures of two sessions on two threads begin and end as they like.

    An interrupt at any moment leaves a state that the next `release` puts right.

    Args:
        patches: asked for when the first one needs it; functions that are not there are left out.
    """

    def __init__(self, patches: Callable[[], Iterable[Patch]]) -> None:
        self._patches = patches
        self._made: dict[tuple[int, str], tuple[Any, Any]] = {}
        """What was put in place of which function last: mostly it is the same again."""
        self._originals: list[tuple[Any, str, Any]] = []
        self._lock = threading.Lock()
        self._users: set[int] = set()

    def need(self, user: object) -> None:
        """Be there from here on."""
        with self._lock:
            first = not self._users
            self._users.add(id(user))
            if first:
                for owner, name, wrap in self._patches():
                    original = getattr(owner, name, None)
                    if original is not None:
                        made = self._made.get((id(owner), name))
                        if made is None or made[0] is not original:
                            made = self._made[(id(owner), name)] = (original, wrap(original))
                        self._originals.append((owner, name, original))
                        setattr(owner, name, made[1])

    def release(self, user: object) -> bool:
        """Not needed any more by this one; whether nobody needs it now. May be called twice."""
        return self.release_id(id(user))

    def release_id(self, user: int) -> bool:
        """The same for one that is gone, by the `id` that it had."""
        with self._lock:
            self._users.discard(user)
            if self._users:
                return False
            while self._originals:
                owner, name, original = self._originals[-1]
                # What somebody else has put there meanwhile stays, with ours inside doing nothing.
                if getattr(owner, name, None) is self._made[(id(owner), name)][1]:
                    setattr(owner, name, original)
                self._originals.pop()
            return True
