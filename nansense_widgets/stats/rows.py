"""Counts of single channels by raw bin, kept only over the bins that occur: a layer spans few octaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.bins import RAW, SPECIAL, in_order

__all__ = ["Counts", "RowCounts", "Rows"]

Counts = npt.NDArray[np.int64]

_HALF = RAW // 2
_LAST = _HALF - 4
"""Within a sign: from here on the bins of infinity and NaN. They and the first, of zeros, lie apart from all
others."""


class Rows(NamedTuple):
    """Counts of some channels, each sign for itself, first that of negative values.

    Attributes:
        first: the bins of zeros and of the smallest subnormal numbers: of shape (rows, 2).
        special: those of infinity and NaN: (rows, 2, 4); None where there are none.
        starts: the first bins, within their sign, of the spans.
        spans: all other bins that are used: (rows, used).
    """

    first: Counts
    special: Counts | None
    starts: tuple[int, int]
    spans: tuple[Counts, Counts]

    @staticmethod
    def of(dense: Counts, total: Counts) -> Rows:
        """The same from all bins: of shape (rows, 2048), and of all channels together (2048,)."""
        halves = dense.reshape(len(dense), 2, _HALF)
        starts, spans = [], []
        for sign in range(2):
            used = np.flatnonzero(total[sign * _HALF + 1 : sign * _HALF + _LAST]) + 1
            low, high = (int(used[0]), int(used[-1]) + 1) if len(used) else (1, 1)
            starts.append(low)
            spans.append(halves[:, sign, low:high])
        special = halves[:, :, _LAST:] if total[SPECIAL].any() else None
        return Rows(halves[:, :, 0], special, (starts[0], starts[1]), (spans[0], spans[1]))


class RowCounts:
    """Adds up; grows with the channels and with the octaves that come."""

    def __init__(self) -> None:
        self._rows = 0
        self._first = np.zeros((0, 2), np.int64)
        self._tiny = np.zeros((0, 2), np.int64)
        self._special = np.zeros((0, 2, 4), np.int64)
        self._starts = [1, 1]
        self._spans = [np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64)]

    def add(self, rows: Rows, tiny: Counts | None) -> None:
        """Add counts; `tiny`: how many of `rows.first` are no zeros, None if none."""
        first, special, starts, spans = rows
        count = len(first)
        if count > self._rows:
            self._rows = count
            self._first = _grown(self._first, (count, 2))
            self._tiny = _grown(self._tiny, (count, 2))
            self._special = _grown(self._special, (count, 2, 4))
        if count == self._rows:  # nearly always
            self._first += first
        else:
            self._first[:count] += first
        if tiny is not None:
            self._tiny[:count] += tiny
        if special is not None:
            self._special[:count] += special
        for sign, span in enumerate(spans):
            if span.size:
                self._add_span(sign, span, starts[sign])

    def _add_span(self, sign: int, span: Counts, low: int) -> None:
        start, known = self._starts[sign], self._spans[sign]
        if known.shape == span.shape and low == start:
            known += span
            return
        high = low + span.shape[1]
        if known.size:
            first, last = min(low, start), max(high, start + known.shape[1])
        else:
            first, last, start = low, high, low
        if known.shape != (self._rows, last - first):
            grown = np.zeros((self._rows, last - first), np.int64)
            grown[: known.shape[0], start - first : start - first + known.shape[1]] = known
            self._starts[sign], self._spans[sign] = first, grown
            start, known = first, grown
        known[: len(span), low - start : high - start] += span

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self._first, self._tiny, self._special, *self._spans))

    def copy(self) -> RowCounts:
        """An independent copy."""
        other = RowCounts()
        other._rows = self._rows
        other._first = self._first.copy()
        other._tiny = self._tiny.copy()
        other._special = self._special.copy()
        other._starts = list(self._starts)
        other._spans = [span.copy() for span in self._spans]
        return other

    def parts(self) -> tuple[object, ...]:
        """All of it, to be put together again by `of`."""
        return self._rows, self._first, self._tiny, self._special, tuple(self._starts), tuple(self._spans)

    @staticmethod
    def of(parts: tuple[Any, ...]) -> RowCounts:
        """From `parts`."""
        found = RowCounts()
        found._rows, found._first, found._tiny, found._special, starts, spans = parts
        found._starts, found._spans = list(starts), list(spans)
        return found

    def raw(self) -> torch.Tensor:
        """Counts by raw bin: int64 of shape (rows, 2048)."""
        dense = np.zeros((self._rows, 2, _HALF), np.int64)
        dense[:, :, 0] = self._first
        dense[:, :, _LAST:] = self._special
        for sign, (start, span) in enumerate(zip(self._starts, self._spans, strict=True)):
            dense[: len(span), sign, start : start + span.shape[1]] = span
        return torch.from_numpy(dense).view(self._rows, RAW)

    def hists(self) -> torch.Tensor:
        """Counts in the order of the values: int64 of shape (rows, 2041)."""
        zeros = self._first - self._tiny
        return in_order(self.raw(), torch.from_numpy(zeros[:, ::-1].copy()))

    def nonfinite(self) -> torch.Tensor:
        """Values that are NaN or infinite: int64 of shape (rows,)."""
        return torch.from_numpy(self._special.sum((1, 2)))


def _grown(before: Counts, shape: tuple[int, ...]) -> Counts:
    fresh = np.zeros(shape, np.int64)
    fresh[: len(before)] = before
    return fresh
