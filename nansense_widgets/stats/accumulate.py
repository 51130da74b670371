"""Folds the values of one tensor after another into counts and moments."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np
import torch

from nansense_widgets.stats.bins import INF, MINUS_INF, NAN, in_order
from nansense_widgets.stats.on_device import DeviceStats, DeviceSummary, is_asynchronous, summarise_on_device
from nansense_widgets.stats.rows import RowCounts
from nansense_widgets.stats.snapshot import TensorStatsSnapshot
from nansense_widgets.stats.summary import Expected, Mask, Summary, summarise
from nansense_widgets.stats.views import Views

__all__ = ["CHANNEL_LIMIT", "TensorStats"]

CHANNEL_LIMIT = 16
"""Channels with a histogram of their own, by default."""

FEW = 0.25
"""Up to this share of the channels are looked at one by one; of more, all are."""


class TensorStats:
    """Statistics of all values folded so far.

    Moments are over finite values and kept as mean and sum of squared differences from it, merged pairwise
    (Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample
    variances"), in float64, so that neither many values nor a large offset costs them precision.

    Args:
        channel_axis: axis of the channels in every tensor, or None if there is none.
        channel_limit: how many channels have a histogram of their own; all are looked at for being dead.
    """

    def __init__(self, channel_axis: int | None, channel_limit: int = CHANNEL_LIMIT) -> None:
        self.axis = channel_axis
        self.limit = channel_limit
        self.dtype: torch.dtype | None = None
        """Of the tensors; the one that came last."""
        self._rows = RowCounts()
        self._zeros = self._minus_zeros = 0
        self._alive: Mask = np.zeros(0, np.bool_)
        self._suspects: tuple[int, ...] | None = None
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._min = math.inf
        self._max = -math.inf
        self.has_nonfinite = False
        """Whether a value was NaN or infinite; on an accelerator it is known when they are fetched."""
        self.first_nonfinite: int | None = None
        self.is_viewed = False
        """Whether another layer has given a view of the values."""
        self._devices: dict[torch.device, DeviceStats] = {}

    @property
    def is_centred(self) -> bool:
        """Whether the mean so far is small beside the deviation."""
        return self._n > 0 and self._mean * self._mean * self._n <= 4 * self._squares

    def suspects(self, tensor: torch.Tensor) -> tuple[int, ...] | None:
        """Channels of a tensor that may be dead, as far as is known; None: any of them."""
        if self.axis is None or not -tensor.ndim <= self.axis < tensor.ndim:
            return ()
        return self._suspects if len(self._alive) == tensor.shape[self.axis] else None

    def fold(self, tensor: torch.Tensor) -> None:
        """Add all values of a tensor."""
        self.dtype = tensor.dtype
        for summary in self.summaries(tensor):
            self.add(summary)

    def summaries(
        self, tensor: torch.Tensor, views: Views | None = None
    ) -> Sequence[Summary | DeviceSummary]:
        """What is to be added of a tensor's values; `views` remembers what was counted before them."""
        if views is not None:
            known = views.summary(tensor, self.axis, self.limit, self.expected(tensor), self)
            if known is not None:
                return (known,)
        if not tensor.is_cpu:
            if is_asynchronous(tensor):
                return summarise_on_device(tensor, self.axis, self.limit)
            tensor = tensor.cpu()
        return summarise(tensor, self.axis, self.limit, self.expected(tensor))

    def expected(self, tensor: torch.Tensor) -> Expected:
        """What is known already, to be used for a tensor that comes."""
        return Expected(self._mean, self.is_centred, self.suspects(tensor), self._rows.layout)

    def add(self, summary: Summary | DeviceSummary) -> None:
        """Add what is known of some values."""
        if isinstance(summary, DeviceSummary):
            self._devices.setdefault(summary.counts.device, DeviceStats()).add(summary)
        else:
            self._add(summary)

    def _add(self, summary: Summary) -> None:
        self._rows.add(summary.rows, summary.tiny)
        self._zeros += summary.zeros[0]
        self._minus_zeros += summary.zeros[1]
        if summary.alive is not None:
            self._add_alive(summary.alive)
        n, mean, squares, low, high = summary.moments
        self.has_nonfinite |= summary.special
        if n == 0:
            return
        self._min, self._max = min(self._min, low), max(self._max, high)
        everything = self._n + n
        delta = mean - self._mean
        self._squares += squares + delta * delta * (self._n * n / everything)
        self._mean += delta * (n / everything)
        self._n = everything

    def snapshot(self) -> TensorStatsSnapshot:
        """What is known now, independent of what comes."""
        for device in self._devices.values():
            drained = device.drain()
            if drained is not None:
                self._add(drained)
        if self._rows.layout.rows == 0:
            return TensorStatsSnapshot()
        counts = self._rows.raw()[0]
        zeros = torch.tensor([self._zeros, self._minus_zeros], device="cpu")
        has_channels = self._rows.layout.rows > 1
        return TensorStatsSnapshot(
            n=self._n,
            sum=self._mean * self._n,
            sum_sq=self._squares + self._n * self._mean * self._mean,
            min=self._min if self._n else math.nan,
            max=self._max if self._n else math.nan,
            nan=int(counts[NAN].sum()),
            posinf=int(counts[INF]),
            neginf=int(counts[MINUS_INF]),
            first_nonfinite=self.first_nonfinite,
            hist=in_order(torch.from_numpy(counts), zeros),
            rows=self._rows.copy() if has_channels else None,
            alive=torch.from_numpy(self._alive.copy()) if has_channels else None,
            mean=self._mean if self._n else math.nan,
            variance=self._squares / self._n if self._n else math.nan,
            dtype=self.dtype,
        )

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return (
            self._rows.nbytes + self._alive.nbytes + sum(device.nbytes for device in self._devices.values())
        )

    def copy(self) -> TensorStats:
        """An independent copy."""
        other = copy.copy(self)
        other._rows = self._rows.copy()
        other._alive = self._alive.copy()
        other._devices = {device: stats.copy() for device, stats in self._devices.items()}
        return other

    def _add_alive(self, alive: Mask) -> None:
        if len(alive) > len(self._alive):
            self._alive = np.concatenate([self._alive, np.zeros(len(alive) - len(self._alive), np.bool_)])
            self._suspects = None
        self._alive[: len(alive)] |= alive
        dead = np.flatnonzero(~self._alive)
        self._suspects = tuple(dead.tolist()) if len(dead) <= FEW * len(self._alive) else None
