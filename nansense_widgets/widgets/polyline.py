"""The points of a long curve that are drawn: as few as show the same picture."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_DRAWN", "drawn_points"]

MOST_DRAWN = 600
"""Points of one line that go to the browser."""

Values = npt.NDArray[np.float64]


def drawn_points(
    xs: Values, values: Values, breaks: Sequence[int] = (), most: int = MOST_DRAWN
) -> tuple[Values, Values]:
    """Points to draw: of a line with more than `most`, the least and the largest of each stretch, in order.

    Args:
        xs: growing, of shape (points,).
        values: as many; NaN and infinities leave gaps, and stay gaps where a whole stretch has no others.
        breaks: indices before which the line is interrupted.
        most: of points, about; at least 4.
    """
    pieces = [part for part in np.split(np.arange(len(xs)), list(breaks)) if len(part)]
    share = [max(2, most * len(part) // max(len(xs), 1)) for part in pieces]
    found: list[tuple[Values, Values]] = []
    for at, (part, room) in enumerate(zip(pieces, share, strict=True)):
        if at:
            found.append((xs[part[:1]], np.full(1, np.nan)))
        found.append(_thinned(xs[part], values[part], room))
    if not found:
        return xs[:0], values[:0]
    return np.concatenate([x for x, _ in found]), np.concatenate([y for _, y in found])


def _thinned(xs: Values, values: Values, most: int) -> tuple[Values, Values]:
    if len(xs) <= most:
        return xs, values
    edges = np.linspace(0, len(xs), max(most // 2, 1) + 1).astype(int)
    # What is not finite is never the least or the largest, unless there is nothing else.
    low = np.where(np.isfinite(values), values, np.inf)
    high = np.where(np.isfinite(values), values, -np.inf)
    kept = {0, len(xs) - 1}
    for a, b in itertools.pairwise(edges):
        kept |= {int(a + low[a:b].argmin()), int(a + high[a:b].argmax())}
    chosen = np.array(sorted(kept))
    return xs[chosen], values[chosen]
