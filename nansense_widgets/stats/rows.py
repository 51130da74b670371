"""Counts of single channels by raw bin, kept only over the bins that occur: a layer spans few octaves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.bins import RAW, SPECIAL, in_order

__all__ = ["Counts", "RowCounts"]

Counts = npt.NDArray[np.int64]

_HALF = RAW // 2
_LAST = _HALF - 4
"""Within a sign: from here on the bins of infinity and NaN. They and the first, of zeros, lie apart from all
others."""


class RowCounts:
    """Adds up; grows with the channels and with the octaves that come."""

    def __init__(self) -> None:
        self._rows = 0
        self._first = np.zeros((0, 2), np.int64)
        self._special = np.zeros((0, 2, 4), np.int64)
        self._zeros = np.zeros((0, 2), np.int64)
        self._starts = [0, 0]
        self._windows = [np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64)]

    def add(self, rows: Counts, zeros: Counts, everywhere: Counts) -> None:
        """Add counts.

        Args:
            rows: of shape (rows, 2048).
            zeros: how many of them are positive and negative zeros: (rows, 2).
            everywhere: of shape (2048,), not zero where `rows` has a count.
        """
        count = len(rows)
        halves = rows.reshape(count, 2, _HALF)
        if count > self._rows:
            self._rows = count
            self._first = _grown(self._first, (count, 2))
            self._special = _grown(self._special, (count, 2, 4))
            self._zeros = _grown(self._zeros, (count, 2))
        self._first[:count] += halves[:, :, 0]
        self._zeros[:count] += zeros
        if everywhere[SPECIAL].any():
            self._special[:count] += halves[:, :, _LAST:]
        for sign in range(2):
            used = np.flatnonzero(everywhere[sign * _HALF + 1 : sign * _HALF + _LAST])
            if len(used):
                self._add_window(sign, halves[:, sign, 1:_LAST], int(used[0]), int(used[-1]) + 1)

    def _add_window(self, sign: int, inner: Counts, low: int, high: int) -> None:
        start, window = self._starts[sign], self._windows[sign]
        if window.size:
            first, last = min(low, start), max(high, start + window.shape[1])
        else:
            first, last, start = low, high, low
        if window.shape != (self._rows, last - first):
            grown = np.zeros((self._rows, last - first), np.int64)
            grown[: window.shape[0], start - first : start - first + window.shape[1]] = window
            self._starts[sign], self._windows[sign] = first, grown
            start, window = first, grown
        window[: len(inner), low - start : high - start] += inner[:, low:high]

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self._first, self._special, self._zeros, *self._windows))

    def copy(self) -> RowCounts:
        """An independent copy."""
        other = RowCounts()
        other._rows = self._rows
        other._first = self._first.copy()
        other._special = self._special.copy()
        other._zeros = self._zeros.copy()
        other._starts = list(self._starts)
        other._windows = [window.copy() for window in self._windows]
        return other

    def raw(self) -> torch.Tensor:
        """Counts by raw bin: int64 of shape (rows, 2048)."""
        dense = np.zeros((self._rows, 2, _HALF), np.int64)
        dense[:, :, 0] = self._first
        dense[:, :, _LAST:] = self._special
        for sign, (start, window) in enumerate(zip(self._starts, self._windows, strict=True)):
            dense[: len(window), sign, 1 + start : 1 + start + window.shape[1]] = window
        return torch.from_numpy(dense).view(self._rows, RAW)

    def hists(self) -> torch.Tensor:
        """Counts in the order of the values: int64 of shape (rows, 2041)."""
        return in_order(self.raw(), torch.from_numpy(self._zeros.copy()))

    def nonfinite(self) -> torch.Tensor:
        """Values that are NaN or infinite: int64 of shape (rows,)."""
        return self.raw()[:, SPECIAL].sum(1)


def _grown(before: Counts, shape: tuple[int, ...]) -> Counts:
    fresh = np.zeros(shape, np.int64)
    fresh[: len(before)] = before
    return fresh
