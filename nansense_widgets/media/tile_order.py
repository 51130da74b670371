"""In which order tiles stand, and which of them form a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.media.tiler import Arrangement, TilerAxis, split_shape
from nansense_widgets.media.values import readable

__all__ = ["OrderBy", "TileOrder", "tile_order"]

OrderBy = Literal["index", "norm", "similarity"]

MOST = 1024
"""Tiles that similarity is worked out for: it compares each with each."""

SAMPLES = 1024
"""Values of a tile that are compared: of more, as many evenly spaced ones."""

ALIKE = 0.5
"""Cosine from which a tile belongs to the group of the one before it."""


@dataclass(frozen=True)
class TileOrder:
    """An order of the places along one axis.

    Attributes:
        axis: which axis is ordered: that of the tiles or, if there is none, that of the rows; None: nothing.
        order: places in the order to be drawn; None: as they are.
        groups: where each group begins in that order, and its name; empty: no groups.
        note: what else to know, e.g. why it is not in the order asked for.
    """

    axis: int | None
    order: tuple[int, ...] | None = None
    groups: tuple[tuple[int, str], ...] = ()
    note: str = ""


def tile_order(
    tensor: torch.Tensor, axes: Sequence[TilerAxis], arrangement: Arrangement, by: OrderBy, *, group: bool
) -> TileOrder:
    """Order the tiles, or the rows where there are no tiles, of a tensor that can be drawn.

    A tile stands for all values at its place, whatever slices are looked at. By `norm` the largest comes
    first. By `similarity` the tile of largest norm comes first and then always the one among the rest whose
    cosine with the one before is largest (a greedy seriation); tiles that are zero come last.
    """
    axis = arrangement.tile if arrangement.tile is not None else arrangement.y
    if axis is None:
        return TileOrder(None)
    known = axes[axis]
    if by == "index":
        return TileOrder(axis, None, _parts(known) if group else ())
    values = readable(tensor).reshape(split_shape(axes)).movedim(axis, 0).reshape(known.size, -1)
    norms = torch.linalg.vector_norm(values, dim=1, dtype=torch.float64).numpy()
    if by == "norm":
        # NaN and infinite tiles first: they are what one looks for.
        order = np.argsort(-np.nan_to_num(norms, nan=np.inf, posinf=np.inf), kind="stable")
        return TileOrder(axis, tuple(order.tolist()), _octaves(norms[order]) if group else ())
    if known.size > MOST:
        some = f"by index: similarity is worked out for up to {MOST:,} of them, and there are {known.size:,}"
        return TileOrder(axis, note=some)
    spaced = values[:, :: -(-values.shape[1] // SAMPLES)] if values.shape[1] > SAMPLES else values
    order, steps = _seriation(spaced.double().numpy(), norms)
    note = "" if spaced is values else f"similarity of {spaced.shape[1]:,} evenly spaced values of each"
    return TileOrder(axis, tuple(order.tolist()), _alike(steps) if group else (), note)


def _seriation(
    vectors: npt.NDArray[np.float64], norms: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The order, and the cosine of each with the one before it (NaN for the first and for zero ones)."""
    lengths = np.sqrt(np.square(np.nan_to_num(vectors, posinf=0, neginf=0)).sum(1))
    units = np.nan_to_num(vectors, posinf=0, neginf=0) / np.where(lengths > 0, lengths, 1)[:, None]
    cosines = units @ units.T
    count = len(vectors)
    left = lengths > 0
    order: list[int] = []
    steps: list[float] = []
    if left.any():
        at = int(np.argmax(np.where(left, np.nan_to_num(norms), -1)))
        steps.append(float("nan"))
        while True:
            order.append(at)
            left[at] = False
            if not left.any():
                break
            following = int(np.argmax(np.where(left, cosines[at], -2)))
            steps.append(float(cosines[at, following]))
            at = following
    zero = [place for place in range(count) if lengths[place] == 0]
    return np.array(order + zero, np.int64), np.array(steps + [float("nan")] * len(zero))


def _parts(axis: TilerAxis) -> tuple[tuple[int, str], ...]:
    """By the first word of the labels: `q head 0` is of the group `q`; without labels there are none."""
    groups: list[tuple[int, str]] = []
    for place, label in enumerate(axis.labels):
        name = label.partition(" ")[0]
        if not groups or groups[-1][1] != name:
            groups.append((place, name))
    return tuple(groups) if 1 < len(groups) < len(axis.labels) else ()


def _octaves(norms: npt.NDArray[np.float64]) -> tuple[tuple[int, str], ...]:
    """A group for each factor of two below the largest norm."""
    groups: list[tuple[int, str]] = []
    finite = norms[np.isfinite(norms)]
    largest = float(finite.max(initial=0.0))
    for place, norm in enumerate(norms.tolist()):
        if not np.isfinite(norm):
            name = "not finite"
        elif norm == 0 or largest == 0:
            name = "zero"
        else:
            below = int(np.floor(np.log2(largest / norm)))
            name = f"norm {largest / 2 ** (below + 1):.3g} to {largest / 2**below:.3g}"
        if not groups or groups[-1][1] != name:
            groups.append((place, name))
    return tuple(groups)


def _alike(steps: npt.NDArray[np.float64]) -> tuple[tuple[int, str], ...]:
    starts = [place for place, cosine in enumerate(steps.tolist()) if not cosine >= ALIKE]
    ends = [*starts[1:], len(steps)]
    sizes = [end - start for start, end in zip(starts, ends, strict=True)]
    # One that is like no other is no group: those that stand alone in a row are named once.
    groups: list[tuple[int, str]] = []
    for start, size in zip(starts, sizes, strict=True):
        if size > 1:
            groups.append((start, f"{size} alike"))
        elif not groups or groups[-1][1] != "single":
            groups.append((start, "single"))
    return tuple(groups)
