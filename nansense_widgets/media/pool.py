"""Make tiles smaller by whole factors, so that no more is sent than is drawn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nansense_widgets.media.layout import Layout
from nansense_widgets.media.values import Floats, without_overflow


def pool_factors(layout: Layout, full: tuple[int, int], px: int) -> tuple[int, int]:
    """Values a pixel in rows and columns, the least that bring a tile of `full` size down to `px` pixels.

    Images keep their proportions; tokens by features are a table, whose two sides shrink on their own.
    """
    rows, columns = (_ceil_divide(size, max(px, 1)) for size in full)
    if layout in ("tiles", "slices"):
        return max(rows, columns, 1), max(rows, columns, 1)
    return max(rows, 1), max(columns, 1)


def mean_pool(tiles: Floats, factors: tuple[int, int]) -> Floats:
    """Means over blocks of `factors` (rows, columns) of tiles (n, rows, columns), in float64.

    The blocks at the lower and right edge hold what is left there. NaN anywhere in a block gives NaN, an
    infinity stays one, and both infinities in a block give NaN. Finite values never give an infinity.
    With factors (1, 1) the tiles themselves are returned, in their own dtype.
    """
    if factors == (1, 1):
        return tiles
    rows, columns = tiles.shape[1:]
    counts = np.outer(_block_sizes(rows, factors[0]), _block_sizes(columns, factors[1]))

    def mean(values: Floats) -> npt.NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # Inf - Inf is the NaN that is wanted
            sums = _sum_blocks(_sum_blocks(values, factors[0], axis=1), factors[1], axis=2)
        return sums / counts

    return without_overflow(mean, tiles, terms=factors[0] * factors[1])


def envelope(lines: Floats, factor: int) -> Floats:
    """Minima and maxima (n, 2, ceil(length / factor)) of stretches of `lines` (n, length).

    The last stretch holds what is left. NaN anywhere in a stretch makes both NaN.
    """
    starts = np.arange(0, lines.shape[1], factor)
    with np.errstate(invalid="ignore"):
        low = np.minimum.reduceat(lines, starts, axis=1)
        high = np.maximum.reduceat(lines, starts, axis=1)
    return np.stack([low, high], axis=1)


def _sum_blocks(tiles: Floats, factor: int, *, axis: int) -> npt.NDArray[np.float64]:
    """Sums of `factor` neighbours along an axis.

    One addition of strided slices for each place in the block: much faster than a reduction over short
    inner axes, and the ragged end needs no padding, since a later place simply has fewer blocks.
    """
    shape = list(tiles.shape)
    shape[axis] = _ceil_divide(shape[axis], factor)
    sums = np.zeros(shape, np.float64)
    for place in range(min(factor, tiles.shape[axis])):
        index: list[slice] = [slice(None)] * 3
        index[axis] = slice(place, None, factor)
        part = tiles[tuple(index)]
        index[axis] = slice(0, part.shape[axis])
        sums[tuple(index)] += part
    return sums


def _block_sizes(size: int, factor: int) -> npt.NDArray[np.int64]:
    edges = np.append(np.arange(0, size, factor), size)
    return np.diff(edges)


def _ceil_divide(size: int, by: int) -> int:
    return -(-size // by)
