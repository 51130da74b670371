"""Histogram bins that are the float's own bits: four an octave, over the whole range of float32.

The bits of a float32 shifted right by 21 are sign, exponent and two mantissa bits: one shift finds the
bin. Powers of two are edges, so the smallest normal and subnormal numbers of float16, bfloat16 and float32
are too. Zero, NaN and the infinities are counted apart. A finite value beyond the largest float32 lies in
the last bin, one that is not zero but below its smallest in the first.
"""

from __future__ import annotations

import functools

import torch

__all__ = ["BINS", "RAW", "histogram_edges", "in_order", "raw_bins"]

RAW = 2048
"""Bins as the bits number them: sign, exponent and two mantissa bits, NaN and infinities among them."""

_OCTAVES = 255
_SIDE = 4 * _OCTAVES

BINS = 2 * _SIDE + 1
"""Bins in the order of their values: 1,020 negative ones, zero, 1,020 positive ones."""

_SMALLEST = 2.0**-149


def raw_bins(values: torch.Tensor) -> torch.Tensor:
    """The raw bin of each value, int32 in the shape of `values`, which are float32 or float64."""
    if values.dtype is torch.float32:
        return (values.view(torch.int32) >> 21) & (RAW - 1)
    bits = (values.view(torch.int64) >> 50).to(torch.int32) & 0x3FFF
    return _wide_to_raw(values.device).index_select(0, bits.reshape(-1)).reshape(bits.shape)


@functools.lru_cache(maxsize=8)
def _wide_to_raw(device: torch.device) -> torch.Tensor:
    """From sign, exponent and two mantissa bits of float64 to those of float32."""
    bits = torch.arange(1 << 14, dtype=torch.int64)
    sign, exponent, quarter = bits >> 13, (bits >> 2) & 0x7FF, bits & 3
    magnitude = (1 + quarter / 4).double() * torch.pow(2.0, (exponent - 1023).double().clamp(-1060, 1020))
    # The value at the bin's lower edge tells the float32 bin: all its values share it, edges being the same.
    narrow = magnitude.clamp(max=float(torch.finfo(torch.float32).max)).float()
    raw = (narrow.view(torch.int32) >> 21).long()
    raw = torch.where(exponent == 0x7FF, (0xFF << 2) | quarter, raw)
    raw = torch.where(exponent == 0, torch.zeros_like(raw), raw)
    return (raw | (sign << 10)).to(torch.int32).to(device)


@functools.lru_cache(maxsize=1)
def _order() -> torch.Tensor:
    """Raw bins of finite values in the order of these."""
    return torch.cat([torch.arange(RAW // 2 + _SIDE - 1, RAW // 2 - 1, -1), torch.arange(_SIDE)])


def in_order(raw: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """Counts by value from counts by bits.

    Args:
        raw: int64 of shape (…, 2048). The first bin of either sign holds zeros beside subnormal numbers.
        zeros: how many of them are zero: int64 of shape (…, 2), positive and negative zeros.

    Returns:
        int64 of shape (…, 2041).
    """
    counts = raw.index_select(-1, _order().to(raw.device))
    counts[..., _SIDE - 1] -= zeros[..., 1]
    counts[..., _SIDE] -= zeros[..., 0]
    middle = zeros.sum(-1, keepdim=True)
    return torch.cat([counts[..., :_SIDE], middle, counts[..., _SIDE:]], dim=-1)


@functools.lru_cache(maxsize=1)
def histogram_edges() -> torch.Tensor:
    """Edges of the bins of `TensorStatsSnapshot.hist`: float64 of shape (2042,), growing.

    A positive bin holds its lower edge, a negative one its upper edge. The zero bin in the middle holds
    nothing but zero. The outermost edges are 2**128.
    """
    quarters = torch.tensor([1.0, 1.25, 1.5, 1.75], dtype=torch.float64)
    normal = torch.outer(torch.pow(2.0, torch.arange(-126, 128, dtype=torch.float64)), quarters).reshape(-1)
    subnormal = torch.tensor([_SMALLEST, 2.0**-128, 2.0**-127, 3 * 2.0**-128], dtype=torch.float64)
    positive = torch.cat([subnormal, normal, torch.tensor([2.0**128], dtype=torch.float64)])
    return torch.cat([-positive.flip(0), positive])
