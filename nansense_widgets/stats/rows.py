"""Counts by raw bin, kept only over the bins that occur: a layer spans few octaves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.bins import RAW, SPECIAL, in_order

__all__ = ["NO_SPANS", "Counts", "Layout", "RowCounts", "Rows"]

Counts = npt.NDArray[np.int64]

_HALF = RAW // 2
_LAST = _HALF - 4
"""Within a sign: from here on the bins of infinity and NaN. They and the first, of zeros, lie apart from all
others."""


class Layout(NamedTuple):
    """How counts lie in a flat array: of each row the two bins of negative and of positive zeros, which hold
    the smallest subnormal numbers too; of each row those of a span of negative values; of each row those of
    one of positive values.

    Spans are bins within a sign, by growing magnitude; one that ends where it begins is none.
    """

    rows: int
    begin: int
    end: int
    begin2: int
    end2: int

    @property
    def size(self) -> int:
        return self.rows * (2 + self.end - self.begin + self.end2 - self.begin2)

    def widened(self, other: Layout) -> Layout:
        """One that has room for both."""
        spans = [_hull(self[at : at + 2], other[at : at + 2]) for at in (1, 3)]
        return Layout(max(self.rows, other.rows), *spans[0], *spans[1])

    def parts(self, flat: Counts) -> tuple[Counts, Counts, Counts]:
        """The three parts of a flat array, each of shape (rows, bins)."""
        below, above = self.end - self.begin, self.end2 - self.begin2
        first, second = 2 * self.rows, (2 + below) * self.rows
        return (
            flat[:first].reshape(self.rows, 2),
            flat[first:second].reshape(self.rows, below),
            flat[second:].reshape(self.rows, above),
        )


def _hull(span: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, int]:
    if span[0] == span[1]:
        span = other
    elif other[0] == other[1]:
        other = span
    return min(span[0], other[0]), max(span[1], other[1])


NO_SPANS = Layout(0, 1, 1, 1, 1)


class Rows(NamedTuple):
    """Counts of some values: first a row of all of them, then rows of the first channels.

    Attributes:
        layout: how they lie.
        flat: they themselves.
        special: those of infinities and NaN, of either sign: (rows, 2, 4); None where there are none.
    """

    layout: Layout
    flat: Counts
    special: Counts | None

    @staticmethod
    def of(dense: Counts) -> Rows:
        """The same from all bins: of shape (rows, 2048)."""
        halves = dense.reshape(len(dense), 2, _HALF)
        spans, bins = [], []
        for sign in range(2):
            used = np.flatnonzero(halves[0, sign, 1:_LAST]) + 1
            low, high = (int(used[0]), int(used[-1]) + 1) if len(used) else (1, 1)
            spans += [low, high]
            bins.append(halves[:, sign, low:high])
        special = halves[:, :, _LAST:] if dense[0, SPECIAL].any() else None
        flat = np.concatenate([part.reshape(-1) for part in (halves[:, :, 0], *bins)])
        return Rows(Layout(len(dense), *spans), flat, special)

    @property
    def first(self) -> Counts:
        """The bins of zeros, of either sign: (rows, 2)."""
        return self.layout.parts(self.flat)[0]

    def alone(self) -> Rows:
        """The row of all values without the others."""
        layout = self.layout
        if layout.rows == 1:
            return self
        flat = np.concatenate([part[0] for part in layout.parts(self.flat)])
        return Rows(layout._replace(rows=1), flat, None if self.special is None else self.special[:1])


class RowCounts:
    """Adds up; grows with the channels and with the octaves that come."""

    def __init__(self) -> None:
        self.layout = NO_SPANS
        self._flat = np.zeros(0, np.int64)
        self._tiny: Counts | None = None
        self._special: Counts | None = None

    def add(self, rows: Rows, tiny: Counts | None) -> None:
        """Add counts; `tiny`: how many in the bins of zeros are none: (rows, 2), None if all are."""
        layout, flat, special = rows
        if layout != self.layout:
            self._widen(self.layout.widened(layout))
        if layout == self.layout:  # nearly always
            self._flat += flat
        else:
            _add_parts(self._flat, self.layout, flat, layout)
        if tiny is not None:
            self._tiny = _sum(self._tiny, tiny, (self.layout.rows, 2))
        if special is not None:
            self._special = _sum(self._special, special, (self.layout.rows, 2, 4))

    def _widen(self, layout: Layout) -> None:
        if layout != self.layout:
            flat = np.zeros(layout.size, np.int64)
            _add_parts(flat, layout, self._flat, self.layout)
            self.layout, self._flat = layout, flat

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(array.nbytes for array in (self._flat, self._tiny, self._special) if array is not None)

    def copy(self) -> RowCounts:
        """An independent copy."""
        other = RowCounts()
        other.layout, other._flat = self.layout, self._flat.copy()
        other._tiny = None if self._tiny is None else self._tiny.copy()
        other._special = None if self._special is None else self._special.copy()
        return other

    def parts(self) -> tuple[object, ...]:
        """All of it, to be put together again by `of`."""
        return tuple(self.layout), self._flat, self._tiny, self._special

    @staticmethod
    def of(parts: tuple[Any, ...]) -> RowCounts:
        """From `parts`."""
        layout, flat, tiny, special = parts
        found = RowCounts()
        found.layout = Layout(*layout)
        if flat.shape != (found.layout.size,):
            raise ValueError("counts that do not fit their layout")
        found._flat, found._tiny, found._special = flat, tiny, special
        return found

    def raw(self) -> Counts:
        """Counts by raw bin, of shape (rows, 2048); the first row is of all values."""
        rows = self.layout.rows
        dense = np.zeros((rows, 2, _HALF), np.int64)
        first, *spans = self.layout.parts(self._flat)
        dense[:, :, 0] = first
        if self._special is not None:
            dense[: len(self._special), :, _LAST:] = self._special
        for sign, span in enumerate(spans):
            begin = self.layout[1 + 2 * sign]
            dense[:, sign, begin : begin + span.shape[1]] = span
        return dense.reshape(rows, RAW)

    def hists(self) -> torch.Tensor:
        """Counts of the channels in the order of the values: int64 of shape (rows, 2041)."""
        zeros = self.layout.parts(self._flat)[0].copy()
        if self._tiny is not None:
            zeros[: len(self._tiny)] -= self._tiny
        return in_order(torch.from_numpy(self.raw()[1:]), torch.from_numpy(zeros[1:, ::-1].copy()))

    def nonfinite(self) -> torch.Tensor:
        """Values of the channels that are NaN or infinite: int64 of shape (rows,)."""
        found = np.zeros(self.layout.rows, np.int64)
        if self._special is not None:
            found[: len(self._special)] = self._special.sum((1, 2))
        return torch.from_numpy(found[1:])


def _add_parts(flat: Counts, layout: Layout, added: Counts, inside: Layout) -> None:
    """Add counts whose layout has room in another."""
    mine, others = layout.parts(flat), inside.parts(added)
    for at, (sums, part) in enumerate(zip(mine, others, strict=True)):
        low = inside[2 * at - 1] - layout[2 * at - 1] if at and part.size else 0
        sums[: len(part), low : low + part.shape[1]] += part


def _sum(known: Counts | None, added: Counts, shape: tuple[int, ...]) -> Counts:
    if known is None or known.shape != shape:
        fresh = np.zeros(shape, np.int64)
        if known is not None:
            fresh[: len(known)] = known
        known = fresh
    known[: len(added)] += added
    return known
