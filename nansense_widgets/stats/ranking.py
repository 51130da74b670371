"""The most extreme samples of each channel so far."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nansense_widgets.stats.gallery import Patch

__all__ = ["Ranking", "Winner"]

SampleKey = tuple[int, int, int]
"""Batch, call of the model in it, and place in it."""


@dataclass(frozen=True)
class Winner:
    """A response that belongs among the most extreme ones."""

    channel: int
    sample: int
    value: float


class Ranking:
    """The `count` samples with the largest values of each channel.

    Args:
        channels: how many.
        count: samples kept of each.
        sign: -1: the smallest values instead.
    """

    def __init__(self, channels: int, count: int, sign: int) -> None:
        self._count = count
        self._sign = sign
        self._patches: list[list[Patch]] = [[] for _ in range(channels)]
        # What a value must exceed; NaN: any will do, since there are not enough yet.
        self._bars = np.full(channels, np.nan)

    def winners(self, values: npt.NDArray[np.float64]) -> list[Winner]:
        """Responses that would be kept: values of shape (samples, channels); NaN is never kept."""
        values = values * self._sign
        above = (values > self._bars) | (np.isnan(self._bars) & ~np.isnan(values))
        found: list[Winner] = []
        for channel in np.flatnonzero(above.any(0)):
            rows = np.flatnonzero(above[:, channel])
            best = rows[np.argsort(-values[rows, channel], kind="stable")[: self._count]]
            found += [Winner(int(channel), int(b), float(values[b, channel]) * self._sign) for b in best]
        return found

    def add(self, channel: int, patch: Patch) -> None:
        """Keep a patch, in place of the least extreme one; of one sample the better one stays."""
        patches = self._patches[channel]
        for i, other in enumerate(patches):
            if _key(other) == _key(patch):
                if other.value * self._sign >= patch.value * self._sign:
                    return
                del patches[i]
                break
        bisect.insort_right(patches, patch, key=lambda one: -one.value * self._sign)
        del patches[self._count :]
        if len(patches) == self._count:
            self._bars[channel] = patches[-1].value * self._sign

    def patches(self, channel: int) -> tuple[Patch, ...]:
        """Those kept of a channel, the most extreme one first."""
        return tuple(self._patches[channel])


def _key(patch: Patch) -> SampleKey:
    return patch.sample.batch_idx, patch.sample.forward, patch.sample.index
