"""The tiler: which axes of a tensor of any rank become rows, columns and tiles, and which place of the rest.

Pure arithmetic over shapes, and views of tensors: nothing here knows of widgets or copies values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import torch

from nansense_widgets.capture.roles import ParameterRole

__all__ = [
    "Arrangement",
    "TilerAxis",
    "arranged",
    "default_arrangement",
    "source_index",
    "split_shape",
    "tiler_axes",
]


@dataclass(frozen=True)
class TilerAxis:
    """One axis to choose from: an axis of the tensor or, where that consists of parts, half of one.

    Attributes:
        name: e.g. `out`, `head`, `axis 0`.
        size: how many places it has.
        source: the axis of the tensor that it belongs to.
        step: what one place along it adds to the index in that axis.
        labels: a name for each place, or none.
    """

    name: str
    size: int
    source: int
    step: int = 1
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrangement:
    """What each axis is used for, as indices into the axes; None: nothing.

    Attributes:
        y: rows of a tile.
        x: columns of a tile.
        tile: which axis runs over the tiles.
        colour: an axis of size 3 that is drawn as red, green and blue.
        index: the chosen place along every axis; only that of axes without another use matters.
    """

    y: int | None
    x: int | None
    tile: int | None
    colour: int | None
    index: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """Axes with a use, in the order tile, colour, y, x."""
        return tuple(axis for axis in (self.tile, self.colour, self.y, self.x) if axis is not None)

    def checked(self, axes: Sequence[TilerAxis]) -> Arrangement:
        """The nearest arrangement that is possible: each axis has one use, and places exist.

        Of two uses of an axis the one that comes first in the order y, x, tile, colour stays.
        """
        taken: set[int] = set()
        kept: list[int | None] = []
        for axis in (self.y, self.x, self.tile, self.colour):
            good = axis is not None and 0 <= axis < len(axes) and axis not in taken
            kept.append(axis if good else None)
            if good and axis is not None:
                taken.add(axis)
        y, x, tile, colour = kept
        if colour is not None and axes[colour].size != 3:
            colour = None
        places = (*self.index, *(0 for _ in axes))[: len(axes)]
        index = tuple(
            min(max(place, 0), max(axis.size - 1, 0)) for place, axis in zip(places, axes, strict=True)
        )
        return Arrangement(y, x, tile, colour, index)


def tiler_axes(shape: Sequence[int], role: ParameterRole, *, split: bool = True) -> tuple[TilerAxis, ...]:
    """Axes to choose from. Names and parts that do not fit the shape are ignored."""
    names = role.axes if len(role.axes) == len(shape) else tuple(f"axis {i}" for i in range(len(shape)))
    axes: list[TilerAxis] = []
    for source, (name, size) in enumerate(zip(names, shape, strict=True)):
        parts = role.parts if split and role.split == source and len(role.axes) == len(shape) else ()
        if len(parts) > 1 and size % len(parts) == 0 and size > len(parts):
            inner = size // len(parts)
            kind = "head" if any("head" in part for part in parts) else "gate"
            axes += [TilerAxis(kind, len(parts), source, inner, parts), TilerAxis(name, inner, source)]
        else:
            axes.append(TilerAxis(name, size, source))
    return tuple(axes)


def split_shape(axes: Sequence[TilerAxis]) -> tuple[int, ...]:
    """The tensor's shape with split axes as two."""
    return tuple(axis.size for axis in axes)


def default_arrangement(axes: Sequence[TilerAxis]) -> Arrangement:
    """What one usually wants to see.

    Kernels are tiles, one an output, in colour where there are three input channels; matrices and embeddings
    are one picture, with a tile a head or gate where they have these; a vector is a row.
    """
    index = tuple(0 for _ in axes)
    plain = Arrangement(None, None, None, None, index)
    names = [axis.name for axis in axes]
    part = next((i for i, axis in enumerate(axes) if axis.labels), None)
    if part is not None:
        rest = [i for i in range(len(axes)) if i != part]
        y = rest[-2] if len(rest) > 1 else None
        return _upright(replace(plain, y=y, x=rest[-1], tile=part), names)
    if "out" in names and "in" in names and len(axes) > 2:
        return _kernels(axes, names, plain)
    wide = [i for i, axis in enumerate(axes) if axis.size > 1]
    if len(wide) < 2:  # an axis of one place is no picture: what is left is a row
        return replace(plain, x=wide[0] if wide else len(axes) - 1 if axes else None)
    # Of the axes with more than one place the last two are a tile, and the one before them runs over tiles.
    found = replace(plain, y=wide[-2], x=wide[-1], tile=wide[-3] if len(wide) > 2 else None)
    return _upright(found, names)


def _upright(found: Arrangement, names: Sequence[str]) -> Arrangement:
    """Outputs are rows, also where a weight is kept transposed."""
    if found.y is None or found.x is None or (names[found.y], names[found.x]) != ("in", "out"):
        return found
    return replace(found, y=found.x, x=found.y)


def _kernels(axes: Sequence[TilerAxis], names: Sequence[str], plain: Arrangement) -> Arrangement:
    out, into = names.index("out"), names.index("in")
    spatial = [i for i in range(len(axes)) if i not in (out, into)]
    if prod(axes[i].size for i in spatial) == 1:
        return replace(plain, y=out, x=into)
    if len(spatial) == 1:
        y = into if axes[into].size > 1 else None
        return replace(plain, y=y, x=spatial[0], tile=out)
    colour = into if axes[into].size == 3 else None
    return replace(plain, y=spatial[-2], x=spatial[-1], tile=out, colour=colour)


def arranged(tensor: torch.Tensor, axes: Sequence[TilerAxis], arrangement: Arrangement) -> torch.Tensor:
    """The tensor as (tiles, colours, rows, columns), a view where strides allow.

    `arrangement` is one that was `checked`; an axis that is not used there has length 1 here.
    """
    whole = tensor.reshape(split_shape(axes))
    used = arrangement.used
    for axis in reversed(range(len(axes))):
        if axis not in used:
            whole = whole.select(axis, arrangement.index[axis])
    left = [axis for axis in range(len(axes)) if axis in used]
    whole = whole.permute([left.index(axis) for axis in used])
    for place, use in enumerate((arrangement.tile, arrangement.colour, arrangement.y, arrangement.x)):
        if use is None:
            whole = whole.unsqueeze(place)
    return whole


def source_index(
    axes: Sequence[TilerAxis], arrangement: Arrangement, tile: int, colour: int, row: int, column: int
) -> tuple[int, ...]:
    """Where in the tensor a value of `arranged` comes from."""
    places = list(arrangement.index)
    uses = (arrangement.tile, arrangement.colour, arrangement.y, arrangement.x)
    for use, place in zip(uses, (tile, colour, row, column), strict=True):
        if use is not None:
            places[use] = place
    index = [0] * (1 + max((axis.source for axis in axes), default=-1))
    for known, at in zip(axes, places, strict=True):
        index[known.source] += at * known.step
    return tuple(index)
