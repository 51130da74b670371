"""How a tensor is laid out as tiles: which axis is the batch, which the channels, what one tile shows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import torch

Layout = Literal["tiles", "slices", "lines", "bar", "tokens", "scalar"]


@dataclass(frozen=True)
class TensorLayout:
    """What is drawn of a tensor. Axes are counted from 0 in the tensor as the layer gave it."""

    layout: Layout
    batch_axis: int | None
    """The axis from which one sample is chosen; None: the tensor is one sample."""
    channel_axis: int | None
    """The axis that tiles (or a bar's cells, or a token's features) run over; None: no such axis."""
    axes: str
    """Names of the axes in order, e.g. `B C H W`; then `|z|` if magnitudes of complex numbers are shown."""
    channels: int
    """Tiles to choose from: channels; features of a bar; 1 for tokens and scalars."""
    full: tuple[int, int]
    """Rows and columns of one tile."""
    depth: int
    """Slices of a volume; 0 if the layout has none."""


def choose_layout(
    shape: tuple[int, ...] | torch.Size,
    dtype: torch.dtype,
    *,
    channel_axis: int | None = None,
    batch_axis: int | None = 0,
) -> TensorLayout:
    """Choose the layout of a tensor of this shape. Never fails: a hint that does not fit is ignored.

    `batch_axis=None` says that there is no batch. What remains without the batch and the channels decides:
    nothing is a `bar`, one axis `lines` (channels before it) or `tokens` (channels after it, or not known),
    two are `tiles`, three or more `slices` of the last two. Without a hint the first axis after the batch
    is the channels of tiles and slices.
    """
    ndim = len(shape)
    batch = _valid_axis(batch_axis, ndim)
    channel = _valid_axis(channel_axis, ndim)
    if channel == batch:
        channel = None

    # A single number, or one number a sample: nothing is left to choose a sample from.
    if ndim == 0 or (ndim == 1 and shape[0] == 1):
        return TensorLayout("scalar", None, None, _axes(ndim, dtype, {}, "L"), 1, (1, 1), 0)
    inner = [axis for axis in range(ndim) if axis != batch]
    if not inner:
        return TensorLayout("bar", None, 0, _axes(1, dtype, {0: "B"}, ""), shape[0], (1, 1), 0)

    names = {} if batch is None else {batch: "B"}
    if len(inner) == 1:
        channel = inner[0]
        axes = _axes(ndim, dtype, {**names, channel: "F"}, "")
        return TensorLayout("bar", batch, channel, axes, shape[channel], (1, 1), 0)
    if channel is None:
        channel = inner[1] if len(inner) == 2 else inner[0]
    names[channel] = "C"
    rest = [axis for axis in inner if axis != channel]
    sizes = [shape[axis] for axis in rest]

    if len(rest) == 1 and channel > rest[0]:
        axes = _axes(ndim, dtype, names, "T")
        return TensorLayout("tokens", batch, channel, axes, 1, (sizes[0], shape[channel]), 0)
    if len(rest) == 1:
        axes = _axes(ndim, dtype, names, "L")
        return TensorLayout("lines", batch, channel, axes, shape[channel], (1, sizes[0]), 0)
    full = (sizes[-2], sizes[-1])
    if len(rest) == 2:
        return TensorLayout("tiles", batch, channel, _axes(ndim, dtype, names, "HW"), shape[channel], full, 0)
    axes = _axes(ndim, dtype, names, "DHW")
    return TensorLayout("slices", batch, channel, axes, shape[channel], full, prod(sizes[:-2]))


def canonical(tensor: torch.Tensor, layout: TensorLayout, sample: int) -> torch.Tensor:
    """One sample as (channels, depth, rows, columns), as a view where the strides allow.

    Tokens are (1, 1, tokens, features), a bar is (features, 1, 1, 1). Further axes of a volume are folded
    into its depth.
    """
    channel = layout.channel_axis
    if layout.batch_axis is not None:
        tensor = tensor.select(layout.batch_axis, sample)
        if channel is not None and channel > layout.batch_axis:
            channel -= 1
    if channel is None:
        return tensor.reshape(1, 1, 1, 1)
    if layout.layout == "tokens":
        return tensor.movedim(channel, -1)[None, None]
    tensor = tensor.movedim(channel, 0)
    return tensor.reshape(tensor.shape[0], max(layout.depth, 1), *layout.full)


def _valid_axis(axis: int | None, ndim: int) -> int | None:
    if axis is None or not -ndim <= axis < ndim:
        return None
    return axis % ndim


def _axes(ndim: int, dtype: torch.dtype, names: dict[int, str], rest: str) -> str:
    """Names of all axes. `rest` names those not in `names`, its first letter numbered if they are more."""
    others = [axis for axis in range(ndim) if axis not in names]
    extra = len(others) - len(rest) + 1
    letters = [f"{rest[0]}{number}" for number in range(1, extra + 1)] if extra > 1 else list(rest[:1])
    letters += list(rest[1:])
    by_axis = {**names, **dict(zip(others, letters, strict=True))} if others else names
    words = [by_axis[axis] for axis in range(ndim)]
    return " ".join([*words, "|z|"] if dtype.is_complex else words)
