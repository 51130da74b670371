"""The same counts and moments as `accumulate.py`, on an accelerator, where nothing may wait for a result.

Every step is an operation on tensors that stay where they are; what came together is fetched in one go when a
snapshot of the statistics is taken. No result's size depends on values, as that of `torch.bincount` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nansense_widgets.stats.bins import MINUS_ZERO, RAW, ZERO, raw_bins
from nansense_widgets.stats.rows import Rows
from nansense_widgets.stats.summary import Summary, as_numbers, others_than, parts_of
from nansense_widgets.stats.uncompiled import with_all

__all__ = ["DeviceStats", "DeviceSummary", "is_asynchronous", "summarise_on_device"]

_WIDTH = RAW + 2
"""Bins of a row: those that the bits number, +0 and -0."""


def is_asynchronous(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies where work is queued, and float64 is known."""
    return tensor.device.type in ("cuda", "xpu")


@dataclass(frozen=True)
class DeviceSummary:
    """All that is known of some values, as tensors on their device.

    Attributes:
        counts: int64 of shape (limit + 1, 2050), channels beyond the limit in the last row; without a
            channel axis (1, 2050).
        alive: of each channel, whether one of its values is not zero; None without a channel axis.
        n: finite values: int64, 0-dim.
        mean: of these: float64, 0-dim, as all below.
        squares: sum of their squared differences from the mean.
        low: the least of them.
        high: the largest.
    """

    counts: torch.Tensor
    alive: torch.Tensor | None
    n: torch.Tensor
    mean: torch.Tensor
    squares: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor


def summarise_on_device(tensor: torch.Tensor, channel_axis: int | None, limit: int) -> list[DeviceSummary]:
    """Summaries of a tensor's values, in parts."""
    parts, axis = parts_of(tensor, channel_axis)
    return [_summary(as_numbers(part), axis, limit) for part in parts]


class DeviceStats:
    """Adds up summaries on one device, until they are drained."""

    def __init__(self) -> None:
        self._sum: DeviceSummary | None = None

    def add(self, other: DeviceSummary) -> None:
        """Add what is known of some values; see `TensorStats` for the formula."""
        known = self._sum
        if known is None:
            self._sum = other
            return
        n = known.n + other.n
        share = other.n / n.clamp(min=1)
        delta = other.mean - known.mean
        self._sum = DeviceSummary(
            counts=known.counts + other.counts,
            alive=_either(known.alive, other.alive),
            n=n,
            mean=known.mean + delta * share,
            squares=known.squares + other.squares + delta * delta * known.n * share,
            low=torch.minimum(known.low, other.low),
            high=torch.maximum(known.high, other.high),
        )

    def copy(self) -> DeviceStats:
        """An independent copy: a sum is never changed, another one takes its place."""
        other = DeviceStats()
        other._sum = self._sum
        return other

    def drain(self) -> Summary | None:
        """All of it, fetched; counting then begins anew. None if nothing came."""
        known, self._sum = self._sum, None
        if known is None:
            return None
        counts = known.counts.cpu().numpy().copy()
        zeros, raw = counts[:, RAW:], counts[:, :RAW]
        raw[:, (ZERO, MINUS_ZERO)] += zeros
        alive = None if known.alive is None else known.alive.cpu().numpy()
        numbers = torch.stack([known.n.double(), known.mean, known.squares, known.low, known.high]).tolist()
        all_zeros = zeros.sum(0)
        own = 0 if alive is None else min(len(alive), len(raw) - 1)
        rows = Rows.of(with_all(raw, own))
        tiny = rows.first - with_all(zeros, own)[:, ::-1]
        return Summary(
            zeros=(int(all_zeros[0]), int(all_zeros[1])),
            rows=rows,
            tiny=tiny,
            alive=alive,
            moments=(int(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4]),
            special=rows.special is not None,
        )

    @property
    def nbytes(self) -> int:
        """Memory that it takes on its device."""
        return 0 if self._sum is None else self._sum.counts.numel() * 8


def _summary(values: torch.Tensor, axis: int | None, limit: int) -> DeviceSummary:
    bins = raw_bins(values)
    bins = torch.where(values == 0, RAW + values.signbit().int(), bins)
    rows, alive = 1, None
    if axis is not None:
        rows = limit + 1
        shape = [1] * values.ndim
        shape[axis] = values.shape[axis]
        row = torch.arange(values.shape[axis], dtype=torch.int32, device=values.device).clamp_(max=limit)
        bins = bins + (row * _WIDTH).view(shape)
        others = others_than(values, axis)
        alive = (values != 0).any(others) if others else values != 0
    counts = torch.zeros(rows * _WIDTH, dtype=torch.int64, device=values.device)
    one = torch.ones((), dtype=torch.int64, device=values.device)
    counts.scatter_add_(0, bins.view(-1).long(), one.expand(values.numel()))
    finite = values.isfinite()
    n = finite.sum()
    wide = torch.where(finite, values, 0).double()
    mean = wide.sum() / n.clamp(min=1)
    squares = torch.where(finite, wide - mean, 0).square().sum()
    return DeviceSummary(
        counts=counts.view(rows, _WIDTH),
        alive=alive,
        n=n,
        mean=mean,
        squares=squares,
        low=torch.where(finite, values, torch.inf).amin().double(),
        high=torch.where(finite, values, -torch.inf).amax().double(),
    )


def _either(a: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor | None:
    if a is None or b is None:
        return a if b is None else b
    if len(a) < len(b):
        a, b = b, a
    return torch.cat([a[: len(b)] | b, a[len(b) :]])
