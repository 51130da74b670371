"""Folds the values of one tensor after another into counts and moments, on the tensors' own device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
from nansense_widgets.stats.rows import RowCounts
from nansense_widgets.stats.snapshot import TensorStatsSnapshot

__all__ = ["Summary", "TensorStats", "summarise"]

CHANNEL_LIMIT = 16
"""Channels with a histogram of their own, by default."""

PART = 2**20
"""Values folded at a time."""

ROW = 2048
"""Squares added up in float32 before they go into float64."""

_TINY, _SAFE = 1e-12, 1e18
"""Between these, squares of the largest values and of those that matter beside them are normal float32."""


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


@dataclass(frozen=True)
class Summary:
    """All that is known of some values; what several layers share is computed once.

    Attributes:
        counts: by raw bin: int64 of shape (2048,).
        zeros: positive and negative ones: int64 of shape (2,).
        rows: counts of the first channels: int64 of shape (rows, 2048); None without a channel axis.
        row_zeros: the same of zeros: (rows, 2).
        alive: of each channel, whether one of its values is not zero.
        n: finite values.
        mean: of these.
        squares: sum of their squared differences from the mean.
        low: the least of them.
        high: the largest.
    """

    counts: torch.Tensor
    zeros: torch.Tensor
    rows: torch.Tensor | None
    row_zeros: torch.Tensor | None
    alive: torch.Tensor | None
    n: int
    mean: float
    squares: float
    low: float
    high: float


def summarise(
    tensor: torch.Tensor, channel_axis: int | None, channel_limit: int, *, centred: bool
) -> list[Summary]:
    """Summaries of a tensor's values, in parts.

    Args:
        tensor: any dense tensor; of complex numbers the magnitudes count.
        channel_axis: axis of the channels, or None.
        channel_limit: how many channels have rows of their own.
        centred: whether the values are thought to lie around zero, so that squares need not be taken from
            their mean; where they do not, it is seen.
    """
    tensor = tensor.detach()
    if tensor.numel() == 0:
        return []
    axis = channel_axis
    if axis is not None:
        axis = axis % tensor.ndim if -tensor.ndim <= axis < tensor.ndim else None
    # In parts first: an expanded tensor is small until it is made real.
    return [_summary(as_numbers(part), axis, channel_limit, centred) for part in _parts(tensor, axis)]


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
        self._counts: torch.Tensor | None = None
        self._zeros: torch.Tensor | None = None
        self._rows: RowCounts | None = None
        self._alive: torch.Tensor | None = None
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._min = math.inf
        self._max = -math.inf

    @property
    def is_centred(self) -> bool:
        """Whether the mean so far is small beside the deviation."""
        return self._n > 0 and self._mean * self._mean * self._n <= 4 * self._squares

    def fold(self, tensor: torch.Tensor) -> None:
        """Add all values of a tensor."""
        for summary in summarise(tensor, self.axis, self.limit, centred=self.is_centred):
            self.add(summary)

    def add(self, summary: Summary) -> None:
        """Add what is known of some values."""
        if self._counts is None or self._zeros is None:
            self._counts, self._zeros = torch.zeros_like(summary.counts), torch.zeros_like(summary.zeros)
        self._counts += summary.counts
        self._zeros += summary.zeros
        if summary.rows is not None and summary.row_zeros is not None and summary.alive is not None:
            self._rows = self._rows or RowCounts()
            self._rows.add(summary.rows, summary.row_zeros)
            self._alive = _grown(self._alive, summary.alive)
            self._alive[: len(summary.alive)] |= summary.alive
        if summary.n == 0:
            return
        self._min, self._max = min(self._min, summary.low), max(self._max, summary.high)
        everything = self._n + summary.n
        delta = summary.mean - self._mean
        self._squares += summary.squares + delta * delta * (self._n * summary.n / everything)
        self._mean += delta * (summary.n / everything)
        self._n = everything

    def snapshot(self) -> TensorStatsSnapshot:
        """What is known now, on the CPU and independent of what comes."""
        if self._counts is None or self._zeros is None:
            return TensorStatsSnapshot()
        counts = self._counts.cpu()
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
            rows=None if self._rows is None else self._rows.copy(),
            alive=None if self._alive is None else self._alive.cpu().clone(),
            mean=self._mean if self._n else math.nan,
            variance=self._squares / self._n if self._n else math.nan,
        )


def _summary(values: torch.Tensor, axis: int | None, limit: int, centred: bool) -> Summary:
    counts, rows = _counted(values, axis, 0 if axis is None else min(values.shape[axis], limit))
    zeros, row_zeros = _zeros(values, counts, axis, rows)
    alive = None
    if axis is not None and rows is not None and row_zeros is not None:
        alive = _alive(values, axis, rows, row_zeros)
    flat = values.reshape(-1)
    special = counts[SPECIAL].sum()
    moments = _moments(flat if not special else flat[flat.isfinite()], centred)
    return Summary(counts, zeros, rows, row_zeros, alive, *moments)


def _zeros(
    values: torch.Tensor, counts: torch.Tensor, axis: int | None, rows: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Zeros share their bin with the smallest subnormal numbers, of which there are hardly ever any."""
    near = (int(counts[ZERO]), int(counts[MINUS_ZERO]))
    zeros = (
        _count_zero_bits(values) if near[0] else 0,
        _count_minus_zero(values) if near[1] else 0,
    )
    everywhere = torch.tensor(zeros)
    if rows is None or axis is None:
        return everywhere, None
    if near == zeros:
        return everywhere, rows[:, [ZERO, MINUS_ZERO]]
    some = values.narrow(axis, 0, rows.shape[0])
    others = _others(values, axis)
    is_zero, signed = some == 0, some.signbit()
    of_rows = [mask.sum(others) if others else mask.long() for mask in (is_zero & ~signed, is_zero & signed)]
    return everywhere, torch.stack(of_rows, 1)


def _alive(values: torch.Tensor, axis: int, rows: torch.Tensor, row_zeros: torch.Tensor) -> torch.Tensor:
    channels = values.shape[axis]
    others = _others(values, axis)
    if rows.shape[0] == channels:
        return row_zeros.sum(1) != values.numel() // channels
    if not others:
        return values != 0
    # NaN passes through both, and is not zero: a channel of NaN is broken, not dead.
    return (values.amin(others) != 0) | (values.amax(others) != 0)


def _moments(finite: torch.Tensor, centred: bool) -> tuple[int, float, float, float, float]:
    """Number, mean, sum of squared differences from the mean, least and largest value."""
    n = finite.numel()
    if n == 0:
        return 0, 0.0, 0.0, math.inf, -math.inf
    low, high = (float(end) for end in torch.aminmax(finite))
    size = max(abs(low), abs(high))
    if finite.dtype is torch.float32 and _TINY < size < _SAFE and centred:
        total, squares = _sums(finite)
        around = squares - total * total / n
        if total * total <= 4 * n * around:  # centred as it was thought to be
            return n, total / n, around, low, high
    shift = low / 2 + high / 2
    if size > _SAFE:
        finite = finite.double()
    if finite.dtype is torch.float32:
        shift = float(np.float32(shift))  # as it will be subtracted
    differences = (finite - shift).double()
    total = float(differences.sum())
    squares = max(float(torch.dot(differences, differences)) - total * total / n, 0.0)
    return n, shift + total / n, squares, low, high


def _sums(values: torch.Tensor) -> tuple[float, float]:
    """Of values and of squares: in float32 along short rows, in float64 over them."""
    whole = values.numel() // ROW * ROW
    rest = values[whole:].double()
    total, squares = float(rest.sum()), float(torch.dot(rest, rest))
    if whole:
        rows = values[:whole].view(-1, ROW)
        total += float(rows.sum(1).sum(dtype=torch.float64))
        # No matrix product: those follow the user's `set_float32_matmul_precision`.
        squares += float(rows.square().sum(1).sum(dtype=torch.float64))
    return total, squares


def _others(values: torch.Tensor, axis: int) -> list[int]:
    return [other for other in range(values.ndim) if other != axis]


def _parts(values: torch.Tensor, axis: int | None) -> Sequence[torch.Tensor]:
    """The values in pieces that fit the scratch memory, each with all channels."""
    if values.numel() <= PART:
        return (values,)
    along = next((other for other in range(values.ndim) if other != axis and values.shape[other] > 1), None)
    if along is None:  # channels only, which are single numbers
        return (values,)
    one = values.numel() // values.shape[along]
    pieces = torch.split(values, max(1, PART // one), along)
    if one <= PART:
        return pieces
    return [part for piece in pieces for part in _parts(piece, axis)]


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


def _grown(before: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """What was there before, with as many rows as `like` has at least."""
    if before is not None and len(before) >= len(like):
        return before
    fresh = torch.zeros_like(like)
    if before is not None:
        fresh[: len(before)] = before
    return fresh


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
