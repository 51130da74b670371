"""The Run view: its figures hold what the run logged, its marks and settings are the session's."""

from __future__ import annotations

import time
from typing import Any

import ipywidgets
import numpy as np
import pytest

from nansense_widgets.run.events import Event
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.widgets import hub
from nansense_widgets.widgets.views.run import EVENT_COLORS, run_figures, smoothed_values
from tests.driver import Driver, small_data, small_training, start_small, train
from tests.widgets.test_messages import Browser


@pytest.fixture
def running() -> Any:
    session, loop = start_small()
    driver = Driver(session, loop)
    driver.do("step_batch")
    yield driver
    driver.finish()
    session.close()


def shown(widget: Any, browser: Browser, smooth: bool | None = None) -> Any:
    card = {"layer": "run", "call": 1, "leaf": 0, "view": "run", "options": {"smooth": smooth}}
    for _ in range(2):
        browser.send(type="want", view="v", cards=[card])
        widget.refresh()
    [card] = browser.cards()[-1][0]["cards"]
    assert card["failed"] == ""
    return card["content"]


def figure(content: Any, title: str) -> Any:
    [model] = [one["model"] for one in content["figures"] if one["title"] == title]
    return ipywidgets.widgets.widget._instances[model]  # noqa: SLF001  as the browser finds it


def test_before_anything_it_says_how_to_begin() -> None:
    session, _, _ = small_training()
    widget = session.run_curves()
    content = shown(widget, Browser(widget))
    assert "session.log(" in content["hint"]
    assert (content["figures"], content["events"], content["pauses"]) == ([], [], 0)
    assert [knob["name"] for knob in content["groups"][0]["knobs"]][:2] == ["lr", "momentum"]
    assert widget.to_dict() == {}
    assert len(widget.to_pandas()) == 0
    session.close()


def test_figures_hold_what_was_logged_and_seen(running: Any) -> None:
    running.session.log("accuracy", 0.5)
    running.do("step_epoch")
    running.session.log("accuracy", 0.75)
    widget = running.session.run_curves()
    browser = Browser(widget)
    content = shown(widget, browser)
    assert [(one["title"], one["unit"]) for one in content["figures"]] == [
        ("loss", "seen in backward()"),
        ("accuracy", "logged"),
        ("lr", "seen in backward()"),
    ]
    loss = running.session.run_log.series("loss")["train"]
    line = figure(content, "loss").marks[0]
    np.testing.assert_array_equal(line.y, loss.values)
    np.testing.assert_array_equal(line.x, np.arange(5) / 5 + 1)
    assert content["figures"][0]["lines"] == [
        {"label": "train", "color": "#2b7de0", "style": 0, "newest": loss.values[-1]}
    ]
    assert content["phases"] == ["train", "val"]
    numbers = widget.to_dict()
    np.testing.assert_array_equal(numbers["loss"]["train"]["value"], loss.values)
    assert numbers["accuracy"]["train"]["batch"].tolist() == [1]
    assert numbers["accuracy"]["val"]["value"].tolist() == [0.75]
    table = widget.to_pandas()
    assert len(table) == 5 + 2 + 5
    assert set(table.name) == {"loss", "accuracy", "lr"}


def test_changes_and_pauses_are_told_and_marked(running: Any) -> None:
    session = running.session
    widget = session.run_curves()
    browser = Browser(widget)
    browser.send(
        type="action", view="v", req=1, name="set_hyperparameter",
        args={"name": "lr", "value": 0.5, "optimizer": 0, "group": 0},
    )  # fmt: skip
    [echo] = [message for message, _ in browser.received if message["type"] == "echo"]
    assert (echo["code"], echo["error"]) == (
        "session.set_hyperparameter('lr', 0.5, optimizer=0, group=0)",
        "",
    )
    running.do("step_batch")
    content = shown(widget, browser)
    assert content["groups"][0]["knobs"][0]["value"] == 0.5
    [event] = content["events"]
    assert (event["kind"], event["text"]) == ("hyperparameter", "lr 0.1 \u2192 0.5")
    assert (event["position"]["phase"], event["position"]["batch_idx"]) == ("train", 1)
    assert content["pauses"] == 3
    assert content["marked"] == ["pause", "hyperparameter"]
    marks = figure(content, "loss").marks[-1]
    places = dict(zip(marks.colors, marks.x[:, 0], strict=True))
    assert places[EVENT_COLORS["hyperparameter"]] == pytest.approx(1 + 2 / 5)


def test_a_refused_change_is_told_where_it_was_asked(running: Any) -> None:
    widget = running.session.run_curves()
    browser = Browser(widget)
    args = {"name": "lr", "value": -1, "optimizer": 0, "group": 0}
    browser.send(type="action", view="v", req=1, name="set_hyperparameter", args=args)
    [echo] = [message for message, _ in browser.received if message["type"] == "echo"]
    assert echo["error"] == "ValueError: value=-1: lr must be at least 0"


def test_many_pauses_at_one_place_are_one_mark() -> None:
    session, model, optimizer = small_training()
    session.detach()
    session.launch(lambda: train(model, optimizer, session.batches(small_data(200), phase="train")))
    assert session.wait(20)
    log = session.run_log
    events = [Event("pause", BatchPosition("train", 0, batch), "paused") for batch in range(200)]
    [loss, rate] = run_figures(log, events, {"train": 20_000}.get, smooth=False)
    assert len(loss.marks) <= 2 < len(events)  # all of them lie within a hundredth of the axis
    [loss, rate] = run_figures(log, events, {"train": 200}.get, smooth=False)
    assert len(loss.marks) == len(events) - 1  # that after the last batch lies beyond the line
    assert rate.marks == loss.marks
    session.close()


def test_smoothing_is_the_corrected_exponential_mean_and_leaves_rates_alone() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=50)
    values[7] = np.nan
    found = smoothed_values(values)
    weights = 0.9 ** np.arange(50)[::-1]
    for at in (0, 5, 20, 49):
        seen = np.isfinite(values[: at + 1])
        # The older, the less: weights by how many finite values came after.
        finite = values[: at + 1][seen]
        share = 0.9 ** np.arange(len(finite))[::-1]
        assert found[at] == pytest.approx((finite * share).sum() / share.sum())
    assert np.isnan(found[7])
    assert weights[0] < weights[-1]
    session, model, optimizer = small_training()
    session.detach()
    session.launch(lambda: train(model, optimizer, session.batches(small_data(40), phase="train")))
    assert session.wait(20)
    widget = session.run_curves()
    content = shown(widget, Browser(widget), smooth=True)
    assert content["smooth"]
    assert content["can_smooth"]
    labels = [[line["label"] for line in one["lines"]] for one in content["figures"]]
    assert labels == [["train", "train, smoothed"], ["train"]]
    session.close()


def test_a_running_loop_is_followed_without_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "LIVE_S", 0.05)
    session, model, optimizer = small_training()
    widget = session.run_curves()
    browser = Browser(widget)
    shown(widget, browser)
    session.detach()

    def loop() -> None:
        for item in session.batches(small_data(40), phase="train"):
            train(model, optimizer, [item])
            time.sleep(0.01)
            # As the page does when it has drawn.
            cards = browser.cards()
            browser.widget._heard(widget, {"type": "ack", "view": "v", "seq": cards[-1][0]["seq"]}, [])  # noqa: SLF001

    before = len(browser.cards())
    session.launch(loop)
    assert session.wait(20)
    assert session.snapshot is None
    assert len(browser.cards()) >= before + 3
    session.close()


def test_a_closed_session_keeps_its_figures_on_the_page() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    widget = session.run_curves()
    browser = Browser(widget)
    before = shown(widget, browser)
    driver.finish()
    session._close("replaced", keep_state=False)  # noqa: SLF001
    assert widget._hub.painter.wait_idle(20)  # noqa: SLF001
    after = shown(widget, browser)
    assert [one["model"] for one in after["figures"]] == [one["model"] for one in before["figures"]]


def test_a_future_that_was_left_is_a_faint_line(running: Any) -> None:
    running.do("step_until_position", "train", 0, 4)
    losses = running.session.run_log.series("loss")["train"].values
    running.do("step_back", 2)
    running.session.set_hyperparameter("lr", 0.001)
    running.do("step_batch")
    widget = running.session.run_curves()
    content = shown(widget, Browser(widget))
    [branch] = content["branches"]
    assert branch["text"] == "branch 1, left when lr was set to 0.001"
    lines = figure(content, "loss").marks[0]  # those of a phase, filled up to the same length
    live = running.session.run_log.series("loss")["train"].values
    assert np.allclose(lines.y[0], live)
    assert np.allclose(lines.y[1], [*losses[3:], losses[4], losses[4]])
    assert np.allclose(lines.x[1], 1 + np.array([3, 4, 4, 4]) / 5)
    assert lines.colors[1] == branch["color"] != lines.colors[0]


def test_a_line_that_ends_in_a_gap_ends_for_bqplot_where_it_has_a_number(running: Any) -> None:
    for value in (0.5, 0.25, float("nan")):
        running.session.log("score", value)
        running.do("step_batch")
    widget = running.session.run_curves()
    lines = figure(shown(widget, Browser(widget)), "score").marks[0]
    ys, xs = np.atleast_2d(lines.y)[0], np.atleast_2d(lines.x)[0]
    assert np.isnan(ys[2])
    assert (ys[-1], xs[-1]) == (0.25, xs[1])
