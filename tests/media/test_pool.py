from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.media.pool import envelope, mean_pool, pool_factors
from tests.media.strategies import arrays


@given(arrays(3), st.integers(1, 5), st.integers(1, 5))
def test_means_block_by_block(tiles: npt.NDArray[Any], down: int, across: int) -> None:
    got = mean_pool(tiles, (down, across))
    count, rows, columns = tiles.shape
    assert got.shape == (count, math.ceil(rows / down), math.ceil(columns / across))
    for n, r, c in np.ndindex(got.shape):
        block = [float(v) for v in tiles[n, r * down : (r + 1) * down, c * across : (c + 1) * across].flat]
        infinities = {v for v in block if math.isinf(v)}
        if any(map(math.isnan, block)) or len(infinities) == 2:
            assert math.isnan(got[n, r, c])
        elif infinities:
            assert got[n, r, c] == infinities.pop()
        else:
            expected = math.fsum(v / len(block) for v in block)
            size = max(map(abs, block))
            assert math.isfinite(got[n, r, c])
            assert abs(got[n, r, c] - expected) <= size * 1e-14 + 1e-307


@given(arrays(2, max_side=30), st.integers(1, 7))
def test_envelope_holds_every_stretch(lines: npt.NDArray[Any], factor: int) -> None:
    got = envelope(lines, factor)
    assert got.shape == (lines.shape[0], 2, math.ceil(lines.shape[1] / factor))
    for n, _, c in np.ndindex(got.shape):
        stretch = lines[n, c * factor : (c + 1) * factor].tolist()
        low, high = got[n, :, c].tolist()
        if any(map(math.isnan, stretch)):
            assert math.isnan(low)
            assert math.isnan(high)
        else:
            assert (low, high) == (min(stretch), max(stretch))


@given(
    st.sampled_from(["tiles", "slices", "lines", "tokens"]),
    st.tuples(st.integers(1, 5000), st.integers(1, 5000)),
    st.integers(-1, 300),
)
def test_factors_are_the_least_that_fit(layout: Any, full: tuple[int, int], px: int) -> None:
    factors = pool_factors(layout, full, px)
    px = max(px, 1)
    assert all(math.ceil(size / factor) <= px for size, factor in zip(full, factors, strict=True))
    if layout in ("tiles", "slices"):
        assert factors[0] == factors[1]
        assert factors[0] == 1 or math.ceil(max(full) / (factors[0] - 1)) > px
    else:
        for size, factor in zip(full, factors, strict=True):
            assert factor == 1 or math.ceil(size / (factor - 1)) > px


def test_the_largest_numbers_have_a_finite_mean() -> None:
    largest = np.full((1, 4, 4), np.finfo(np.float64).max)
    assert mean_pool(largest, (4, 4)).item() == pytest.approx(np.finfo(np.float64).max)
