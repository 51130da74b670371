"""The view model of the Curves view, its figures, and the numbers that it exports."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nansense_widgets.stats.curves import STATISTICS, layer_series
from nansense_widgets.stats.snapshot import TensorStatsSnapshot
from nansense_widgets.widgets.figures import CurvePicture, FigureSpec, Line, Mark, nice_ticks
from nansense_widgets.widgets.polyline import drawn_points
from nansense_widgets.widgets.views.curves import figure_specs
from tests.driver import Driver, start_small
from tests.widgets.test_messages import Browser

if TYPE_CHECKING:
    from nansense_widgets.widgets.curves import Curves


@pytest.fixture
def collecting() -> Any:
    """The small classifier with statistics, in the second batch of the second epoch."""
    session, loop = start_small()
    session.watch("*")
    session.set_stats_scope("watched")
    driver = Driver(session, loop)
    for command in ("step_epoch", "step_batch", "step_batch"):
        driver.do(command)
    yield driver
    driver.finish()
    session.close()


def alone(driver: Driver, layer: str) -> tuple[Curves, Browser]:
    widget = driver.session.curves(layer)
    return widget, Browser(widget)


def shown(widget: Curves, browser: Browser, *statistics: str) -> Any:
    """What the view is told once the main thread, which is this one, has made the figures."""
    layer = widget.layers[0]
    options = {"statistics": list(statistics)}
    card = {"layer": layer, "call": 1, "leaf": 0, "view": "curves", "options": options}
    for _ in range(2):
        browser.send(type="want", view="v", cards=[card])
        widget.refresh()
    [card] = browser.cards()[-1][0]["cards"]
    assert card["failed"] == ""
    return card["content"]


def figure(widget: Curves, content: Any, key: str) -> Any:
    import ipywidgets

    [model] = [one["model"] for one in content["figures"] if one["key"] == key]
    return ipywidgets.widgets.widget._instances[model]  # noqa: SLF001  as the browser finds it


def test_numbers_are_those_of_the_statistics(collecting: Any) -> None:
    widget, _ = alone(collecting, "2")
    numbers = widget.to_dict()
    assert list(numbers) == ["activations", "gradients"]
    assert list(numbers["activations"]) == ["train", "val"]
    assert list(numbers["gradients"]) == ["train"]  # validation has none
    train = numbers["activations"]["train"]
    assert train["epoch"].tolist() == [0, 1]
    assert train["running"].tolist() == [False, True]
    assert train["batches"].tolist() == [5, 2]
    watch = collecting.session.watch_snapshot()
    for at, epoch in enumerate(train["epoch"]):
        stats = watch.stats["2", "train", int(epoch)].activations
        assert train["mean"][at] == stats.mean
        assert train["95%"][at] == stats.quantile(0.95)
        assert train["dead"][at] == stats.dead_channel_count
    assert set(train) == {"epoch", "running", "batches", "dead", "not finite", *STATISTICS}
    # An epoch of which only scalars are kept still has all of them.
    before = train["75%"][0]
    collecting.do("step_epoch")
    collecting.do("step_batch")
    train = widget.to_dict()["activations"]["train"]
    assert train["epoch"].tolist() == [0, 1, 2]
    assert train["75%"][0] == before
    assert collecting.session.watch_snapshot().stats["2", "train", 0].activations.hist is None


def test_parameters_have_their_weights_and_steps(collecting: Any) -> None:
    widget, _ = alone(collecting, "1")
    numbers = widget.to_dict()
    assert list(numbers) == ["activations", "gradients", "1.weight", "1.bias"]
    assert list(numbers["1.weight"]) == ["", "train"]
    weights, steps = numbers["1.weight"][""], numbers["1.weight"]["train"]
    assert weights["epoch"].tolist() == [0, 1]
    assert np.isfinite(weights["std"]).all()
    assert steps["batches"].tolist() == [5, 2]
    assert (steps["gradient norm"] > 0).all()
    assert (steps["update ratio"] > 0).all()


def test_table_has_a_row_an_epoch(collecting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    widget, _ = alone(collecting, "1")
    table = widget.to_pandas()
    numbers = widget.to_dict()
    assert len(table) == sum(len(one["epoch"]) for phases in numbers.values() for one in phases.values())
    row = table[(table.tensor == "1.bias") & (table.phase == "train") & (table.epoch == 1)]
    assert row["gradient norm"].item() == numbers["1.bias"]["train"]["gradient norm"][1]
    assert row["mean"].isna().all()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas\(\) needs pandas"):
        widget.to_pandas()


def test_nothing_collected_gives_no_numbers_and_says_why() -> None:
    session, loop = start_small()
    session.set_stats_scope("none")
    driver = Driver(session, loop)
    widget, browser = alone(driver, "1")
    content = shown(widget, browser, "mean")
    assert (content["figures"], content["wait"], content["offer"]) == ([], "", "collect")
    assert "not collected" in content["hint"]
    assert widget.to_dict() == {}
    assert len(widget.to_pandas()) == 0
    driver.finish()
    session.close()


def test_figures_hold_the_lines_and_change_in_place(collecting: Any) -> None:
    widget, browser = alone(collecting, "1")
    content = shown(widget, browser, "mean", "max")
    assert [one["key"] for one in content["figures"]] == [
        "activations", "gradients", "dead", "weights 1.weight", "weights 1.bias",
        "gradient norm", "update ratio",
    ]  # fmt: skip
    assert content["phases"] == ["train", "val"]
    assert content["partial"] == ["train \u00b7 epoch 2: 2 of 5 batches so far"]
    drawn = figure(widget, content, "activations")
    numbers = widget.to_dict()["activations"]
    train, _, hollow, val, _, val_hollow = drawn.marks
    assert (train.line_style, val.line_style) == ("solid", "dashed")
    assert train.x.tolist() == [1, 2]
    np.testing.assert_array_equal(train.y, [numbers["train"]["mean"], numbers["train"]["max"]])
    np.testing.assert_array_equal(
        np.atleast_2d(val.y)[:, 0], [numbers["val"]["mean"][0], numbers["val"]["max"][0]]
    )
    # The epoch that goes on has rings instead of dots.
    assert (hollow.fill, hollow.x.tolist(), val_hollow.x.tolist()) == (False, [2, 2], [])
    # More batches, another choice: the same figure with other numbers.
    collecting.do("step_batch")
    again = shown(widget, browser, "mean")
    assert [one["model"] for one in again["figures"]] == [one["model"] for one in content["figures"]]
    assert figure(widget, again, "activations").marks[0] is train
    np.testing.assert_array_equal(np.atleast_2d(train.y)[0], widget.to_dict()["activations"]["train"]["mean"])
    # A finished epoch has no rings.
    collecting.do("step_epoch")
    last = shown(widget, browser, "mean")
    assert last["partial"] == []
    assert hollow.x.tolist() == []


def test_specs_keep_phases_and_statistics_apart(collecting: Any) -> None:
    series = layer_series(collecting.session.watch_snapshot(), "1", None)
    specs = {spec.key: spec for spec in figure_specs(series, ["std"])}
    assert [(line.phase, line.label) for line in specs["activations"].lines] == [
        ("train", "std"),
        ("val", "std"),
    ]
    assert [line.label for line in specs["gradient norm"].lines] == ["weight", "bias"]
    assert specs["dead"].whole
    assert not specs["activations"].whole
    assert "activations" not in {spec.key for spec in figure_specs(series, [])}


def test_newest_numbers_are_said_in_words(collecting: Any) -> None:
    watch = collecting.session.watch_snapshot()
    specs = {spec.key: spec for spec in figure_specs(layer_series(watch, "1", None), ["mean", "max"])}
    train, val = (watch.stats["1", phase, epoch].activations for phase, epoch in (("train", 1), ("val", 0)))
    assert specs["activations"].newest_text == (
        f"train, epoch 2: mean {train.mean:.3g}, max {train.max:.3g}."
        f" val, epoch 1: mean {val.mean:.3g}, max {val.max:.3g}."
    )
    assert specs["weights 1.bias"].newest_text.startswith("epoch 2: mean ")


def test_the_legend_has_each_line_once_with_its_newest_number(collecting: Any) -> None:
    watch = collecting.session.watch_snapshot()
    specs = {spec.key: spec for spec in figure_specs(layer_series(watch, "1", None), ["mean", "max"])}
    train = watch.stats["1", "train", 1].activations
    found = [(line["label"], line["newest"]) for line in specs["activations"].legend]
    assert found == [("mean", train.mean), ("max", train.max)]
    colors = [line["color"] for line in specs["gradient norm"].legend]
    assert len(colors) == len(set(colors)) == 2


def test_a_picture_for_later_leaves_the_figures_as_they_are(collecting: Any) -> None:
    widget, browser = alone(collecting, "1")
    content = shown(widget, browser, "mean", "max")
    before = figure(widget, content, "activations").marks[0].y.shape
    widget.keep_picture()
    widget.refresh()
    assert figure(widget, content, "activations").marks[0].y.shape == before == (2, 2)


def test_lines_of_batches_lie_where_their_batches_do_and_what_happened_is_marked() -> None:
    fine, coarse = np.arange(8) / 4, np.array([0.0, 1.0])
    lines = [
        Line("train", label, "#2b7de0", xs, xs * 10, np.zeros(len(xs), bool))
        for label, xs in (("loss", fine), ("accuracy", coarse), ("none yet", fine[:0]))
    ]
    picture = CurvePicture(FigureSpec("loss", "Loss", "", tuple(lines), ("train",)))
    drawn = picture.figure.marks[0]
    np.testing.assert_array_equal(drawn.x[0], fine + 1)
    np.testing.assert_array_equal(drawn.y[0], fine * 10)
    # Shorter lines end in their last point: bqplot has tables only.
    np.testing.assert_array_equal(drawn.x[1], [1, *[2] * 7])
    np.testing.assert_array_equal(drawn.y[1], [0, *[10] * 7])
    assert np.isnan(drawn.y[2]).all()
    assert len(picture.figure.marks) == 3
    marks = (Mark(0.5, "#808080"), Mark(1.25, "#c4781f"))
    picture.update(FigureSpec("loss", "Loss", "", tuple(lines), ("train",), marks=marks, end=2.5))
    assert picture.figure.marks[0] is drawn
    events = picture.figure.marks[-1]
    assert (events.x.tolist(), events.colors) == ([[1.5, 1.5], [2.25, 2.25]], ["#808080", "#c4781f"])
    scale = drawn.scales["x"]
    assert scale.min < 1
    assert scale.max > 3.5


@given(
    st.lists(st.floats(-1e6, 1e6) | st.just(np.nan), max_size=3000),
    st.lists(st.integers(1, 2999), max_size=3),
)
def test_a_long_line_keeps_its_ends_extremes_and_gaps(numbers: list[float], at: list[int]) -> None:
    values, xs = np.array(numbers, np.float64), np.arange(len(numbers)) / 7
    breaks = sorted({place for place in at if place < len(numbers)})
    kept_xs, kept = drawn_points(xs, values, breaks, most=200)
    assert len(kept) <= 200 + 6 * (len(breaks) + 1)
    known = dict(zip(xs, values, strict=True))
    inserted = {float(xs[place]) for place in breaks}
    for x, value in zip(kept_xs, kept, strict=True):
        assert (np.isnan(value) and x in inserted) or np.array_equal(value, known[x], equal_nan=True)
    if np.isfinite(values).any():
        assert (np.nanmin(kept), np.nanmax(kept)) == (np.nanmin(values), np.nanmax(values))
    if numbers:
        assert (kept_xs[0], kept_xs[-1]) == (xs[0], xs[-1])
    assert all(np.isnan(kept[np.searchsorted(kept_xs, xs[place])]) for place in breaks)


def test_ticks_are_round_numbers_inside() -> None:
    for low, high in ((-1.3, 1.1), (0.0, 3.3e-5), (2.0, 2.001), (-5e7, 1e3)):
        ticks = nice_ticks(low, high)
        assert 2 <= len(ticks) <= 6
        assert low <= ticks.min() <= ticks.max() <= high
    assert nice_ticks(-0.1, 3.2, whole=True).tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(nice_ticks(0.0, 1.0), [0, 0.2, 0.4, 0.6, 0.8, 1])


def test_what_is_not_finite_has_a_figure_and_draws_no_empty_lines() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    session.watch("1")
    driver.do("step_epoch")
    weight = next(p for p in driver.session.watch_snapshot().owned["1"])
    assert weight == "1.weight"
    watch = session.watch_snapshot()
    broken = TensorStatsSnapshot(nan=7, posinf=1)
    key = ("1", "train", 0)
    stats = dict(watch.stats)
    stats[key] = replace(stats[key], activations=broken)
    specs = {
        spec.key: spec
        for spec in figure_specs(layer_series(replace(watch, stats=stats), "1", None), ["mean"])
    }
    [line] = specs["not finite"].lines
    assert (line.label, line.values.tolist()) == ("activations", [8.0])
    assert {line.phase for line in specs["activations"].lines} == {"val"}  # of training no value is finite
    driver.finish()
    session.close()
