"""Folds the values of one tensor after another into counts and moments, in the processor's own memory.

`on_device.py` does the same on an accelerator. Here counting is one pass of `torch.bincount`; whatever is
small is left to numpy, whose calls cost a fifth of torch's.
"""

from __future__ import annotations

import functools
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
from nansense_widgets.stats.rows import Counts, RowCounts
from nansense_widgets.stats.snapshot import TensorStatsSnapshot

__all__ = ["CHANNEL_LIMIT", "Summary", "TensorStats", "as_numbers", "parts_of", "row_offsets", "summarise"]

CHANNEL_LIMIT = 16
"""Channels with a histogram of their own, by default."""

PART = 2**20
"""Values folded at a time."""

ROW = 256
"""Values added up in float32 before they go into float64: one large one is not to swallow many others."""

FEW = 0.25
"""Up to this share of the channels are looked at one by one; of more, all are."""

_TINY, _SAFE = 1e-12, 1e18
"""Between these, squares of the largest values and of those that matter beside them are normal float32."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Summary:
    """All that is known of some values; what several layers share is computed once.

    Attributes:
        counts: by raw bin: int64 of shape (2048,).
        zeros: how many are +0 and -0.
        rows: counts of the first channels: int64 of shape (rows, 2048); None without a channel axis.
        row_zeros: the same of zeros: (rows, 2).
        alive: of each channel, whether one of its values is not zero; True as well where nobody asked.
        n: finite values.
        mean: of these.
        squares: sum of their squared differences from the mean.
        low: the least of them.
        high: the largest.
    """

    counts: Counts
    zeros: tuple[int, int]
    rows: Counts | None
    row_zeros: Counts | None
    alive: Mask | None
    n: int
    mean: float
    squares: float
    low: float
    high: float


def summarise(
    tensor: torch.Tensor,
    channel_axis: int | None,
    channel_limit: int,
    *,
    centred: bool,
    suspects: tuple[int, ...] | None = None,
) -> list[Summary]:
    """Summaries of a tensor's values, in parts.

    Args:
        tensor: any dense tensor; of complex numbers the magnitudes count.
        channel_axis: axis of the channels, or None.
        channel_limit: how many channels have rows of their own.
        centred: whether the values are thought to lie around zero, so that squares need not be taken from
            their mean; where they do not, it is seen.
        suspects: channels that may be dead; None: any.
    """
    parts, axis = parts_of(tensor, channel_axis)
    return [_summary(as_numbers(part), axis, channel_limit, centred, suspects) for part in parts]


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
        self._counts: Counts | None = None
        self._zeros = np.zeros(2, np.int64)
        self._rows: RowCounts | None = None
        self._alive: Mask = np.zeros(0, np.bool_)
        self._suspects: tuple[int, ...] | None = None
        self._n = 0
        self._mean = 0.0
        self._squares = 0.0
        self._min = math.inf
        self._max = -math.inf

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
        suspects = self.suspects(tensor)
        for summary in summarise(tensor, self.axis, self.limit, centred=self.is_centred, suspects=suspects):
            self.add(summary)

    def add(self, summary: Summary) -> None:
        """Add what is known of some values."""
        if self._counts is None:
            self._counts = np.zeros(RAW, np.int64)
        self._counts += summary.counts
        self._zeros += summary.zeros
        if summary.rows is not None and summary.row_zeros is not None and summary.alive is not None:
            self._rows = self._rows or RowCounts()
            self._rows.add(summary.rows, summary.row_zeros, summary.counts)
            self._add_alive(summary.alive)
        if summary.n == 0:
            return
        self._min, self._max = min(self._min, summary.low), max(self._max, summary.high)
        everything = self._n + summary.n
        delta = summary.mean - self._mean
        self._squares += summary.squares + delta * delta * (self._n * summary.n / everything)
        self._mean += delta * (summary.n / everything)
        self._n = everything

    def snapshot(self) -> TensorStatsSnapshot:
        """What is known now, independent of what comes."""
        if self._counts is None:
            return TensorStatsSnapshot()
        return TensorStatsSnapshot(
            n=self._n,
            sum=self._mean * self._n,
            sum_sq=self._squares + self._n * self._mean * self._mean,
            min=self._min if self._n else math.nan,
            max=self._max if self._n else math.nan,
            nan=int(self._counts[NAN].sum()),
            posinf=int(self._counts[INF]),
            neginf=int(self._counts[MINUS_INF]),
            hist=in_order(torch.from_numpy(self._counts), torch.from_numpy(self._zeros)),
            rows=None if self._rows is None else self._rows.copy(),
            alive=None if self._rows is None else torch.from_numpy(self._alive.copy()),
            mean=self._mean if self._n else math.nan,
            variance=self._squares / self._n if self._n else math.nan,
            dtype=self.dtype,
        )

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        counts = 0 if self._counts is None else self._counts.nbytes
        return counts + self._alive.nbytes + (0 if self._rows is None else self._rows.nbytes)

    def _add_alive(self, alive: Mask) -> None:
        if len(alive) > len(self._alive):
            self._alive = np.concatenate([self._alive, np.zeros(len(alive) - len(self._alive), np.bool_)])
            self._suspects = None
        if self._suspects == ():
            return
        self._alive[: len(alive)] |= alive
        dead = np.flatnonzero(~self._alive)
        self._suspects = tuple(dead.tolist()) if len(dead) <= FEW * len(self._alive) else None


def parts_of(tensor: torch.Tensor, channel_axis: int | None) -> tuple[Sequence[torch.Tensor], int | None]:
    """A tensor's values in pieces that fit the scratch memory, each with all channels, and their axis.

    The order of the other axes is of no account: they are turned to the order in which they lie in memory.
    """
    tensor = tensor.detach()
    if tensor.numel() == 0:
        return (), None
    axis = channel_axis
    if axis is not None:
        axis = axis % tensor.ndim if -tensor.ndim <= axis < tensor.ndim else None
    if not tensor.is_contiguous():
        strides = tensor.stride()
        order = sorted(range(tensor.ndim), key=lambda i: -strides[i])
        turned = tensor.permute(order)
        if turned.is_contiguous():
            tensor, axis = turned, None if axis is None else order.index(axis)
    # In parts before anything else: an expanded tensor is small until it is made real.
    return _parts(tensor, axis), axis


def _parts(values: torch.Tensor, axis: int | None) -> Sequence[torch.Tensor]:
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


@functools.lru_cache(maxsize=256)
def row_offsets(ndim: int, axis: int, channels: int, limit: int, device: torch.device) -> torch.Tensor:
    """What to add to a raw bin, by channel: the first `limit` have a row each, all others share the next."""
    shape = [1] * ndim
    shape[axis] = channels
    rows = torch.arange(channels, dtype=torch.int32, device=device).clamp_(max=limit)
    return rows.mul_(RAW).view(shape)


def _summary(
    values: torch.Tensor, axis: int | None, limit: int, centred: bool, suspects: tuple[int, ...] | None
) -> Summary:
    counts, rows = _counted(values, axis, limit)
    near = int(counts[ZERO]), int(counts[MINUS_ZERO])
    zeros = (
        values.numel() - int(np.count_nonzero(_bits(values))) if near[0] else 0,
        _count_minus_zero(values) if near[1] else 0,
    )
    row_zeros = alive = None
    if axis is not None and rows is not None:
        row_zeros = rows[:, (ZERO, MINUS_ZERO)] if near == zeros else _row_zeros(values, axis, len(rows))
        alive = _alive(values, axis, row_zeros, suspects)
    flat = values.view(-1)
    finite = flat[flat.isfinite()] if counts[SPECIAL].any() else flat
    return Summary(counts, zeros, rows, row_zeros, alive, *_moments(finite, centred))


def _counted(values: torch.Tensor, axis: int | None, limit: int) -> tuple[Counts, Counts | None]:
    """Values in each raw bin: of shape (2048,), and of shape (rows, 2048) for the first channels."""
    if axis is None:
        return torch.bincount(raw_bins(values).view(-1), minlength=RAW).numpy(), None
    channels = values.shape[axis]
    # All others share one row more, so that counting is one pass.
    rows = min(channels, limit + 1)
    bins = raw_bins(values, row_offsets(values.ndim, axis, channels, limit, values.device))
    by_row = torch.bincount(bins.view(-1), minlength=rows * RAW).numpy().reshape(rows, RAW)
    return by_row.sum(0), by_row[:limit]


def _row_zeros(values: torch.Tensor, axis: int, rows: int) -> Counts:
    """Zeros share their bin with the smallest subnormal numbers, of which there are hardly ever any."""
    some = values.narrow(axis, 0, rows)
    others = _others(values, axis)
    is_zero, signed = some == 0, some.signbit()
    of_rows = [mask.sum(others) if others else mask.long() for mask in (is_zero & ~signed, is_zero & signed)]
    return torch.stack(of_rows, 1).numpy()


def _alive(values: torch.Tensor, axis: int, row_zeros: Counts, suspects: tuple[int, ...] | None) -> Mask:
    channels = values.shape[axis]
    if suspects == ():
        return np.ones(channels, np.bool_)
    others = _others(values, axis)
    if len(row_zeros) == channels:
        filled: Mask = row_zeros.sum(1) != values.numel() // channels
        return filled
    if not others:
        return (values != 0).numpy()
    few = values if suspects is None else values.index_select(axis, torch.tensor(suspects))
    # NaN passes through both, and is not zero: a channel of NaN is broken, not dead.
    found: Mask = ((few.amin(others) != 0) | (few.amax(others) != 0)).numpy()
    if suspects is None:
        return found
    alive = np.ones(channels, np.bool_)
    alive[list(suspects)] = found
    return alive


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
    total = squares = 0.0
    if whole < values.numel():
        rest = values[whole:].numpy().astype(np.float64)
        total, squares = float(rest.sum()), float(rest @ rest)
    if whole:
        rows = values[:whole].view(-1, ROW)
        total += float(rows.sum(1).numpy().sum(dtype=np.float64))
        # A norm needs no memory for squares, and no matrix product, which would follow the user's
        # `set_float32_matmul_precision`.
        norms = torch.linalg.vector_norm(rows, dim=1).numpy().astype(np.float64)
        squares += float(norms @ norms)
    return total, squares


def _others(values: torch.Tensor, axis: int) -> list[int]:
    return [other for other in range(values.ndim) if other != axis]


def _count_minus_zero(values: torch.Tensor) -> int:
    bits = _bits(values)
    return int(np.count_nonzero(bits == np.iinfo(bits.dtype).min))


def _bits(values: torch.Tensor) -> npt.NDArray[np.signedinteger[Any]]:
    numbers = values.numpy()
    return numbers.view(np.int32 if numbers.dtype == np.float32 else np.int64)
