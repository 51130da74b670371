"""From torch's dtypes to numbers that can be drawn: what is readable, and its largest magnitude."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

Transform = Literal["none", "abs", "square"]
Part = Literal["magnitude", "real", "imaginary"]
Floats = npt.NDArray[np.floating[Any]]


def _dtypes(*names: str) -> frozenset[torch.dtype]:
    # Older torch releases lack some of the small floats and the wide unsigned integers.
    return frozenset(getattr(torch, name) for name in names if hasattr(torch, name))


_NARROW = _dtypes(
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "bool", "uint8", "int8", "int16", "uint16", "complex64", "complex32",
)  # fmt: skip
"""Every value is exact in float32 (for complex numbers: the parts are float32)."""
_WIDE = _dtypes("float64", "int32", "int64", "uint32", "uint64", "complex128")
"""Drawn and read out in float64 (integers beyond 2**53 are rounded)."""
_UNSIGNED = _dtypes("bool", "uint8", "uint16", "uint32", "uint64")

# Squares of float32 magnitudes within these stay normal float32 numbers.
_SAFE_SQUARE = (1e-18, 1e18)


@dataclass(frozen=True)
class NonFinite:
    """Counts of values that are no finite number."""

    nan: int = 0
    posinf: int = 0
    neginf: int = 0


@dataclass(frozen=True)
class Range:
    """Of one sample, all channels, before any transform."""

    scale: float
    """Largest finite magnitude; 0 if nothing is finite."""
    nonfinite: NonFinite


def unreadable(tensor: torch.Tensor) -> str:
    """Why a tensor cannot be drawn, as a short phrase, or nothing."""
    if tensor.is_nested:
        return "not drawn: a nested tensor"
    if tensor.layout is not torch.strided:
        return f"not drawn: a sparse tensor ({str(tensor.layout).removeprefix('torch.')})"
    if tensor.is_quantized:
        return f"not drawn: a quantized tensor ({dtype_name(tensor.dtype)})"
    if tensor.dtype not in _NARROW | _WIDE:
        return f"not drawn: dtype {dtype_name(tensor.dtype)}"
    if tensor.is_meta:
        return "not drawn: a tensor on the meta device has no values"
    if tensor.numel() == 0:
        return f"empty: shape {tuple(tensor.shape)}"
    return ""


def drawable(tensor: torch.Tensor, part: Part) -> torch.Tensor:
    """The numbers that are drawn of a tensor: dequantized, and the part of complex ones that is looked at."""
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.is_complex() and part != "magnitude":
        plain = torch.view_as_real(tensor.detach().resolve_conj())
        return plain[..., 0 if part == "real" else 1]
    return tensor


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_unsigned(dtype: torch.dtype, transform: Transform) -> bool:
    """Whether transformed values cannot be negative (complex numbers are drawn by magnitude)."""
    return transform != "none" or dtype in _UNSIGNED or dtype.is_complex


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as float32 or, where that would round them, float64; magnitudes of complex numbers.

    Copies only if it must: the result may share the tensor's memory and is not to be written to.
    """
    tensor = tensor.detach()
    wide = tensor.dtype in _WIDE
    if tensor.dtype.is_complex:
        tensor = tensor.to(torch.complex128 if wide else torch.complex64).abs()
    return tensor.to(device="cpu", dtype=torch.float64 if wide else torch.float32).resolve_neg()


def measure(sample: torch.Tensor) -> Range:
    """Largest finite magnitude and counts of non-finite values of one sample, in its own dtype."""
    values = readable(sample)
    low, high = (float(end) for end in torch.aminmax(values))
    if np.isfinite(low) and np.isfinite(high):
        return Range(max(abs(low), abs(high)), NonFinite())
    nan = int(values.isnan().sum())
    posinf = int((values == float("inf")).sum())
    neginf = int((values == float("-inf")).sum())
    magnitudes = values.abs()
    scale = float(magnitudes.where(magnitudes.isfinite(), 0.0).max())
    return Range(scale, NonFinite(nan, posinf, neginf))


def largest_finite(values: Floats) -> float:
    """Largest finite magnitude, 0 if there is none."""
    magnitudes = np.abs(values)
    return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))


def transform_values(values: Floats, transform: Transform, scale: float) -> Floats:
    """Apply a transform; never writes to `values`. `scale` is their largest finite magnitude.

    Squares are taken in float64 where float32 would overflow or lose them, and saturate at its largest
    number, so that a finite value never looks infinite.
    """
    if transform == "none":
        return values
    if transform == "abs":
        return np.asarray(np.abs(values))
    if not _SAFE_SQUARE[0] < scale < _SAFE_SQUARE[1]:
        values = values.astype(np.float64)
    with np.errstate(over="ignore"):
        squares = np.square(values)
    if scale > 1e150:
        squares[np.isinf(squares) & np.isfinite(values)] = np.finfo(np.float64).max
    return squares


def transform_scale(scale: float, transform: Transform) -> float:
    """The largest finite magnitude after the transform."""
    if transform != "square":
        return scale
    return min(scale * scale, float(np.finfo(np.float64).max))


def mean_over(values: Floats, axis: int) -> npt.NDArray[np.float64]:
    """Mean over one axis, which stays with length 1, in float64. Finite values never give an infinity."""

    def mean(values: Floats) -> npt.NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # Inf - Inf is the NaN that is wanted
            return np.asarray(np.mean(values, axis=axis, keepdims=True, dtype=np.float64))

    return without_overflow(mean, values, terms=values.shape[axis])


def without_overflow(
    mean: Callable[[Floats], npt.NDArray[np.float64]], values: Floats, *, terms: int
) -> npt.NDArray[np.float64]:
    """`mean(values)`, where `mean` sums up to `terms` values in float64 and divides.

    Sums of float64 numbers near the largest would overflow though their mean does not: those are halved
    often enough first, which is exact, and doubled again.
    """
    limit = float(np.finfo(np.float64).max)
    if values.dtype != np.float64 or largest_finite(values) <= limit / (2 * terms):
        return mean(values)
    lift = 2.0 ** (terms.bit_length() + 1)
    means = mean(values / lift)
    finite = np.isfinite(means)
    # Rounding may carry the mean of the largest numbers just over the edge.
    means[finite] = np.clip(means[finite], -limit / lift, limit / lift)
    return means * lift
