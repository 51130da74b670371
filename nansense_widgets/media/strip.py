"""Render the part of a tensor that a card shows: its bytes, and the facts that its legend states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from nansense_widgets.media.layout import Layout, TensorLayout, canonical
from nansense_widgets.media.pool import envelope, mean_pool, pool_factors
from nansense_widgets.media.quantise import encode
from nansense_widgets.media.values import (
    Floats,
    NonFinite,
    Range,
    Transform,
    dtype_name,
    is_unsigned,
    largest_finite,
    mean_over,
    measure,
    readable,
    transform_scale,
    transform_values,
    unreadable,
)

EXACT_LIMIT = 262_144
"""Values of a tile that are sent exactly without a window."""


@dataclass(frozen=True)
class View:
    """What a card wants to see of a tensor: sample, channels, transform, size."""

    sample: int = 0
    average: bool = False
    """One tile: the mean over the channels (over the features, for a bar and tokens)."""
    transform: Transform = "none"
    """Applied to the values first, before average and pooling."""
    first: int = 0
    count: int = 16
    """Channels (features of a bar) from `first`; more than there are: as many as there are."""
    px: int = 64
    """Longest edge of a tile in pixels."""
    depth: int = 0
    """Slice of a volume; beyond the last: the last."""


@dataclass(frozen=True)
class StripPicture:
    """A drawn strip; the fields mean what `widgets/protocol_strips.py` says of `Strip`."""

    layout: Layout
    shape: tuple[int, ...]
    dtype: str
    axes: str
    samples: int
    channels: int
    first: int
    count: int
    tile: tuple[int, int]
    full: tuple[int, int]
    pool: tuple[int, int]
    scale: float
    unsigned: bool
    nonfinite: NonFinite
    dead: tuple[int, ...]
    """Indices (in the tensor) of those among the sent channels that are zero throughout this sample."""
    depth: int
    value: float | None
    pixels: bytes
    """`count * rows * columns` codes, tile after tile."""


@dataclass(frozen=True)
class ExactTile:
    """Values of one tile as the layer computed them (after the view's transform and average)."""

    values: Floats
    """(rows, columns) of `window`, float32 where that is exact for the tensor's dtype, else float64."""
    window: tuple[int, int, int, int]
    """Rows from, to, columns from, to (ends excluded)."""

    @property
    def dtype(self) -> Literal["float32", "float64"]:
        return "float64" if self.values.dtype == np.float64 else "float32"

    def tobytes(self) -> bytes:
        """Row-major, little-endian."""
        return self.values.astype(f"<f{self.values.dtype.itemsize}", copy=False).tobytes()


@dataclass(frozen=True)
class Missing:
    """There is nothing to draw. `reason` is a phrase for the reader."""

    reason: str


def sample_range(tensor: torch.Tensor, layout: TensorLayout, sample: int) -> Range | Missing:
    """Scale and non-finite counts of one sample, to be measured once and given to `render_strip`."""
    if reason := _refusal(tensor, layout, sample):
        return Missing(reason)
    return measure(canonical(tensor.detach(), layout, sample))


def render_strip(
    tensor: torch.Tensor, layout: TensorLayout, view: View, *, known: Range | None = None
) -> StripPicture | Missing:
    """Draw what `view` asks for. Reads only the sample and the channels asked for.

    `known` is the sample's `sample_range` from an earlier call. Without it all channels are read once.
    A tensor that cannot be drawn (sparse, quantized, empty, ...) gives `Missing`, never an exception.
    """
    if reason := _refusal(tensor, layout, view.sample):
        return Missing(reason)
    whole = canonical(tensor.detach(), layout, view.sample)
    range_ = known or measure(whole)
    scale = transform_scale(range_.scale, view.transform)

    first = min(max(view.first, 0), layout.channels)
    stop = min(first + max(view.count, 0), layout.channels)
    dead: tuple[int, ...] = ()
    if view.average:
        first, stop = 0, 1
        tiles = _average(whole, layout, view, range_.scale)
        # The mean of many channels is far smaller than any: it has a scale of its own.
        scale = largest_finite(tiles)
    else:
        if layout.layout in ("tokens", "scalar"):
            first, stop = 0, 1
        part = readable(whole[first:stop])
        nonzero = (part != 0).flatten(1).any(1).tolist()
        dead = tuple(first + index for index, lives in enumerate(nonzero) if not lives)
        tiles = transform_values(_numbers(_slice(part, view)), view.transform, range_.scale)

    full = (tiles.shape[1], tiles.shape[2])
    pool = pool_factors(layout.layout, full, view.px)
    if layout.layout == "lines":
        tiles = envelope(tiles[:, 0], pool[1]) if pool[1] > 1 else tiles
    else:
        tiles = mean_pool(tiles, pool)

    value: float | None = None
    if layout.layout == "scalar":
        number = float(tiles.item())
        value = number if np.isfinite(number) else None
    return StripPicture(
        layout=layout.layout,
        shape=tuple(tensor.shape),
        dtype=dtype_name(tensor.dtype),
        axes=layout.axes,
        samples=0 if layout.batch_axis is None else tensor.shape[layout.batch_axis],
        channels=layout.channels,
        first=first,
        count=stop - first,
        tile=(tiles.shape[1], tiles.shape[2]),
        full=full,
        pool=pool,
        scale=scale,
        unsigned=is_unsigned(tensor.dtype, view.transform),
        nonfinite=range_.nonfinite,
        dead=dead,
        depth=layout.depth,
        value=value,
        pixels=encode(tiles, scale).tobytes(),
    )


def exact_tile(
    tensor: torch.Tensor,
    layout: TensorLayout,
    view: View,
    *,
    channel: int,
    window: tuple[int, int, int, int] | None = None,
) -> ExactTile | Missing:
    """Exact values of one tile, or of a window of it (rows from, to, columns from, to; cut to the tile).

    With `view.average` the tile is the mean over the channels and `channel` is ignored.
    """
    if reason := _refusal(tensor, layout, view.sample):
        return Missing(reason)
    whole = canonical(tensor.detach(), layout, view.sample)
    rows, columns = whole.shape[2:]
    averages_columns = view.average and layout.layout == "tokens"
    if averages_columns:
        columns = 1
    if window is None:
        window = (0, rows, 0, columns)
        if rows * columns > EXACT_LIMIT:
            return Missing(f"the tile has {rows * columns:,} values: ask for a window of it")
    top, bottom = _cut(window[0], window[1], rows)
    left, right = _cut(window[2], window[3], columns)
    part = whole[:, :, top:bottom] if averages_columns else whole[:, :, top:bottom, left:right]
    if part.numel() == 0:
        return Missing("the window lies outside the tile")

    wide = readable(whole[:0]).dtype == torch.float64
    if view.average:
        values = _average(part, layout, view, measure(part).scale)[0]
    else:
        if not 0 <= channel < whole.shape[0]:
            return Missing(f"there is no channel {channel}: the tensor has {whole.shape[0]}")
        part = part[channel : channel + 1]
        values = transform_values(_numbers(_slice(part, view)), view.transform, measure(part).scale)[0]
    # Float32 holds a mean or a square as well as it held the values, unless it overflows there.
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if not wide and np.array_equal(np.isfinite(narrow), np.isfinite(values)):
        values = narrow
    return ExactTile(np.ascontiguousarray(values), (top, bottom, left, right))


def _refusal(tensor: torch.Tensor, layout: TensorLayout, sample: int) -> str:
    if reason := unreadable(tensor):
        return reason
    samples = 1 if layout.batch_axis is None else tensor.shape[layout.batch_axis]
    if layout.batch_axis is not None and not 0 <= sample < samples:
        return f"there is no sample {sample}: the batch has {samples}"
    return ""


def _slice(part: torch.Tensor, view: View) -> torch.Tensor:
    """(channels, rows, columns) of the slice that is looked at."""
    return part[:, min(max(view.depth, 0), part.shape[1] - 1)]


def _numbers(part: torch.Tensor) -> Floats:
    """As an array that may share the tensor's memory: never written to."""
    array: Floats = readable(part).numpy()
    return array


def _average(whole: torch.Tensor, layout: TensorLayout, view: View, scale: float) -> Floats:
    values = transform_values(_numbers(_slice(whole, view)), view.transform, scale)
    return mean_over(values, 2 if layout.layout == "tokens" else 0)


def _cut(start: int, stop: int, size: int) -> tuple[int, int]:
    start = min(max(start, 0), size)
    return start, min(max(stop, start), size)
