"""Batches of a phase that come again: what the loop asks of whoever keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

__all__ = ["PhaseItems", "Straight", "Target"]

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Target(NamedTuple):
    """The batch after which training is to stand again; -1: before the first one of that phase."""

    phase: str
    epoch: int
    batch_idx: int

    def __str__(self) -> str:
        where = f"epoch {self.epoch + 1}, {self.phase}"
        return f"{where}, batch {self.batch_idx + 1}" if self.batch_idx >= 0 else f"the beginning of {where}"


class PhaseItems(Protocol[Item_co]):
    """The items of a phase in their order, each with its number, from 0; some of them perhaps again."""

    def __iter__(self) -> Iterator[tuple[int, Item_co]]:
        """Itself."""

    def __next__(self) -> tuple[int, Item_co]:
        """The next one; it must not be kept, or only as a copy."""


class Straight(Generic[Item]):
    """Each item once."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._number = -1

    def __iter__(self) -> Iterator[tuple[int, Item]]:
        return self

    def __next__(self) -> tuple[int, Item]:
        item = next(self._items)
        self._number += 1
        return self._number, item
