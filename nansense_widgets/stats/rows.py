"""Counts of single channels by raw bin, kept only over the bins that occur: a layer spans few octaves."""

from __future__ import annotations

import torch

from nansense_widgets.stats.bins import RAW, SPECIAL, in_order

__all__ = ["RowCounts"]

_HALF = RAW // 2
_ENDS = (0, *range(_HALF - 4, _HALF))
"""Within a sign: the bin of zeros, of infinity and of NaN; they lie apart from all others."""


class RowCounts:
    """Adds up; grows with the channels and with the octaves that come."""

    def __init__(self) -> None:
        self._rows = 0
        self._ends = torch.zeros(0, 2, len(_ENDS), dtype=torch.int64)
        self._zeros = torch.zeros(0, 2, dtype=torch.int64)
        self._starts = [0, 0]
        self._windows = [torch.zeros(0, 0, dtype=torch.int64) for _ in range(2)]

    def add(self, rows: torch.Tensor, zeros: torch.Tensor) -> None:
        """Add counts.

        Args:
            rows: int64 of shape (rows, 2048).
            zeros: how many of them are positive and negative zeros: (rows, 2).
        """
        count = len(rows)
        halves = rows.view(count, 2, _HALF)
        if count > self._rows:
            self._rows = count
            self._ends = _grown(self._ends, (count, 2, len(_ENDS)), rows)
            self._zeros = _grown(self._zeros, (count, 2), rows)
        self._ends[:count] += halves[:, :, _ENDS]
        self._zeros[:count] += zeros
        for sign in range(2):
            inner = halves[:, sign, 1 : _HALF - 4]
            used = inner.any(0).nonzero()
            if len(used):
                self._add_window(sign, inner, int(used[0]), int(used[-1]) + 1)

    def _add_window(self, sign: int, inner: torch.Tensor, low: int, high: int) -> None:
        start, window = self._starts[sign], self._windows[sign]
        if window.numel():
            first, last = min(low, start), max(high, start + window.shape[1])
        else:
            first, last, start = low, high, low
        if window.shape != (self._rows, last - first):
            grown = torch.zeros(self._rows, last - first, dtype=torch.int64, device=inner.device)
            grown[: window.shape[0], start - first : start - first + window.shape[1]] = window
            self._starts[sign], self._windows[sign] = first, grown
            start, window = first, grown
        window[: len(inner), low - start : high - start] += inner[:, low:high]

    def copy(self) -> RowCounts:
        """An independent copy on the CPU."""
        other = RowCounts()
        other._rows = self._rows
        other._ends = self._ends.cpu().clone()
        other._zeros = self._zeros.cpu().clone()
        other._starts = list(self._starts)
        other._windows = [window.cpu().clone() for window in self._windows]
        return other

    def raw(self) -> torch.Tensor:
        """Counts by raw bin: int64 of shape (rows, 2048)."""
        dense = torch.zeros(self._rows, 2, _HALF, dtype=torch.int64)
        dense[:, :, _ENDS] = self._ends.cpu()
        for sign, (start, window) in enumerate(zip(self._starts, self._windows, strict=True)):
            dense[: len(window), sign, 1 + start : 1 + start + window.shape[1]] = window.cpu()
        return dense.view(self._rows, RAW)

    def hists(self) -> torch.Tensor:
        """Counts in the order of the values: int64 of shape (rows, 2041)."""
        return in_order(self.raw(), self._zeros.cpu())

    def nonfinite(self) -> torch.Tensor:
        """Values that are NaN or infinite: int64 of shape (rows,)."""
        return self.raw()[:, SPECIAL].sum(1)


def _grown(before: torch.Tensor, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    fresh = torch.zeros(shape, dtype=torch.int64, device=like.device)
    fresh[: len(before)] = before
    return fresh
