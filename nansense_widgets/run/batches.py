"""A loader's items as the loop asks for them, and the arguments that name a batch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["Batches", "checked_epoch", "checked_phase"]

Item = TypeVar("Item")


class Batches(Iterator[Item]):
    """Asks the loader for its iterator when it is asked for its own.

    A DataLoader draws a random number there, so the moment matters for all random numbers after it.
    """

    def __init__(
        self,
        loader: Iterable[Item],
        before: Callable[[], None],
        start: Callable[[Iterator[Item]], Iterator[Item]],
    ) -> None:
        self._loader = loader
        self._before = before
        self._start = start
        self._inner: Iterator[Item] | None = None

    def __iter__(self) -> Iterator[Item]:
        if self._inner is None:
            self._before()
            self._inner = self._start(iter(self._loader))
        # The generator itself, so that a `for` that is left lets go of it at once.
        return self._inner

    def __next__(self) -> Item:
        return next(iter(self))

    def close(self) -> None:
        """Leave the loop, as `break` does."""
        if isinstance(self._inner, Generator):
            self._inner.close()


def checked_phase(phase: Any) -> str:
    """`phase` of a public call; raises `TypeError` or `ValueError`."""
    if not isinstance(phase, str):
        raise TypeError(f"phase={phase!r} must be a string, e.g. 'train'")
    if not phase:
        raise ValueError("phase='' must not be empty")
    return phase


def checked_epoch(epoch: Any) -> int | None:
    """`epoch` of a public call; raises `TypeError` or `ValueError`."""
    if epoch is None:
        return None
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"epoch={epoch!r} must be an int or None")
    if epoch < 0:
        raise ValueError(f"epoch={epoch!r} must not be negative")
    return epoch
