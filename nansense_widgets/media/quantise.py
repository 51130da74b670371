"""Eight bits a value: 0 is NaN, 1 is -Inf, 2 is +Inf, 3..255 stand for `(code - 129) / 126 * scale`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

NAN, NEG_INF, POS_INF, ZERO = 0, 1, 2, 129
"""Codes with a meaning of their own."""

_STEPS = 126
# Two chunks of float32 stay in a core's second-level cache.
_CHUNK = 1 << 15

Floats = npt.NDArray[np.floating[Any]]


def encode(values: Floats, scale: float) -> npt.NDArray[np.uint8]:
    """Codes of float32 or float64 `values`, in their shape.

    `scale` is finite and at least 0; finite values beyond it take the end codes. Exactly zero is 129, and so
    is every value that is nearer to zero than half a step (`scale / 252`). The error within the scale is at
    most half a step, but for the rounding of float32 itself. With scale 0 all finite values are 129.
    """
    codes = np.empty(values.shape, np.uint8)
    flat = np.ascontiguousarray(values).reshape(-1)
    out = codes.reshape(-1)
    factor, shift = _factor(scale, flat.dtype)
    work = np.empty(min(_CHUNK, flat.size), np.float32)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        if shift:
            chunk = np.ldexp(chunk, shift)
        steps = work[: chunk.size]
        with np.errstate(invalid="ignore", over="ignore"):
            # In float64 for float64 values: there the factor may be beyond float32.
            np.multiply(chunk, factor, out=steps, casting="same_kind")
        # Infinities end up at +-126 and NaN stays NaN: both are marked below.
        np.clip(steps, -_STEPS, _STEPS, out=steps)
        np.rint(steps, out=steps)
        steps += ZERO
        part = out[start : start + _CHUNK]
        with np.errstate(invalid="ignore"):
            np.copyto(part, steps, casting="unsafe")
        _mark_nonfinite(flat[start : start + _CHUNK], part)
    return codes


def decode(codes: npt.NDArray[np.uint8], scale: float) -> npt.NDArray[np.float64]:
    """The values that codes stand for, in float64."""
    table = (np.arange(256, dtype=np.float64) - ZERO) / _STEPS * scale
    table[[NAN, NEG_INF, POS_INF]] = np.nan, -np.inf, np.inf
    return table[codes]


def _factor(scale: float, dtype: np.dtype[Any]) -> tuple[np.floating[Any], int]:
    """Steps per unit, in a type that holds it, and the power of two to lift tiny values by first."""
    if scale == 0:
        return dtype.type(0), 0
    shift = 0
    while _STEPS / scale > np.finfo(np.float64).max / 2:
        scale, shift = scale * 2.0**64, shift + 64
    factor = _STEPS / scale
    limits = np.finfo(np.float32)
    # A float32 factor that is subnormal or infinite would cost all precision: then compute in float64.
    if dtype == np.float32 and float(limits.tiny) <= factor <= float(limits.max):
        return np.float32(factor), shift
    return np.float64(factor), shift


def _mark_nonfinite(values: Floats, codes: npt.NDArray[np.uint8]) -> None:
    finite = np.isfinite(values)
    if finite.all():
        return
    codes[np.isnan(values)] = NAN
    codes[values == -np.inf] = NEG_INF
    codes[values == np.inf] = POS_INF
