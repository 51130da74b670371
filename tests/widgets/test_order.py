"""In which order views are drawn: what people look at comes first, and a slow probe is said to be one."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets.widgets.cards import STILL_OPTIONS
from nansense_widgets.widgets.painter import Painter
from tests.driver import TIMEOUT_S, Driver, start_small
from tests.widgets.test_messages import Browser, want

PANE: dict[str, Any] = {
    "layer": "inputs", "call": 1, "leaf": 0, "view": "inputs", "options": STILL_OPTIONS["inputs"],
}  # fmt: skip


def test_a_job_may_wait_until_another_takes_its_place() -> None:
    painter, done = Painter(), []
    painter.submit_latest("late", lambda: done.append("late"), 0.2)
    painter.submit_latest("sooner", lambda: done.append("kept waiting"), 60.0)
    painter.submit(lambda: done.append("first"))
    painter.submit_latest("sooner", lambda: done.append("at once"))
    began = time.monotonic()
    assert painter.wait_idle(TIMEOUT_S)
    assert sorted(done[:2]) == ["at once", "first"]
    assert done[2:] == ["late"]
    assert time.monotonic() - began > 0.15
    # Asked for again and again, it is still done in time.
    began = time.monotonic()
    while len(done) < 4 and time.monotonic() - began < TIMEOUT_S:
        painter.submit_latest("late", lambda: done.append("in time"), 0.2)
        time.sleep(0.02)
    assert done[3] == "in time"
    painter.stop()


def drawn(browser: Browser) -> None:
    """Both views have drawn what they were sent."""
    for view in ("pane", "layers"):
        seq = [message["seq"] for message, _ in browser.cards() if message["view"] == view][-1]
        browser.send(type="ack", view=view, seq=seq)


def test_layers_come_before_what_lies_beside_them() -> None:
    session, loop = start_small()
    session.watch("*")
    driver = Driver(session, loop)
    browser = Browser(session.dashboard())
    browser.send(type="want", view="pane", cards=[PANE])
    browser.send(type="want", view="layers", cards=[want("1")])
    drawn(browser)
    seen = len(browser.cards())
    driver.do("step_batch")
    assert browser.widget._hub.painter.wait_idle(TIMEOUT_S)  # noqa: SLF001
    assert [message["view"] for message, _ in browser.cards()[seen:]] == ["layers", "pane"]
    driver.finish()
    session.close()


def test_a_painter_that_waits_for_a_job_to_be_due_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.widgets.painter.IDLE_S", 0.1)
    painter, done, waits = Painter(), [], []
    wait = painter._changed.wait  # noqa: SLF001

    def counted(seconds: float | None = None) -> bool:
        waits.append(seconds)
        return wait(seconds)

    monkeypatch.setattr(painter._changed, "wait", counted)  # noqa: SLF001
    painter.submit_latest("late", lambda: done.append("late"), 0.4)  # later than an idle thread ends
    end = time.monotonic() + TIMEOUT_S
    while not done and time.monotonic() < end:
        time.sleep(0.02)
    assert done == ["late"]
    assert len(waits) < 10
    painter.stop()


def test_an_action_after_a_stroke_stays_the_last_one() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    browser = Browser(session.dashboard())
    hub = browser.widget._hub  # noqa: SLF001
    hub.perform("add_perturbation", {"input_name": "input", "sample": 0, "values": [1.0]})
    hub.perform("undo_perturbation", {})
    assert hub.last_action == "session.undo_perturbation()"
    assert hub.painter.wait_idle(TIMEOUT_S)
    assert hub.last_action == "session.undo_perturbation()"
    driver.finish()
    session.close()


class Slow(nn.Module):
    """A model that takes as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.gate = threading.Event()
        self.gate.set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.gate.wait(TIMEOUT_S)
        return self.layer(x)


def of(browser: Browser, view: str) -> list[dict[str, Any]]:
    return [message["cards"][0]["content"] for message, _ in browser.cards() if message["view"] == view]


@pytest.mark.parametrize("slow", [False, True])
def test_what_is_asked_of_a_slow_probe_is_said_before_it_is_there(slow: bool) -> None:
    model = Slow()
    session = nansense_widgets.start(model, enabled=True)
    session.watch("layer")

    def loop() -> None:
        for _ in session.batches(range(8), phase="train"):
            model(torch.randn(6, 4)).sum().backward()

    driver = Driver(session, loop)
    browser = Browser(session.dashboard())
    painter = browser.widget._hub.painter  # noqa: SLF001
    session.add_perturbation("x", sample=0, index=(0,), values=1.0)
    assert session.wait_for_probe(TIMEOUT_S) is not None
    assert painter.wait_idle(TIMEOUT_S)
    browser.send(type="want", view="pane", cards=[PANE])
    browser.send(type="want", view="layers", cards=[want("layer")])
    drawn(browser)
    if slow:
        model.gate.clear()
    session.add_perturbation("x", sample=0, index=(1,), values=1.0)
    if slow:
        assert painter.wait_idle(TIMEOUT_S)
        assert of(browser, "pane")[-1]["probe"]["computing"]
        assert len(of(browser, "pane")[-1]["perturbations"]) == 2
        assert of(browser, "layers")[-1]["probed"]["text"].endswith("before the last change")
        drawn(browser)
        drawn(browser)  # and what was owed meanwhile
        model.gate.set()
    assert session.wait_for_probe(TIMEOUT_S) is not None
    time.sleep(0.1)  # the widgets are told just after
    assert painter.wait_idle(TIMEOUT_S)
    pane, layers = of(browser, "pane"), of(browser, "layers")
    # One drawing each of a fast probe: what waits for it is not drawn twice.
    assert slow or (len(pane), len(layers)) == (2, 2)
    assert not pane[-1]["probe"]["computing"]
    assert len(pane[-1]["perturbations"]) == 2
    assert not layers[-1]["probed"]["text"].endswith("before the last change")
    driver.finish()
    session.close()
