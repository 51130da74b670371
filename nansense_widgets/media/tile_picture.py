"""Pictures of arranged tensors: how large a value is drawn, and the bytes of the part that is on screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from nansense_widgets.media.pool import envelope, mean_pool
from nansense_widgets.media.quantise import encode
from nansense_widgets.media.values import Floats, largest_finite, readable

__all__ = [
    "Box", "Region", "Sizing", "cut", "encode_tiles", "first_region", "pooled", "scale_of", "sizing", "taken",
]  # fmt: skip

CAPTION = 15
GAP = 6
LINE = 44
"""Height of a chart of one row."""
SMALLEST, SHORTEST = 28, 16
"""Longer and shorter edge, in CSS pixels, that a tile of several has at least."""
SHORT = 48
"""Shorter edge of a single tile; of a very long one only a part is on screen."""
MOST_EDGE = 72
"""Shorter edge of a tile of many at most: larger ones show no more."""
LARGEST = 32
MOST_CODES = 1 << 22
_SAFE = 1e30
"""Sums over a block of values up to this cannot overflow."""
_FEW = 8
"""Neighbours that are too few to add up one axis after the other."""


@dataclass(frozen=True)
class Box:
    """What there is room for, in CSS pixels, and device pixels to one of these."""

    width: float
    height: float
    ratio: float = 1.0


@dataclass(frozen=True)
class Sizing:
    """`pool` values along each axis to a pixel, or `magnify` device pixels to a value; one of them is 1."""

    pool: int
    magnify: int


@dataclass(frozen=True)
class Region:
    """A part of the picture: tiles in the order drawn, and rows and columns of each (ends excluded)."""

    first: int
    count: int
    top: int
    bottom: int
    left: int
    right: int


def sizing(full: tuple[int, int], tiles: int, box: Box, zoom: int) -> Sizing:
    """The largest size at which everything fits into the box, then `zoom` doublings.

    Where that would be too small to see anything, it is the smallest that is not, and the picture scrolls.
    A single row is a chart, whose height does not depend on the size of a value.
    """
    ladder = [Sizing(1, magnify) for magnify in range(16, 0, -1)]
    longest, pool = max(full), 2
    while pool < 2 * longest:
        ladder.append(Sizing(pool, 1))
        pool += 1 if pool < 16 else pool // 8
    chosen: Sizing | None = None
    for one in ladder:
        height, width = _pixels(full, one, box.ratio)
        if chosen is not None and not _is_visible(height, width, full, tiles, box.ratio):
            break
        if width <= box.width * box.ratio or (tiles == 1 and width > 8 * height):
            chosen = one
        if _fits(height, width, tiles, box):
            break
    best = chosen or ladder[-1]
    if best.pool > 1 and full[0] > 1:
        # Blocks that divide the tile evenly, if some of about this size do: no pixel is of fewer values.
        near = range(best.pool, best.pool + best.pool // 3 + 1)
        even = (pool for pool in near if full[0] % pool == full[1] % pool == 0)
        best = Sizing(next(even, best.pool), 1)
    return _zoomed(best, zoom, longest)


def _is_visible(height: float, width: float, full: tuple[int, int], tiles: int, ratio: float) -> bool:
    if full[0] == 1:
        return tiles == 1 or width >= LINE * ratio
    short, long = sorted((height / ratio, width / ratio))
    return short >= SHORT if tiles == 1 else short >= SHORTEST and long >= SMALLEST


def _fits(height: float, width: float, tiles: int, box: Box) -> bool:
    room, tall, gap = box.width * box.ratio, box.height * box.ratio, GAP * box.ratio
    if tiles == 1:
        return width <= room and height <= tall
    if min(height, width) > MOST_EDGE * box.ratio and tiles > 8:
        return False
    across = int((room + gap) // (width + gap))
    return across >= 1 and -(-tiles // across) * (height + gap + CAPTION * box.ratio) - gap <= tall


def _pixels(full: tuple[int, int], one: Sizing, ratio: float) -> tuple[float, float]:
    height, width = (-(-size // one.pool) * one.magnify for size in full)
    return LINE * ratio if full[0] == 1 else height, width


def _zoomed(one: Sizing, zoom: int, longest: int) -> Sizing:
    pool, magnify = one.pool, one.magnify
    for _ in range(abs(zoom)):
        if zoom > 0:
            pool, magnify = (pool // 2, 1) if pool > 1 else (1, min(magnify * 2, LARGEST))
        elif magnify > 1:
            magnify //= 2
        else:
            pool = min(pool * 2, max(1, longest))
    return Sizing(max(1, pool), magnify)


def pooled(tiles: torch.Tensor, pool: int, scale: float) -> Floats:
    """Arranged values (tiles, colours, rows, columns) as numbers, means over blocks of `pool` by `pool`.

    NaN anywhere in a block gives NaN, an infinity stays one. A single row gives least and largest values of
    stretches instead, (tiles, colours, 2, columns): a mean would hide its peaks. `scale` is the largest
    finite magnitude.
    """
    count, colours, rows, columns = tiles.shape
    numbers = readable(tiles)
    if pool == 1:
        array: Floats = numbers.numpy()
        return array
    if rows == 1:
        lines = numbers.reshape(-1, columns).numpy()
        return envelope(lines, pool).reshape(count, colours, 2, -1)
    planes = numbers.reshape(count * colours, rows, columns)
    if scale > _SAFE:  # sums next to the largest float32 overflow although their mean does not
        means = mean_pool(planes.numpy(), (pool, pool))
    elif pool < _FEW:
        means = functional.avg_pool2d(planes, pool, ceil_mode=True).numpy()
    else:
        sums = _block_sums(_block_sums(planes, 1, pool), 2, pool)
        means = (sums / torch.outer(_block_sizes(rows, pool), _block_sizes(columns, pool))).numpy()
    return np.asarray(means.reshape(count, colours, *means.shape[1:]))


def _block_sums(planes: torch.Tensor, axis: int, pool: int) -> torch.Tensor:
    """Sums of `pool` neighbours along an axis, the last of what is left. Much faster than a pooling."""
    whole = planes.shape[axis] // pool
    sums = (
        [planes.narrow(axis, 0, whole * pool).unflatten(axis, (whole, pool)).sum(axis + 1)] if whole else []
    )
    if left := planes.shape[axis] - whole * pool:
        sums.append(planes.narrow(axis, whole * pool, left).sum(axis, keepdim=True))
    return torch.cat(sums, axis)


def _block_sizes(size: int, pool: int) -> torch.Tensor:
    return torch.tensor([min(pool, size - start) for start in range(0, size, pool)], dtype=torch.float32)


def first_region(full: tuple[int, int], tiles: int, size: Sizing, box: Box) -> Region:
    """What is on screen before anything is scrolled, and somewhat more."""
    height, width = _pixels(full, size, box.ratio)
    room, tall = 1.5 * box.width * box.ratio, 1.5 * box.height * box.ratio
    gap = GAP * box.ratio
    across = max(1, int((room + gap) // (width + gap)))
    down = max(1, int(tall // (height + gap)) + 1)
    one = size.pool / size.magnify
    bottom = full[0] if full[0] == 1 else min(full[0], int(tall * one) + 1)
    return Region(0, min(tiles, across * down), 0, bottom, 0, min(full[1], int(room * one) + 1))


def cut(region: Region, tiles: int, full: tuple[int, int], pool: int) -> Region:
    """The region within what there is, on whole blocks, and of no more than 4 million pixels."""
    rows, columns = full
    top = min(max(region.top, 0), rows - 1) // pool * pool
    left = min(max(region.left, 0), columns - 1) // pool * pool
    bottom = min(rows, -(-max(region.bottom, top + 1) // pool) * pool)
    right = min(columns, -(-max(region.right, left + 1) // pool) * pool)
    first = min(max(region.first, 0), tiles - 1)
    across = -(-(right - left) // pool)
    most = max(1, MOST_CODES // across)
    tall = -(-(bottom - top) // pool)
    if tall > most:
        bottom, tall = top + most * pool, most
    count = min(max(region.count, 1), tiles - first, max(1, MOST_CODES // (across * tall)))
    return Region(first, count, top, bottom, left, right)


def encode_tiles(values: Floats, scale: float) -> bytes:
    """Codes of (tiles, colours, rows, columns); with three colours those of a pixel stand together."""
    if values.shape[1] > 1:
        values = np.moveaxis(values, 1, -1)
    return encode(np.ascontiguousarray(values), scale).tobytes()


def scale_of(picture: Floats, full: tuple[int, int], pool: int) -> float:
    """The scale of a pooled picture, by which its means can be told apart: the largest finite magnitude.

    That of whole blocks, if there are any: the mean of the few values at an edge may be far larger.
    """
    rows, columns = (size // pool or 1 for size in full)
    return largest_finite(picture[:, :, :rows, :columns]) or largest_finite(picture)


def taken(
    tiles: torch.Tensor, order: Sequence[int] | None, axis: int, first: int, count: int
) -> torch.Tensor:
    """Places `first` to `first + count` of an axis, in an order."""
    if order is None:
        return tiles.narrow(axis, first, count)
    return tiles.index_select(axis, torch.tensor(order[first : first + count], dtype=torch.int64))
