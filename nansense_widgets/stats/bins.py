"""Histogram bins that are the float's own bits: four an octave, over the whole range of float32.

The bits of a float32 shifted right by 21 are sign, exponent and two mantissa bits: one shift finds the
bin. Powers of two are edges, so the smallest normal and subnormal numbers of float16, bfloat16 and float32
are too. Zero, NaN and the infinities are counted apart. A finite value beyond the largest float32 lies in
the last bin, one that is not zero but below its smallest in the first.
"""

from __future__ import annotations

import functools
import threading

import numpy as np
import torch

__all__ = [
    "BINS", "INF", "MINUS_INF", "MINUS_ZERO", "NAN", "RAW", "SPECIAL", "ZERO",
    "histogram_edges", "in_order", "raw_bins",
]  # fmt: skip

RAW = 2048
"""Bins as the bits number them, NaN and infinities among them: first those of negative sign, by growing
magnitude, then those of positive sign."""

ZERO, MINUS_ZERO = 1024, 0
"""Raw bins of zeros and of the smallest subnormal numbers."""

INF, MINUS_INF = ZERO + (0xFF << 2), 0xFF << 2
NAN = [*range(INF + 1, RAW), *range(MINUS_INF + 1, ZERO)]
SPECIAL = [INF, MINUS_INF, *NAN]

_OCTAVES = 255
_SIDE = 4 * _OCTAVES

BINS = 2 * _SIDE + 1
"""Bins in the order of their values: 1,020 negative ones, zero, 1,020 positive ones."""

_SMALLEST = 2.0**-149


def raw_bins(values: torch.Tensor, offsets: torch.Tensor | int = 0) -> torch.Tensor:
    """The raw bin of each value, int32 in the shape of `values`, which are float32 or float64.

    On the CPU it is good until the next call on the same thread: fresh memory would cost as much as the rest.

    Args:
        values: numbers.
        offsets: added to the bins, such as 2048 times the channel.
    """
    scratch = _scratch(values)
    if values.dtype is torch.float32:
        # An arithmetic shift: negative values come out below zero.
        torch.bitwise_right_shift(values.view(torch.int32), 21, out=scratch)
        return scratch.add_(offsets + ZERO)
    bits = (values.view(torch.int64) >> 50).to(torch.int32) & 0x3FFF
    torch.index_select(_wide_to_raw(values.device), 0, bits.reshape(-1), out=scratch.view(-1))
    return scratch.add_(offsets)


_KEPT = threading.local()


def _scratch(values: torch.Tensor) -> torch.Tensor:
    if values.device.type != "cpu":
        return torch.empty(values.shape, dtype=torch.int32, device=values.device)
    kept: torch.Tensor | None = getattr(_KEPT, "bins", None)
    if kept is None or kept.numel() < values.numel():
        kept = _KEPT.bins = torch.empty(values.numel(), dtype=torch.int32, device="cpu")
    return kept[: values.numel()].view(values.shape)


@functools.lru_cache(maxsize=8)
def _wide_to_raw(device: torch.device) -> torch.Tensor:
    """From sign, exponent and two mantissa bits of float64 to those of float32."""
    bits = torch.arange(1 << 14, dtype=torch.int64, device="cpu")
    sign, exponent, quarter = bits >> 13, (bits >> 2) & 0x7FF, bits & 3
    magnitude = (1 + quarter / 4).double() * torch.pow(2.0, (exponent - 1023).double().clamp(-1060, 1020))
    # The value at the bin's lower edge tells the float32 bin: all its values share it, edges being the same.
    narrow = magnitude.clamp(max=float(torch.finfo(torch.float32).max)).float()
    raw = (narrow.view(torch.int32) >> 21).long()
    raw = torch.where(exponent == 0x7FF, (0xFF << 2) | quarter, raw)
    raw = torch.where(exponent == 0, torch.zeros_like(raw), raw)
    return (raw + torch.where(sign == 1, 0, ZERO)).to(torch.int32).to(device)


@functools.lru_cache(maxsize=1)
def _order() -> torch.Tensor:
    """Raw bins of finite values in the order of these."""
    return torch.tensor([*range(_SIDE - 1, -1, -1), *range(ZERO, ZERO + _SIDE)], device="cpu")


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


def histogram_edges() -> torch.Tensor:
    """Edges of the bins of `TensorStatsSnapshot.hist`: float64 of shape (2042,), growing.

    A positive bin holds its lower edge, a negative one its upper edge. The zero bin in the middle holds
    nothing but zero. The outermost edges are 2**128.
    """
    quarters = np.array([1.0, 1.25, 1.5, 1.75])
    normal = np.outer(2.0 ** np.arange(-126, 128), quarters).reshape(-1)
    subnormal = np.array([_SMALLEST, 2.0**-128, 2.0**-127, 3 * 2.0**-128])
    positive = np.concatenate([subnormal, normal, [2.0**128]])
    return torch.from_numpy(np.concatenate([-positive[::-1], positive]))
