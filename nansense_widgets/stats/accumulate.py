"""Folds the values of one tensor after another into counts and moments, on the tensors' own device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.bins import (
    INF,
    MINUS_INF,
    MINUS_ZERO,
    NAN,
    RAW,
    SPECIAL,
    ZERO,
    in_order,
    raw_bins,
)
from nansense_widgets.stats.snapshot import TensorStatsSnapshot

__all__ = ["TensorStats", "as_numbers"]

CHANNEL_LIMIT = 16
"""Channels with a histogram of their own, by default."""

PART = 2**20
"""Values folded at a time."""

ROW = 2048
"""Squares added up in float32 before they go into float64."""

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
        for part in _parts(values, axis):
            self._fold(part, axis)

    def _fold(self, values: torch.Tensor, axis: int | None) -> None:
        rows = 0 if axis is None else min(values.shape[axis], self._limit)
        counts, by_row = _counted(values, axis, rows)
        if self._counts is None:
            self._counts = torch.zeros(RAW, dtype=torch.int64, device=values.device)
        self._counts += counts
        row_zeros = self._count_zeros(values, counts, axis, by_row)
        if axis is not None and by_row is not None and row_zeros is not None:
            self._rows = _grown(self._rows, (rows, RAW), values.device)
            self._row_zeros = _grown(self._row_zeros, (self._rows.shape[0], 2), values.device)
            self._rows[:rows] += by_row
            self._row_zeros[:rows] += row_zeros
            self._look_for_life(values, axis, by_row, row_zeros)
        flat = values.reshape(-1)
        special = counts[SPECIAL].sum()
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
            nan=int(counts[NAN].sum()),
            posinf=int(counts[INF]),
            neginf=int(counts[MINUS_INF]),
            hist=in_order(counts, self._zeros.cpu()),
            channel_hists=rows,
            channel_nonfinite=None if self._rows is None else self._rows[:, SPECIAL].sum(1).cpu(),
            alive=None if self._alive is None else self._alive.cpu().clone(),
            mean=self._mean if self._n else math.nan,
            variance=self._squares / self._n if self._n else math.nan,
        )

    def _channel_axis(self, values: torch.Tensor) -> int | None:
        if self._axis is None or not -values.ndim <= self._axis < values.ndim:
            return None
        return self._axis % values.ndim

    def _count_zeros(
        self, values: torch.Tensor, counts: torch.Tensor, axis: int | None, by_row: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Zeros share their bin with the smallest subnormal numbers, of which there are hardly ever any.

        Returns those of each row.
        """
        near = (int(counts[ZERO]), int(counts[MINUS_ZERO]))
        positive = _count_zero_bits(values) if near[0] else 0
        negative = _count_minus_zero(values) if near[1] else 0
        only_zeros = near == (positive, negative)
        self._zeros += torch.tensor([positive, negative])
        if by_row is None or axis is None:
            return None
        if only_zeros:
            return by_row[:, [ZERO, MINUS_ZERO]]
        some = values.narrow(axis, 0, by_row.shape[0])
        others = [other for other in range(values.ndim) if other != axis]
        is_zero, signed = some == 0, some.signbit()
        if not others:
            return torch.stack((is_zero & ~signed, is_zero & signed), 1).long()
        return torch.stack(((is_zero & ~signed).sum(others), (is_zero & signed).sum(others)), 1)

    def _look_for_life(
        self, values: torch.Tensor, axis: int, by_row: torch.Tensor, row_zeros: torch.Tensor
    ) -> None:
        channels = values.shape[axis]
        others = [other for other in range(values.ndim) if other != axis]
        if by_row.shape[0] == channels:
            alive = row_zeros.sum(1) != values.numel() // channels
        elif others:
            # NaN passes through both, and is not zero: a channel of NaN is broken, not dead.
            alive = (values.amin(others) != 0) | (values.amax(others) != 0)
        else:
            alive = values != 0
        if self._alive is None or self._alive.shape[0] < channels:
            grown = torch.zeros(channels, dtype=torch.bool, device=values.device)
            if self._alive is not None:
                grown[: self._alive.shape[0]] = self._alive
            self._alive = grown
        self._alive[:channels] |= alive

    def _add_moments(self, finite: torch.Tensor) -> None:
        n = finite.numel()
        if n == 0:
            return
        low, high = (float(end) for end in torch.aminmax(finite))
        self._min, self._max = min(self._min, low), max(self._max, high)
        size = max(abs(low), abs(high))
        if finite.dtype is torch.float32 and size < _SAFE and self._is_centred:
            mean = float(finite.sum(dtype=torch.float64)) / n
            squares = max(_sum_of_squares(finite) - n * mean * mean, 0.0)
        else:
            shift = self._mean if self._n and low <= self._mean <= high else low / 2 + high / 2
            if size > _SAFE:
                finite = finite.double()
            if finite.dtype is torch.float32:
                shift = float(np.float32(shift))  # as it will be subtracted
            differences = (finite - shift).double()
            total = float(differences.sum())
            mean = shift + total / n
            squares = max(float(torch.dot(differences, differences)) - total * total / n, 0.0)
        everything = self._n + n
        delta = mean - self._mean
        self._squares += squares + delta * delta * (self._n * n / everything)
        self._mean += delta * (n / everything)
        self._n = everything

    @property
    def _is_centred(self) -> bool:
        """Whether the mean is small beside the deviation, so that squares need not be taken from the mean."""
        return self._n > 0 and self._mean * self._mean * self._n <= 4 * self._squares


def _count_zero_bits(values: torch.Tensor) -> int:
    # numpy counts many times faster than torch does.
    return values.numel() - int(np.count_nonzero(_bits(values))) if _on_cpu(values) else _count(values == 0)


def _count_minus_zero(values: torch.Tensor) -> int:
    if not _on_cpu(values):
        return _count((values == 0) & values.signbit())
    bits = _bits(values)
    return int(np.count_nonzero(bits == np.iinfo(bits.dtype).min))


def _bits(values: torch.Tensor) -> npt.NDArray[np.signedinteger[Any]]:
    numbers = values.numpy()
    return numbers.view(np.int32 if numbers.dtype == np.float32 else np.int64)


def _on_cpu(values: torch.Tensor) -> bool:
    return values.device.type == "cpu"


def _count(mask: torch.Tensor) -> int:
    return int(mask.sum())


def _parts(values: torch.Tensor, axis: int | None) -> Sequence[torch.Tensor]:
    """The values in pieces that fit the scratch memory, each with all channels."""
    if values.numel() <= PART:
        return (values,)
    if axis is None:
        return torch.split(values.reshape(-1), PART)
    along = 0 if axis != 0 else values.ndim - 1
    if along == axis:  # one axis only: its channels are single numbers
        return (values,)
    one = values.numel() // values.shape[along]
    return torch.split(values, max(1, PART // one), along)


def _counted(values: torch.Tensor, axis: int | None, rows: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Values in each raw bin: int64 of shape (2048,), and of shape (rows, 2048) for the first channels."""
    if axis is None:
        return torch.bincount(raw_bins(values).reshape(-1), minlength=RAW), None
    shape = [1] * values.ndim
    shape[axis] = rows
    offsets = torch.arange(rows, dtype=torch.int32, device=values.device).mul_(RAW).view(shape)
    if rows == values.shape[axis]:
        bins = raw_bins(values, offsets)
        by_row = torch.bincount(bins.reshape(-1), minlength=rows * RAW).view(rows, RAW)
        return by_row.sum(0), by_row
    bins = raw_bins(values)
    some = (bins.narrow(axis, 0, rows) + offsets).reshape(-1)
    by_row = torch.bincount(some, minlength=rows * RAW).view(rows, RAW)
    return torch.bincount(bins.reshape(-1), minlength=RAW), by_row


def _sum_of_squares(values: torch.Tensor) -> float:
    """In float32 along short rows, in float64 over them."""
    whole = values.numel() // ROW * ROW
    rows = values[:whole].view(-1, 1, ROW)
    rest = values[whole:].double()
    total = torch.bmm(rows, rows.transpose(1, 2)).sum(dtype=torch.float64) if whole else 0.0
    return float(total) + float(torch.dot(rest, rest))


def _grown(before: torch.Tensor | None, shape: tuple[int, int], device: torch.device) -> torch.Tensor:
    """Rows of zeros, with what was there before in the first."""
    if before is not None and before.shape[0] >= shape[0]:
        return before
    fresh = torch.zeros(shape, dtype=torch.int64, device=device)
    if before is not None:
        fresh[: before.shape[0]] = before
    return fresh
