"""The timeline's view model: where things lie, and what would happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets.stats.series import MetricSeries
from nansense_widgets.widgets.views.timeline import MOST_SEGMENTS, Axis, _segments
from tests.driver import Driver, small_data, small_model
from tests.widgets.test_messages import Browser

TRAIN, VAL = 5, 3
EPOCH = TRAIN + VAL


@pytest.fixture
def running(tmp_path: Path) -> Any:
    model, data = small_model(), small_data(TRAIN)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = nansense_widgets.start(model, optimizer=optimizer)

    def loop() -> None:
        for _ in session.epochs(4, cache_dir=tmp_path):
            with session.restore_point():
                for x, y in session.batches(data, phase="train"):
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
                with torch.no_grad():
                    for x, _ in session.batches(data[:VAL], phase="val"):
                        model(x)

    driver = Driver(session, loop)
    driver.do("step_batch")
    yield driver
    driver.finish()
    session.close()


def shown(driver: Any) -> tuple[Any, Browser]:
    widget = driver.session.dashboard()
    browser = Browser(widget)
    card = {"layer": "timeline", "call": 1, "leaf": 0, "view": "timeline", "options": {}}
    browser.send(type="want", view="v", cards=[card])
    [card] = browser.cards()[-1][0]["cards"]
    assert card["failed"] == ""
    return card["content"], browser


def way(browser: Browser, at: float) -> Any:
    card = {"layer": "timeline", "call": 1, "leaf": 0, "view": "timeline", "options": {}}
    browser.send(type="fetch", view="v", req=1, card=card, ask={"at": at})
    return next(m for m, *_ in reversed(browser.received) if m.get("type") == "way")


def test_batches_lie_one_after_another(running: Any) -> None:
    running.do("step_until_position", "train", 1, 2)
    content, _ = shown(running)
    assert content["epochs"] == 4
    assert [(one["name"], one["batches"]) for one in content["phases"]] == [("train", TRAIN), ("val", VAL)]
    assert content["phases"][1]["start"] == TRAIN / EPOCH
    assert [(one["phase"], one["start"], one["end"]) for one in content["segments"]] == [
        (0, 0, TRAIN / EPOCH),
        (1, TRAIN / EPOCH, 1),
        (0, 1, 1 + 3 / EPOCH),
    ]
    assert content["now"] == 1 + 3 / EPOCH
    assert content["checkpoints"] == [0, 1]
    assert content["reach"][1] == 1 + 3 / EPOCH
    losses = running.session.run_log.series("loss")["train"]
    assert content["label"] == f"loss {losses.values[-1]:.4g}"
    assert np.allclose(
        content["curve"]["xs"], [*(np.arange(1, 6) / 8), *(1 + np.arange(1, 4) / 8)], atol=1e-5
    )
    scaled = (losses.values - losses.values.min()) / np.ptp(losses.values)
    assert np.allclose(np.array(content["curve"]["ys"], float), scaled, atol=1e-3)


def test_what_would_happen_is_said_and_happens(running: Any) -> None:
    running.do("step_until_position", "train", 1, 2)
    _, browser = shown(running)
    near, far, ahead = (way(browser, at) for at in (1 + 1.5 / 8, 0.1, 2.01))
    assert near["action"] == "rewind"
    assert near["args"] == {"phase": "train", "epoch": 1, "batch_idx": 1}
    loss = running.session.run_log.series("loss")["train"].values[TRAIN + 1]
    assert near["text"].startswith(f"epoch 2, train, batch 2 (loss {loss:.4g}): computes ")
    assert near["text"].endswith(" anew, from a state in memory")
    assert far["text"].endswith("): restores the beginning of epoch 1 and computes 1 batch anew")
    assert (ahead["action"], ahead["text"]) == (
        "step_until_position",
        "epoch 3, train, batch 1: runs on to it, and pauses after it",
    )
    before = running.session.pause_count
    browser.send(type="action", view="v", req=2, name="rewind", args=far["args"])
    running.paused(before)
    assert running.shown == ("train", 0, 0)
    assert way(browser, 3.99)["text"].startswith("epoch 4, val, batch 3: ")


def test_a_left_future_is_drawn_from_where_it_was_left(running: Any) -> None:
    running.do("step_until_position", "train", 1, 4)  # all phases are known then
    running.do("step_back", 2)
    running.session.set_hyperparameter("lr", 0.5)
    running.do("step_batch")
    content, _ = shown(running)
    [branch] = content["branches"]
    assert branch["text"] == "branch 1, left when lr was set to 0.5"
    assert (branch["start"], branch["end"]) == (1 + 3 / EPOCH, 1 + 5 / EPOCH)
    assert np.allclose(branch["curve"]["xs"], 1 + np.array([3, 4, 5]) / EPOCH)
    kinds = {mark["kind"]: mark["at"] for mark in content["marks"]}
    assert kinds["hyperparameter"] == kinds["jump"] == 1 + 3 / EPOCH


def test_a_loss_that_is_no_number_is_marked(running: Any) -> None:
    running.session.track("nothing", torch.optim.SGD(small_model().parameters()))
    running.session.set_hyperparameter("lr", 1e30)
    running.do("step_until_position", "train", 0, 4)
    content, _ = shown(running)
    [mark] = [one for one in content["marks"] if one["kind"] == "finding"]
    assert " from epoch 1, train, batch " in mark["text"]
    assert None in content["curve"]["ys"]


def test_layers_whose_values_are_not_finite_are_marked_until_that_is_undone(running: Any) -> None:
    driver, session = running, running.session
    session.watch("*")
    assert session.first_nonfinite == ()
    driver.do("step_until_position", "train", 0, 2)
    session.set_hyperparameter("lr", 1e38)
    driver.do("step_until_position", "train", 0, 4)
    names = [one.layer for one in session.first_nonfinite if one.kind == "activations"]
    assert {(one.phase, one.epoch, one.batch_idx) for one in session.first_nonfinite} == {("train", 0, 4)}
    nodes = [name for name in session.architecture.nodes if name in session.watched_layers]
    assert names == [name for name in nodes if name in names]  # as the forward reaches them
    gradients = [one.layer for one in session.first_nonfinite if one.kind == "gradients"]
    assert gradients == [name for name in reversed(nodes) if name in gradients]
    content, _ = shown(driver)
    [mark] = [one for one in content["marks"] if one["kind"] == "finding"]
    loss, activations, backward = mark["text"].split("\n")
    assert loss == "loss is nan from epoch 1, train, batch 5"
    first = next(name for name in names if not session.architecture.nodes[name].is_scope)
    assert activations.startswith(f"activations of {first} are NaN or Inf from epoch 1, train, batch 5")
    assert backward.startswith("gradients of ")
    driver.do("step_back")
    assert session.first_nonfinite == ()
    content, _ = shown(driver)
    assert not [one for one in content["marks"] if one["kind"] == "finding"]


def test_before_anything_there_is_an_empty_axis() -> None:
    session = nansense_widgets.start(small_model(), epochs=3)
    widget = session.dashboard()
    browser = Browser(widget)
    card = {"layer": "timeline", "call": 1, "leaf": 0, "view": "timeline", "options": {}}
    browser.send(type="want", view="v", cards=[card])
    [card] = browser.cards()[-1][0]["cards"]
    content: Any = card["content"]
    assert (content["epochs"], content["now"], content["segments"]) == (3, None, [])
    assert way(browser, 0.5)["text"] == "no batch is known there"
    session.close()


def test_every_place_is_of_the_batch_that_lies_there(running: Any) -> None:
    running.do("step_epoch")
    axis = Axis(running.session)
    for phase, count in (("train", TRAIN), ("val", VAL)):
        for batch in range(count):
            start, end = axis.at(phase, 2, batch), axis.at(phase, 2, batch + 1)
            assert axis.batch(start) == axis.batch((start + end) / 2) == (phase, 2, batch)
    two = np.array([2])
    one = MetricSeries(two, two, two.astype(float), two)
    assert axis.places("val", one)[0] == axis.at("val", 2, 3)


def test_of_a_long_run_the_older_segments_are_one(running: Any) -> None:
    running.do("step_epoch")
    axis = Axis(running.session)
    merged = [(phase, epoch, 0, count) for epoch in range(900) for phase, count in axis.counts.items()]
    found = _segments(merged, list(axis.counts), axis)
    assert len(found) == MOST_SEGMENTS + 1
    assert (found[0]["start"], found[0]["end"]) == (0.0, found[1]["start"])
    assert found[-1]["end"] == 900.0
