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

from nansense_widgets.stats.bins import RAW
from nansense_widgets.stats.native.build import LIBRARY, source_hash
from nansense_widgets.stats.rows import Layout, Rows

__all__ = ["Folded", "channels_of", "checksum", "fold", "is_built", "moments", "norms"]

STRIDE = RAW + 16
"""As in `fold.c`."""


class Folded(NamedTuple):
    """What one call finds.

    Attributes:
        rows: counts.
        moments: number, sum and sum of squares of the differences from `shift`, least and largest of the
            finite values, +0, -0.
    """

    rows: Rows
    moments: tuple[float, ...]


def fold(
    values: torch.Tensor, outer: int, channels: int, inner: int, own: int, shift: float, known: Layout
) -> Folded:
    """Counts and moments of values; see `fold.c`.

    Args:
        values: contiguous float32 on the CPU, fewer than 2**32, which lie as (outer, channels, inner).
        outer: size of the axes before the channels.
        channels: how many.
        inner: size of the axes after them.
        own: how many of them, the first ones, get a row each.
        shift: where the mean is thought to be.
        known: spans that the rows are to have room for.
    """
    scratch = _taken_scratch(own)
    _, *spans = known
    _library.nansense_fold(
        values.data_ptr(), outer, channels, inner, own, shift, *spans,
        scratch.at_counts, scratch.at_taken, scratch.at_found,
    )  # fmt: skip
    *numbers, begin, end, begin2, end2 = scratch.found.tolist()
    layout = Layout(own + 1, int(begin), int(end), int(begin2), int(end2))
    rows = scratch.rows(layout, special=numbers[0] != values.numel())
    _KEPT.scratch = scratch
    return Folded(rows, tuple(numbers))


def channels_of(
    values: torch.Tensor, outer: int, channels: int, inner: int, own: int, everything: Rows
) -> Rows:
    """Rows of the first channels of values whose counts are known.

    Args:
        values: contiguous float32 on the CPU, which lie as (outer, channels, inner).
        outer: size of the axes before the channels.
        channels: how many.
        inner: size of the axes after them.
        own: how many of them, the first ones, get a row each.
        everything: the row of all values, alone.
    """
    scratch = _taken_scratch(own)
    _, *spans = everything.layout
    _library.nansense_channels(
        values.data_ptr(), outer, channels, inner, own, *spans, scratch.at_counts, scratch.at_taken
    )
    special = everything.special is not None
    layout = everything.layout._replace(rows=own)
    found = scratch.rows(layout, special=special)
    _KEPT.scratch = scratch
    parts = zip(everything.layout.parts(everything.flat), layout.parts(found.flat), strict=True)
    flat = np.concatenate([half.reshape(-1) for both in parts for half in both])
    specials = None
    if everything.special is not None and found.special is not None:
        specials = np.concatenate([everything.special, found.special])
    return Rows(layout._replace(rows=own + 1), flat, specials)


def checksum(address: int, runs: int, stride: int, length: int) -> int:
    """A number that other values in the same place do not have, but for one in 2**32 of them.

    Args:
        address: of float32 values.
        runs: how many runs of them lie there.
        stride: from one to the next, in values.
        length: of each.
    """
    found: int = _library.nansense_checksum(address, runs, stride, length)
    return found


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

    def __init__(self, own: int) -> None:
        self.own = own
        self.counts = np.zeros((own + 2, STRIDE), np.uint32)
        self.taken = np.empty((own + 1) * RAW, np.int64)
        self.found = np.empty(11)
        self.at_counts, self.at_taken = _address(self.counts), _address(self.taken)
        self.at_found = _address(self.found)

    def rows(self, layout: Layout, *, special: bool) -> Rows:
        """What has been taken."""
        size, rows = layout.size, layout.rows
        specials = self.taken[size : size + 8 * rows].reshape(rows, 2, 4).copy() if special else None
        return Rows(layout, self.taken[:size].copy(), specials)


def _taken_scratch(own: int) -> _Scratch:
    """Nobody else has it until it is put back: a signal's handler may count something too."""
    kept: _Scratch | None = getattr(_KEPT, "scratch", None)
    _KEPT.scratch = None
    return _Scratch(own) if kept is None or kept.own < own else kept


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
    library.nansense_fold.argtypes = [pointer, *[whole] * 4, number, *[whole] * 4, *[pointer] * 3]
    library.nansense_channels.argtypes = [pointer, *[whole] * 8, *[pointer] * 2]
    library.nansense_moments.argtypes = [pointer, whole, number, pointer]
    library.nansense_norms.argtypes = [*[pointer] * 3, whole, pointer]
    for function in (
        library.nansense_fold,
        library.nansense_channels,
        library.nansense_moments,
        library.nansense_norms,
    ):
        function.restype = None
    library.nansense_checksum.argtypes = [pointer, *[whole] * 3]
    library.nansense_checksum.restype = ctypes.c_uint64
    return library


_library = _load()
