"""Counting and adding up in compiled code, where it has been built; everything works without it, more slowly.

The library is plain C behind ctypes: it knows neither Python's nor torch's insides, so that one build serves every
version of both. It is built when the package is installed, if there is a C compiler, and by
`python -m nansense_widgets.stats.native` at any time.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.native.build import LIBRARY, source_hash

__all__ = ["Folded", "fold", "is_built", "moments"]

Folded = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]

ROW = 2048


def fold(
    values: torch.Tensor, outer: int, channels: int, inner: int, rows: int, limit: int, shift: float
) -> Folded:
    """Counts by raw bin, and moments; see `fold.c`.

    Args:
        values: contiguous float32 on the CPU, which lie as (outer, channels, inner).
        outer: size of the axes before the channels.
        channels: how many.
        inner: size of the axes after them.
        rows: to be given back: one a channel up to the limit, and one more for all others.
        limit: channels with a row of their own.
        shift: where the mean is thought to be.

    Returns:
        Counts of shape (rows, 2048), and the number, sum and sum of squares of the differences from `shift`, least,
        largest, +0 and -0 of the finite values.
    """
    counts, found = np.zeros((rows, ROW), np.int64), _nothing()
    _library.nansense_fold(
        values.data_ptr(), outer, channels, inner, limit, shift, _address(counts), _address(found)
    )
    return counts, found


def moments(values: torch.Tensor, shift: float) -> npt.NDArray[np.float64]:
    """The moments alone."""
    found = _nothing()
    _library.nansense_moments(values.data_ptr(), values.numel(), shift, _address(found))
    return found


def is_built() -> bool:
    """Whether there is a library, built from the source that lies beside it."""
    return _library is not None


def _nothing() -> npt.NDArray[np.float64]:
    return np.array([0.0, 0.0, 0.0, math.inf, -math.inf, 0.0, 0.0])


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
    library.nansense_fold.argtypes = [pointer, whole, whole, whole, whole, number, pointer, pointer]
    library.nansense_fold.restype = None
    library.nansense_moments.argtypes = [pointer, whole, number, pointer]
    library.nansense_moments.restype = None
    return library


_library = _load()
