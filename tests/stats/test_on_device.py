"""The accelerator's way gives the processor's numbers, and nothing in it waits for a value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nansense_widgets.stats.accumulate import TensorStats
from nansense_widgets.stats.on_device import DeviceStats, summarise_on_device
from tests.stats.test_accumulate import DTYPES, KINDS, data


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    batches=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=4),
    limit=st.integers(1, 7),
    axis=st.sampled_from([None, 1, -2]),
    drained=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_both_ways_give_the_same(
    kind: str,
    dtype: torch.dtype,
    batches: list[tuple[int, int]],
    limit: int,
    axis: int | None,
    drained: bool,
    seed: int,
) -> None:
    here, there, fetched = TensorStats(axis, limit), DeviceStats(), TensorStats(axis, limit)
    for i, (size, channels) in enumerate(batches):
        tensor = data(kind, dtype, (0 if kind == "empty" else size, channels, 4), seed + i)
        here.fold(tensor)
        for summary in summarise_on_device(tensor, axis, limit):
            there.add(summary)
        if drained and (part := there.drain()) is not None:
            fetched.add(part)
    if (rest := there.drain()) is not None:
        fetched.add(rest)
    a, b = here.snapshot(), fetched.snapshot()
    assert (a.n, a.nan, a.posinf, a.neginf) == (b.n, b.nan, b.posinf, b.neginf)
    assert a.dead_channel_count == b.dead_channel_count
    if a.hist is None:
        assert b.hist is None
        return
    assert b.hist is not None
    assert torch.equal(a.hist, b.hist)
    if axis is not None:
        assert a.channel_hists is not None
        assert b.channel_hists is not None
        assert torch.equal(a.channel_hists, b.channel_hists)
        assert a.alive is not None
        assert b.alive is not None
        assert torch.equal(a.alive, b.alive)
    np.testing.assert_array_equal([a.min, a.max], [b.min, b.max])
    if a.n:
        largest = max(abs(a.min), abs(a.max))
        assert a.mean == pytest.approx(b.mean, rel=1e-7, abs=1e-7 * largest + 1e-300)
        assert a.variance == pytest.approx(b.variance, rel=1e-6, abs=1e-13 * largest**2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axis", [None, 1])
def test_no_step_needs_a_value(dtype: torch.dtype, axis: int | None) -> None:
    # A meta tensor has no values: whatever would wait for one raises.
    there = DeviceStats()
    for _ in range(2):
        for summary in summarise_on_device(torch.empty(4, 20, 8, dtype=dtype, device="meta"), axis, 16):
            there.add(summary)
    assert there.nbytes > 0
