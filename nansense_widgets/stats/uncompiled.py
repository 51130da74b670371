"""Counts and moments by torch's own operations: of float64, and where there is no compiled code."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.bins import RAW, raw_bins
from nansense_widgets.stats.rows import Counts, Rows

__all__ = ["Moments", "counted", "moments_of", "with_all", "zeros_of"]

ROW = 256
"""Values added up in float32 before they go into float64: one large one is not to swallow many others."""

_TINY, _SAFE = 1e-12, 1e18
"""Between these, squares of the largest values and of those that matter beside them are normal float32."""

Moments = tuple[int, float, float, float, float]
"""Number, mean, sum of squared differences from the mean, least and largest of the finite values."""


def zeros_of(values: torch.Tensor, rows: Rows) -> tuple[int, int]:
    minus, plus = rows.flat[:2]
    return (
        values.numel() - int(np.count_nonzero(_bits(values))) if plus else 0,
        _count_minus_zero(values) if minus else 0,
    )


def counted(values: torch.Tensor, axis: int | None, limit: int) -> Rows:
    if axis is None:
        return Rows.of(torch.bincount(raw_bins(values).view(-1), minlength=RAW).numpy().reshape(1, RAW))
    channels = values.shape[axis]
    # All others share one row more, so that counting is one pass.
    rows = min(channels, limit + 1)
    bins = raw_bins(values, _row_offsets(values.ndim, axis, channels, limit, values.device))
    by_row = torch.bincount(bins.view(-1), minlength=rows * RAW).numpy().reshape(rows, RAW)
    return Rows.of(with_all(by_row, min(channels, limit)))


def with_all(by_row: Counts, own: int) -> Counts:
    """The sum of all rows, and then the first `own` of them."""
    return np.concatenate([by_row.sum(0, keepdims=True), by_row[:own]])


@functools.lru_cache(maxsize=256)
def _row_offsets(ndim: int, axis: int, channels: int, limit: int, device: torch.device) -> torch.Tensor:
    """What to add to a raw bin, by channel: the first `limit` have a row each, all others share the next."""
    shape = [1] * ndim
    shape[axis] = channels
    rows = torch.arange(channels, dtype=torch.int32, device=device).clamp_(max=limit)
    return rows.mul_(RAW).view(shape)


def moments_of(finite: torch.Tensor, centred: bool) -> Moments:
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


def _count_minus_zero(values: torch.Tensor) -> int:
    bits = _bits(values)
    return int(np.count_nonzero(bits == np.iinfo(bits.dtype).min))


def _bits(values: torch.Tensor) -> npt.NDArray[np.signedinteger[Any]]:
    numbers = values.numpy()
    return numbers.view(np.int32 if numbers.dtype == np.float32 else np.int64)
