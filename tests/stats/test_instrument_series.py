"""What becomes of the numbers that metrics give: points, folds, replaced definitions, rewinding, errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import nansense_widgets
from nansense_widgets import LayerContext, MetricSeries, Session, SessionStateError
from nansense_widgets.stats.instruments import store as store_module
from nansense_widgets.stats.instruments import track as track_module
from nansense_widgets.stats.instruments.numbers import as_number, as_numbers
from nansense_widgets.stats.instruments.track import Track

REDUCES: dict[str, Any] = {
    "mean": statistics.fmean,
    "sum": math.fsum,
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
}

numbers = st.floats(-1e6, 1e6)
runs = st.lists(st.lists(numbers, min_size=1, max_size=8), min_size=1, max_size=5)


def filled(reduce: Any, epochs: list[list[float]]) -> Track:
    track = Track(reduce)
    for epoch, values in enumerate(epochs):
        for batch, value in enumerate(values):
            track.add(epoch, batch, value)
    return track


@given(runs, st.sampled_from(sorted(REDUCES)))
def test_an_epochs_values_become_one(epochs: list[list[float]], reduce: str) -> None:
    taken = filled(reduce, epochs).snapshot()
    expected = [REDUCES[reduce](values) for values in epochs]
    assert taken.values.tolist() == pytest.approx(expected, abs=1e-9)
    assert taken.batches == [None] * len(epochs)
    assert taken.xs.tolist() == list(range(len(epochs)))


@given(runs, st.sampled_from(sorted(REDUCES)), st.data())
def test_what_was_rewound_folds_as_if_it_had_come_once(
    epochs: list[list[float]], reduce: str, data: st.DataObject
) -> None:
    # Of the last two epochs every batch can be gone back to, of those before the first one.
    epoch = data.draw(st.integers(0, len(epochs) - 1))
    first = epoch < len(epochs) - 2
    batch = 0 if first else data.draw(st.integers(0, len(epochs[epoch]) - 1))
    track = filled(reduce, epochs)
    track.drop_from(epoch, batch)
    assert len(track.snapshot()) == epoch + (batch > 0)
    for later in range(epoch, len(epochs)):
        start = batch if later == epoch else 0
        for at in range(start, len(epochs[later])):
            track.add(later, at, epochs[later][at])
    straight = filled(reduce, epochs).snapshot()
    again = track.snapshot()
    assert again.values.tolist() == straight.values.tolist()
    assert again.epochs.tolist() == straight.epochs.tolist()


@given(st.lists(numbers, min_size=20, max_size=200), st.sampled_from(["mean", "sum", "min", "max", "last"]))
def test_of_very_many_values_the_fold_knows_all(values: list[float], reduce: str) -> None:
    before, track_module.MOST_VALUES = track_module.MOST_VALUES, 16
    try:
        track = filled(reduce, [values])
        assert track.snapshot().values[0] == pytest.approx(REDUCES[reduce](values), abs=1e-6)
        assert track.nbytes < 16 * 16 + 64 * 120
    finally:
        track_module.MOST_VALUES = before


def test_a_function_folds_when_the_training_thread_says_so() -> None:
    track = filled(lambda values: sum(values) / 2, [[1, 2, 3], [4, 5]])
    assert track.snapshot().values.tolist() == [3.0]  # the second goes on
    track.settle()
    assert track.snapshot().values.tolist() == [3.0, 4.5]
    track.add(1, 2, 6)
    assert track.snapshot().values.tolist() == [3.0]  # not what was true one batch ago
    track.settle()
    assert track.snapshot().values.tolist() == [3.0, 7.5]


def test_numbers_on_an_accelerator_are_fetched_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "device", property(lambda _: torch.device("cuda:0")))
    value = as_number(torch.tensor([[2.0]]))
    assert isinstance(value, torch.Tensor)
    for reduce in (None, "sum"):
        track = Track(reduce)
        for batch in range(150):
            track.add(0, batch, torch.tensor([float(batch)]))
        expected = list(map(float, range(150))) if reduce is None else [sum(range(150))]
        assert track.snapshot().values.tolist() == expected


@pytest.mark.parametrize(
    "value",
    [2, True, 2.5, np.float32(2), np.int64(3), np.array([4.0]), np.array(4), torch.tensor([[5]])],
)
def test_what_is_a_number(value: Any) -> None:
    plain = value.item() if hasattr(value, "item") else value
    assert as_numbers(value) == {"": plain}
    assert as_numbers({"a": value, "b": None}) == {"a": plain}


@pytest.mark.parametrize(
    "value",
    [
        "1",
        [1.0],
        1j,
        torch.zeros(2),
        torch.zeros(1, dtype=torch.complex64),
        np.zeros(2),
        {1: 2.0},
        {"a": "x"},
    ],
)
def test_what_is_none(value: Any) -> None:
    with pytest.raises(TypeError, match=r"not|strings"):
        as_numbers(value)


# ---------------------------------------------------------------- in a session


@pytest.fixture
def session() -> Iterator[Session]:
    found = nansense_widgets.start(nn.Linear(2, 2))
    found.set_stats_scope("all")
    found.detach()
    yield found
    found.close()


def run(session: Session, epochs: range, batches: int = 3, phase: str = "train") -> None:
    model = session._capture.model  # type: ignore[union-attr]  # noqa: SLF001
    for epoch in epochs:
        for x in session.batches([torch.ones(1, 2)] * batches, phase=phase, epoch=epoch):
            model(x)


def series(session: Session, metric: str, key: str = "", phase: str = "train") -> MetricSeries:
    return session.watch_metrics_snapshot(layers=["linear"]).plots("linear", phase)[metric][key]


def number(ctx: LayerContext) -> float:
    return 10.0 * ctx.position.epoch + ctx.position.batch_idx


def test_points_of_batches_and_of_epochs_share_an_axis(session: Session) -> None:
    session.watch_metric("each")(number)
    session.watch_metric("folded", on="epoch", reduce="sum")(number)
    session.watch_metric("called", on="epoch", reduce=len)(number)
    session.watch_metric("two")(lambda ctx: {"b": 2, "a": number(ctx)})
    run(session, range(2))
    run(session, range(1), phase="val")
    assert series(session, "each").xs.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3])
    assert series(session, "each").values.tolist() == [0, 1, 2, 10, 11, 12]
    assert series(session, "folded").values.tolist() == [3, 33]
    assert series(session, "called").values.tolist() == [3, 3]
    snapshot = session.watch_metrics_snapshot()
    assert list(snapshot.plots("linear", "train")["two"]) == ["a", "b"]
    assert list(snapshot.plots("linear", "val")) == ["called", "each", "folded", "two"]
    assert not snapshot.plots("linear", "test")
    assert not session.watch_metrics_snapshot(layers=["other"]).series
    assert session.memory().by_kind["metrics"] > 0
    with pytest.raises(TypeError, match="layers='linear' must be several names"):
        session.watch_metrics_snapshot(layers="linear")


def test_the_epoch_that_goes_on_spans_as_many_batches_as_are_known(session: Session) -> None:
    session.watch_metric("each")(number)
    run(session, range(1))
    for at, x in enumerate(session.batches([torch.ones(1, 2)] * 3, phase="train", epoch=1)):
        session._capture.model(x)  # type: ignore[union-attr]  # noqa: SLF001
        if at == 1:
            assert series(session, "each").xs.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_a_definition_that_is_replaced_ends_there(session: Session) -> None:
    session.watch_metric("m")(lambda _: 1.0)
    session.watch_metric("fold", on="epoch")(lambda _: 1.0)
    run(session, range(1))
    session.watch_metric("m")(lambda _: 2.0)
    session.watch_metric("fold", on="epoch")(lambda _: 2.0)
    run(session, range(1, 2))
    assert series(session, "m").values.tolist() == [1, 1, 1, 2, 2, 2]
    assert series(session, "m").breaks == (3,)
    assert series(session, "fold").values.tolist() == [1, 2]
    assert series(session, "fold").breaks == (1,)
    session.watch_metric("m", on="epoch")(lambda _: 3.0)
    run(session, range(2, 3))
    assert series(session, "m").values.tolist() == [1, 1, 1, 2, 2, 2, 3]
    assert series(session, "m").batches[-1] is None


def test_a_metric_that_failed_works_again_when_its_cell_is_run_again(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    @session.watch_metric("m")
    def broken(ctx: LayerContext) -> float:
        return number(ctx) if ctx.position.batch_idx < 1 else 1 / 0

    session.watch_metric("other")(number)
    run(session, range(1))
    assert list(session.instrument_errors) == ["m"]
    assert "ZeroDivisionError: division by zero (layer" in session.instrument_errors["m"]
    assert session.watch_metrics_snapshot().errors == session.instrument_errors
    assert series(session, "m").values.tolist() == [0]
    assert len(series(session, "other")) == 3
    assert capsys.readouterr().err.count("\n") == 1
    session.watch_metric("m")(number)
    assert session.instrument_errors == {}
    run(session, range(1, 2))
    assert series(session, "m").values.tolist() == [0, 10, 11, 12]


def test_a_reduce_that_raises_switches_its_metric_off(session: Session) -> None:
    wrong: Any = lambda _: "x"  # noqa: E731
    session.watch_metric("m", on="epoch", reduce=wrong)(number)
    run(session, range(2))
    assert "reduce returns a number; not 'x' (str)" in session.instrument_errors["m"]


def test_names_made_anew_in_each_batch_are_too_many(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_SERIES", 2)
    session.watch_metric("m")(lambda ctx: {f"key {ctx.position.batch_idx}": 1.0})
    run(session, range(1), batches=5)
    assert "more than 2 names" in session.instrument_errors["m"]


class Drift:
    """Keeps something from batch to batch."""

    def __init__(self) -> None:
        self.calls = 0
        self.rewound: list[int] = []

    def __call__(self, ctx: LayerContext) -> float:
        self.calls += 1
        return float(self.calls)

    def on_rewind(self, epoch: int) -> None:
        self.rewound.append(epoch)
        self.calls = 0


def test_stateful_instruments_are_told_what_comes_again(session: Session) -> None:
    drift = session.watch_metric("drift")(Drift())

    class Broken(Drift):
        def on_rewind(self, epoch: int) -> None:
            raise KeyError("why")

    session.watch_metric("broken")(Broken())
    run(session, range(3))
    session._stats.rewind_to_epoch(2)  # noqa: SLF001  sessions rewind in a later version
    assert drift.rewound == [2]
    assert series(session, "drift").epochs.tolist() == [0, 0, 0, 1, 1, 1]
    assert "in on_rewind(2)" in session.instrument_errors["broken"]
    for _ in session.epochs(1):
        run(session, range(1))
    assert drift.rewound == [2, 0]
    assert len(series(session, "drift")) == 3


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: s.watch_metric(number), TypeError, "with a name"),
        (lambda s: s.watch_metric(" "), ValueError, "must not be empty"),
        (lambda s: s.watch_metric("m", on="step"), ValueError, "on='step' must be 'batch'"),
        (lambda s: s.watch_metric("m", reduce="sum"), ValueError, "needs on='epoch'"),
        (
            lambda s: s.watch_metric("m", on="epoch", reduce="avg"),
            ValueError,
            "reduce='avg' must be one of 'mean'",
        ),
        (lambda s: s.watch_metric("m")(3), TypeError, "3 cannot be called"),
        (lambda s: s.watch_layer_tensor("taken"), ValueError, "is that of a metric already"),
        (lambda s: s.watch_weight_tensor("taken"), ValueError, "is that of a metric already"),
    ],
)
def test_wrong_arguments(session: Session, call: Any, error: type[Exception], text: str) -> None:
    session.watch_metric("taken")(number)
    with pytest.raises(error, match=text):
        call(session)
    assert session.instruments == {"taken": "metric"}


def test_a_closed_session_takes_none() -> None:
    session = nansense_widgets.start(nn.Linear(2, 2))
    session.close()
    with pytest.raises(SessionStateError, match="closed"):
        session.watch_metric("m")
