"""Folds the values of one tensor after another into counts and moments, on the tensors' own device."""

from __future__ import annotations

import math

import numpy as np
import torch

from nansense_widgets.stats.bins import RAW, in_order, raw_bins
from nansense_widgets.stats.snapshot import TensorStatsSnapshot

__all__ = ["TensorStats", "as_numbers"]

CHANNEL_LIMIT = 16
"""Channels with a histogram of their own, by default."""

_SAFE = 1e18
"""Differences below this have squares that float32's exponents hold."""


def as_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in float32 where that is exact, else float64; magnitudes of complex numbers."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = tensor.abs()
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor.resolve_neg().contiguous()
    wide = tensor.dtype in (torch.int32, torch.int64, torch.uint32, torch.uint64)
    return tensor.to(torch.float64 if wide else torch.float32).contiguous()


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
        self._axis = channel_axis
        self._limit = channel_limit
        self._counts: torch.Tensor | None = None
        self._zeros = torch.zeros(2, dtype=torch.int64)
        self._rows: torch.Tensor | None = None
        self._row_zeros: torch.Tensor | None = None
        self._last_rows = torch.zeros(0, RAW, dtype=torch.int64)
        self._alive: torch.Tensor | None = None
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._min = math.inf
        self._max = -math.inf

    def fold(self, tensor: torch.Tensor) -> None:
        """Add all values of a tensor."""
        values = as_numbers(tensor)
        if values.numel() == 0:
            return
        axis = self._channel_axis(values)
        bins = raw_bins(values)
        counts = self._count(bins, axis)
        if self._counts is None:
            self._counts = torch.zeros(RAW, dtype=torch.int64, device=values.device)
        self._counts += counts
        self._count_zeros(values, counts, axis)
        if axis is not None:
            self._look_for_life(values, axis)
        flat = values.reshape(-1)
        special = counts.view(2, -1)[:, -4:].sum()
        self._add_moments(flat if not special else flat[flat.isfinite()])

    def snapshot(self) -> TensorStatsSnapshot:
        """What is known now, on the CPU and independent of what comes."""
        if self._counts is None:
            return TensorStatsSnapshot()
        counts = self._counts.cpu()
        rows = None
        if self._rows is not None and self._row_zeros is not None:
            rows = in_order(self._rows.cpu(), self._row_zeros.cpu())
        return TensorStatsSnapshot(
            n=self._n,
            sum=self._mean * self._n,
            sum_sq=self._squares + self._n * self._mean * self._mean,
            min=self._min if self._n else math.nan,
            max=self._max if self._n else math.nan,
            nan=int(counts[_NAN].sum()),
            posinf=int(counts[_INF]),
            neginf=int(counts[_INF + RAW // 2]),
            hist=in_order(counts, self._zeros.cpu()),
            channel_hists=rows,
            channel_nonfinite=None if self._rows is None else self._rows[:, _SPECIAL].sum(1).cpu(),
            alive=None if self._alive is None else self._alive.cpu().clone(),
            mean=self._mean if self._n else math.nan,
            variance=self._squares / self._n if self._n else math.nan,
        )

    def _channel_axis(self, values: torch.Tensor) -> int | None:
        if self._axis is None or not -values.ndim <= self._axis < values.ndim:
            return None
        return self._axis % values.ndim

    def _count(self, bins: torch.Tensor, axis: int | None) -> torch.Tensor:
        if axis is None:
            return torch.bincount(bins.reshape(-1), minlength=RAW)
        channels = bins.shape[axis]
        rows = min(channels, self._limit)
        if self._rows is None or self._rows.shape[0] < rows:
            self._rows = _grown(self._rows, (rows, RAW), bins.device)
        some = bins if rows == channels else bins.narrow(axis, 0, rows)
        shape = [1] * bins.ndim
        shape[axis] = rows
        offsets = torch.arange(rows, dtype=torch.int32, device=bins.device).mul_(RAW).view(shape)
        by_row = torch.bincount((some + offsets).reshape(-1), minlength=rows * RAW).view(rows, RAW)
        self._rows[:rows] += by_row
        self._last_rows = by_row
        return by_row.sum(0) if rows == channels else torch.bincount(bins.reshape(-1), minlength=RAW)

    def _count_zeros(self, values: torch.Tensor, counts: torch.Tensor, axis: int | None) -> None:
        """Zeros share their bin with the smallest subnormal numbers, of which there are hardly ever any."""
        positive, negative = int(counts[0]), int(counts[RAW // 2])
        zeros = _count_true(values == 0) if positive + negative else 0
        only_zeros = zeros == positive + negative
        if not only_zeros and zeros:
            is_zero = values == 0
            negative = _count_true(is_zero & values.signbit())
            positive = zeros - negative
        elif not zeros:
            positive = negative = 0
        self._zeros += torch.tensor([positive, negative])
        if axis is None or self._rows is None:
            return
        rows = self._last_rows.shape[0]
        self._row_zeros = _grown(self._row_zeros, (self._rows.shape[0], 2), values.device)
        if only_zeros:
            self._row_zeros[:rows] += self._last_rows[:, [0, RAW // 2]]
        elif zeros:
            some = values.narrow(axis, 0, rows)
            others = [other for other in range(values.ndim) if other != axis]
            is_zero, signed = some == 0, some.signbit()
            found = ((is_zero & ~signed).sum(others), (is_zero & signed).sum(others))
            self._row_zeros[:rows] += torch.stack(found, 1)

    def _look_for_life(self, values: torch.Tensor, axis: int) -> None:
        others = [other for other in range(values.ndim) if other != axis]
        # NaN passes through both, and is not zero: a channel of NaN is broken, not dead.
        alive = (values.amin(others) != 0) | (values.amax(others) != 0) if others else values != 0
        if self._alive is None or self._alive.shape[0] < alive.shape[0]:
            grown = torch.zeros(alive.shape[0], dtype=torch.bool, device=values.device)
            if self._alive is not None:
                grown[: self._alive.shape[0]] = self._alive
            self._alive = grown
        self._alive[: alive.shape[0]] |= alive

    def _add_moments(self, finite: torch.Tensor) -> None:
        n = finite.numel()
        if n == 0:
            return
        low, high = (float(end) for end in torch.aminmax(finite))
        self._min, self._max = min(self._min, low), max(self._max, high)
        shift = self._mean if self._n and low <= self._mean <= high else low / 2 + high / 2
        if max(abs(low), abs(high)) > _SAFE:
            finite = finite.double()
        if finite.dtype is torch.float32:
            shift = float(np.float32(shift))  # as it will be subtracted
        differences = (finite - shift).double()
        total = float(differences.sum())
        squares = float(torch.dot(differences, differences))
        mean = shift + total / n
        squares = max(squares - total * total / n, 0.0)
        everything = self._n + n
        delta = mean - self._mean
        self._squares += squares + delta * delta * (self._n * n / everything)
        self._mean += delta * (n / everything)
        self._n = everything


_INF = 0xFF << 2
_NAN = [_INF + 1, _INF + 2, _INF + 3, _INF + 1 + RAW // 2, _INF + 2 + RAW // 2, _INF + 3 + RAW // 2]
_SPECIAL = [_INF, _INF + RAW // 2, *_NAN]


def _count_true(mask: torch.Tensor) -> int:
    # numpy counts a mask many times faster than torch does.
    return int(np.count_nonzero(mask.numpy())) if mask.device.type == "cpu" else int(mask.sum())


def _grown(before: torch.Tensor | None, shape: tuple[int, int], device: torch.device) -> torch.Tensor:
    """Rows of zeros, with what was there before in the first."""
    if before is not None and before.shape[0] >= shape[0]:
        return before
    fresh = torch.zeros(shape, dtype=torch.int64, device=device)
    if before is not None:
        fresh[: before.shape[0]] = before
    return fresh
