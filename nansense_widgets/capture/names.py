"""Names of functional ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["OpKey", "OpNames"]


class OpKey(NamedTuple):
    """The `ordinal`-th op of this name (from 0) in one call of the module `scope` ("" is the root)."""

    scope: str
    op: str
    ordinal: int


class OpNames:
    """Gives each op its name: `scope.op`, numbered from 1 where the scope has several of that name.

    A name once given stays, so that what is watched stays what it is; when control flow brings a second
    `relu` into a scope later, that one is `relu2`.

    Args:
        reserved: names that are taken, by modules and inputs.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(reserved)
        self._names: dict[OpKey, str] = {}
        self._keys: dict[str, OpKey] = {}

    def get(self, key: OpKey) -> str | None:
        """The name of an op, or None if it has not been settled yet."""
        return self._names.get(key)

    def key(self, name: str) -> OpKey | None:
        """The op of a name."""
        return self._keys.get(name)

    def guesses(self, key: OpKey) -> tuple[str, ...]:
        """Names that a new op may get once its forward is over."""
        numbered = _join(key.scope, f"{key.op}{key.ordinal + 1}")
        names = (numbered, _join(key.scope, key.op)) if key.ordinal == 0 else (numbered,)
        return tuple(name for name in names if name not in self._taken)

    def known(self) -> list[tuple[str, str, int, str]]:
        """Scope, function, ordinal and name of all ops that have one."""
        return [(*key, name) for key, name in self._names.items()]

    def adopt(self, known: Iterable[tuple[str, str, int, str]]) -> None:
        """Give ops the names that they had in another process."""
        for scope, op, ordinal, name in known:
            key = OpKey(scope, op, ordinal)
            self._taken.add(name)
            self._names[key] = name
            self._keys[name] = key

    def settle(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Name what is new, given how many ops of each (scope, name) the longest call of a scope had."""
        for (scope, op), count in counts.items():
            bare = _join(scope, op)
            for ordinal in range(count):
                key = OpKey(scope, op, ordinal)
                if key in self._names:
                    continue
                name = bare
                if count > 1 or bare in self._taken:
                    number = ordinal + 1
                    while (name := f"{bare}{number}") in self._taken:
                        number += 1
                self._taken.add(name)
                self._names[key] = name
                self._keys[name] = key


def _join(scope: str, op: str) -> str:
    return f"{scope}.{op}" if scope else op
