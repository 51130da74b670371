"""The most extreme samples of each channel so far."""

from __future__ import annotations

import bisect
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Ranked", "Ranking", "Winner"]


class Ranked(Protocol):
    """What is ranked."""

    @property
    def key(self) -> object:
        """Which sample it is of: one has one place in a ranking."""

    @property
    def value(self) -> float:
        """What it is ranked by."""


R = TypeVar("R", bound=Ranked)


class Winner(NamedTuple):
    """A response that belongs among the most extreme ones."""

    sample: int
    channel: int
    value: float


class Ranking(Generic[R]):
    """The `count` samples with the largest values of each channel.

    Args:
        channels: how many.
        count: samples kept of each.
        sign: -1: the smallest values instead.
    """

    def __init__(self, channels: int, count: int, sign: int) -> None:
        self._count = count
        self._sign = sign
        self._ranked: list[list[R]] = [[] for _ in range(channels)]
        self._order: list[list[float]] = [[] for _ in range(channels)]
        # What a value must exceed; NaN: any will do, since there are not enough yet.
        self._bars = np.full(channels, np.nan)

    def winners(self, values: npt.NDArray[np.float64]) -> list[Winner]:
        """Responses that would be kept: values of shape (samples, channels); NaN is never kept."""
        scores = values * self._sign
        if not self._above(scores).any():
            return []
        best = np.argsort(-scores, axis=0, kind="stable")[: self._count]
        rank, channel = np.nonzero(self._above(np.take_along_axis(scores, best, 0)))
        sample = best[rank, channel]
        found = zip(sample.tolist(), channel.tolist(), values[sample, channel].tolist(), strict=True)
        return [Winner(*winner) for winner in found]

    def add(self, channel: int, new: R) -> None:
        """Keep one in place of the least extreme one; of one sample the better one stays."""
        ranked, order = self._ranked[channel], self._order[channel]
        at = -new.value * self._sign
        for i, other in enumerate(ranked):
            if other.key == new.key:
                if order[i] <= at:
                    return
                del ranked[i], order[i]
                break
        place = bisect.bisect_right(order, at)
        ranked.insert(place, new)
        order.insert(place, at)
        del ranked[self._count :], order[self._count :]
        if len(order) == self._count:
            self._bars[channel] = -order[-1]

    def of(self, channel: int) -> list[R]:
        """Those kept of a channel, the most extreme one first."""
        return self._ranked[channel]

    def copy(self) -> Ranking[R]:
        """An independent copy."""
        other: Ranking[R] = Ranking(len(self._ranked), self._count, self._sign)
        other._ranked = [list(ranked) for ranked in self._ranked]
        other._order = [list(order) for order in self._order]
        other._bars = self._bars.copy()
        return other

    def _above(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (scores > self._bars) | (np.isnan(self._bars) & ~np.isnan(scores))
        return found
