"""Series of numbers batch by batch: every point where it belongs, whatever is added and dropped."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.stats import series as module
from nansense_widgets.stats.series import PointSeries

Point = tuple[int, int, float]

numbers = st.floats(allow_nan=False, width=64)
points = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), numbers), max_size=40)


def filled(given: list[Point]) -> tuple[PointSeries, list[Point]]:
    ordered = sorted({(epoch, batch): value for epoch, batch, value in given}.items())
    series = PointSeries()
    for (epoch, batch), value in ordered:
        series.add(epoch, batch, value)
    return series, [(epoch, batch, value) for (epoch, batch), value in ordered]


def points_of(series: PointSeries) -> list[Point]:
    taken = series.snapshot()
    return list(zip(taken.epochs.tolist(), taken.batch_indices.tolist(), taken.values.tolist(), strict=True))


@given(points, st.integers(0, 5), st.integers(0, 7))
def test_what_was_rewound_is_gone_and_nothing_else(given: list[Point], epoch: int, batch: int) -> None:
    series, kept = filled(given)
    assert points_of(series) == kept
    series.drop_from(epoch, batch)
    kept = [point for point in kept if point[:2] < (epoch, batch)]
    assert points_of(series) == kept
    series.add(9, 0, 1.0)
    assert points_of(series) == [*kept, (9, 0, 1.0)]


def test_points_lie_where_their_batch_lies_in_its_epoch() -> None:
    series = PointSeries()
    for epoch, batches in ((0, 4), (1, 2)):
        for batch in range(batches):
            series.add(epoch, batch, 10.0 * epoch + batch)
    assert series.snapshot().xs.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.5]
    # The epoch that goes on is not drawn as if it were over.
    assert series.snapshot(expected=4).xs.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]
    whole = PointSeries()
    whole.add(0, None, 1.0)
    whole.add(1, None, math.nan)
    assert whole.snapshot().xs.tolist() == [0, 1]
    assert whole.snapshot().batches == [None, None]
    assert math.isnan(whole.snapshot().values[1])
    whole.drop_from(1, 3)  # the epoch is not over any more
    assert whole.snapshot().epochs.tolist() == [0]


def test_the_last_value_of_a_batch_counts() -> None:
    series = PointSeries()
    series.add(0, 0, 1.0)
    series.add(0, 0, 2.0)
    assert points_of(series) == [(0, 0, 2.0)]
    series.end_here()  # of another definition, it is another point
    series.add(0, 0, 3.0)
    assert points_of(series) == [(0, 0, 2.0), (0, 0, 3.0)]
    assert series.snapshot().breaks == (1,)
    series.drop_from(0)
    assert series.snapshot().breaks == ()


def test_tensors_on_an_accelerator_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    series = PointSeries()
    monkeypatch.setattr(torch.Tensor, "device", property(lambda _: torch.device("cuda:0")))
    for batch in range(150):
        series.add(0, batch, torch.tensor([float(batch)]))
    series.add(0, 150, 7.0)
    assert points_of(series) == [(0, batch, float(batch)) for batch in range(150)] + [(0, 150, 7.0)]


def test_memory_is_bounded_and_what_was_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 100)
    series = PointSeries()
    for batch in range(1000):
        series.add(0, batch, float(batch))
    taken = series.snapshot()
    assert len(taken) <= 100
    assert len(taken) + taken.left_out == 1000
    assert np.array_equal(taken.values, taken.batch_indices)
    assert taken.batch_indices[0] == 0  # the beginning and the newest points are there
    assert taken.batch_indices[-25:].tolist() == list(range(975, 1000))
