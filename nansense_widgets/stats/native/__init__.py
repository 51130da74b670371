"""Counting and adding up in compiled code, where it has been built; everything works without it, more slowly.

The library is plain C behind ctypes: it knows neither Python's nor torch's insides, so that one build serves
every version of both. It is built when the package is installed, if there is a C compiler, and by
`python -m nansense_widgets.stats.native` at any time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.bins import RAW, ZERO
from nansense_widgets.stats.native.build import LIBRARY, source_hash
from nansense_widgets.stats.rows import Counts, Rows

__all__ = ["Folded", "fold", "is_built", "moments", "norms"]

STRIDE = RAW + 16
"""As in `fold.c`."""


class Folded(NamedTuple):
    """What one call finds.

    Attributes:
        total: counts by raw bin: int64 of shape (2048,).
        rows: those of the first channels.
        moments: number, sum and sum of squares of the differences from `shift`, least and largest of the
            finite values, +0, -0.
    """

    total: Counts
    rows: Rows
    moments: tuple[float, ...]


def fold(
    values: torch.Tensor, outer: int, channels: int, inner: int, rows: int, limit: int, shift: float
) -> Folded:
    """Counts and moments of values; see `fold.c`.

    Args:
        values: contiguous float32 on the CPU, fewer than 2**32, which lie as (outer, channels, inner).
        outer: size of the axes before the channels.
        channels: how many.
        inner: size of the axes after them.
        rows: channels whose counts are wanted each for itself: all up to the limit, or none.
        limit: channels that are counted each for itself.
        shift: where the mean is thought to be.
    """
    all_rows = min(channels, limit + 1)
    scratch = _taken_scratch(all_rows)
    total = np.empty(RAW, np.int64)
    _library.nansense_fold(
        values.data_ptr(), outer, channels, inner, limit, shift, scratch.table, _address(total), scratch.ends
    )
    *numbers, begin, end, begin2, end2 = scratch.found.tolist()
    ends = int(begin), int(end), int(begin2), int(end2)
    below, above = ends[1] - ends[0], ends[3] - ends[2]
    special = np.empty((rows, 2, 4), np.int64) if numbers[0] != values.numel() else None
    # One array for all the others: each costs more than what is done with it.
    taken = np.empty(rows * (2 + below + above), np.int64)
    at = _address(taken)
    _library.nansense_take(
        scratch.table, rows, all_rows, *ends, at, None if special is None else _address(special),
        at + 16 * rows, at + 8 * rows * (2 + below),
    )  # fmt: skip
    _KEPT.scratch = scratch
    first = taken[: 2 * rows].reshape(rows, 2)
    negative = taken[2 * rows : rows * (2 + below)].reshape(rows, below)
    positive = taken[rows * (2 + below) :].reshape(rows, above)
    return Folded(
        total, Rows(first, special, (ends[0], ends[2] - ZERO), (negative, positive)), tuple(numbers)
    )


def moments(values: torch.Tensor, shift: float) -> tuple[float, ...]:
    """The moments alone."""
    found = np.empty(7)
    _library.nansense_moments(values.data_ptr(), values.numel(), shift, _address(found))
    return tuple(found.tolist())


def norms(pairs: Sequence[tuple[torch.Tensor, torch.Tensor | None]]) -> list[float]:
    """Euclidean norms, computed in float64, of tensors or of differences of two of one shape, all in one go.

    Args:
        pairs: contiguous float32 on the CPU; without a second one, the first is taken as it is.
    """
    count = len(pairs)
    table = np.array(
        [
            [x.data_ptr() for x, _ in pairs],
            [0 if y is None else y.data_ptr() for _, y in pairs],
            [x.numel() for x, _ in pairs],
        ],
        np.int64,
    )
    found = np.empty(count)
    x, y, sizes = (_address(row) for row in table)
    _library.nansense_norms(x, y, sizes, count, _address(found))
    numbers: list[float] = found.tolist()
    return numbers


def is_built() -> bool:
    """Whether there is a library, built from the source that lies beside it."""
    return _library is not None


_KEPT = threading.local()


class _Scratch:
    """Memory of one thread that is used again and again, and where it lies."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.counts = np.zeros((rows, STRIDE), np.uint32)
        self.found = np.empty(11)
        self.table, self.ends = _address(self.counts), _address(self.found)


def _taken_scratch(rows: int) -> _Scratch:
    """With rows of zeros. It is put back when they are zeros again: an interrupt may come before that."""
    kept: _Scratch | None = getattr(_KEPT, "scratch", None)
    _KEPT.scratch = None
    return _Scratch(rows) if kept is None or kept.rows < rows else kept


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]  # `array.ctypes` takes ten times as long
    return address


def _load() -> Any:
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.nansense_source_hash.restype = ctypes.c_char_p
        if library.nansense_source_hash() != source_hash().encode():
            return None
    except (OSError, AttributeError):
        return None
    pointer, whole, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    library.nansense_fold.argtypes = [pointer, *[whole] * 4, number, *[pointer] * 3]
    library.nansense_take.argtypes = [pointer, *[whole] * 6, *[pointer] * 4]
    library.nansense_moments.argtypes = [pointer, whole, number, pointer]
    library.nansense_norms.argtypes = [*[pointer] * 3, whole, pointer]
    for function in (
        library.nansense_fold,
        library.nansense_take,
        library.nansense_moments,
        library.nansense_norms,
    ):
        function.restype = None
    return library


_library = _load()
