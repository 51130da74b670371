"""What the widgets send, read back and compared with the tensors; and when they send it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch

from nansense_widgets.widgets.dashboard import Dashboard
from nansense_widgets.widgets.painter import Painter
from nansense_widgets.widgets.publisher import BURST, Publisher
from tests.driver import TIMEOUT_S, Driver, start_small


class Browser:
    """Stands where the page stands: sends messages to a widget and keeps what comes back."""

    def __init__(self, widget: Dashboard) -> None:
        self.widget = widget
        self.received: list[tuple[dict[str, Any], list[bytes]]] = []
        widget.send = self._receive

    def _receive(self, message: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        self.received.append((message, buffers or []))

    def send(self, **message: Any) -> None:
        self.widget._heard(self.widget, message, [])  # noqa: SLF001  where ipywidgets hands it over
        assert self.widget._hub.painter.wait_idle(TIMEOUT_S)  # noqa: SLF001

    def cards(self) -> list[tuple[dict[str, Any], list[bytes]]]:
        return [(message, buffers) for message, buffers in self.received if message["type"] == "cards"]


def want(layer: str, call: int = 1, leaf: int = 0, **other: Any) -> dict[str, Any]:
    """What a card asks for that shows its strips."""
    options = {"sample": 0, "average": False, "transform": "none", "part": "magnitude"}
    options |= {"first": 0, "count": 16, "px": 56, "depth": 0, "shows": "difference"} | other
    return {"layer": layer, "call": call, "leaf": leaf, "view": "strips", "options": options}


@pytest.fixture
def paused() -> Any:
    session, loop = start_small()
    session.watch("*")
    driver = Driver(session, loop)
    browser = Browser(session.dashboard())
    yield driver, browser
    driver.finish()
    session.close()


def decoded(strip: dict[str, Any], buffers: list[bytes]) -> np.ndarray:
    codes = np.frombuffer(buffers[strip["buffer"]], np.uint8)
    return (codes.astype(float) - 129) / 126 * strip["scale"]


def test_strips_are_the_tensors(paused: Any) -> None:
    driver, browser = paused
    browser.send(type="want", view="v", cards=[want("1", sample=2), want("3", sample=1, transform="abs")])
    [(message, buffers)] = browser.cards()
    assert message["snapshot"] == driver.snapshot.number
    assert message["position"] == {"phase": "train", "epoch": 0, "batch_idx": 0, "batches": 5, "epochs": 3}
    first, second = message["cards"]
    assert (first["layer"], first["cls"], first["calls"]) == ("1", "Linear", 1)
    for card, sample, transform in ((first, 2, torch.clone), (second, 1, torch.abs)):
        for strip, tensors in zip(
            card["content"]["strips"],
            (driver.snapshot.activations, driver.snapshot.activation_gradients),
            strict=True,
        ):
            expected = transform(tensors[card["layer"]][sample]).numpy()
            assert strip["missing"] == ""
            assert strip["layout"] == "bar"
            assert strip["samples"] == 4
            assert strip["scale"] == pytest.approx(np.abs(expected).max())
            np.testing.assert_allclose(decoded(strip, buffers), expected, atol=strip["scale"] / 126 * 0.51)


def test_exact_values_are_exact(paused: Any) -> None:
    driver, browser = paused
    browser.send(
        type="fetch",
        view="v",
        req=9,
        card=want("1", sample=3),
        ask={"kind": "gradients", "channel": 5, "window": None},
    )
    message, [values] = browser.received[-1]
    assert (message["type"], message["view"], message["req"], message["missing"]) == ("exact", "v", 9, "")
    exact = np.frombuffer(values, message["dtype"])
    assert exact.item() == driver.snapshot.activation_gradients["1"][3, 5].item()


def test_what_is_missing_has_its_reason(paused: Any) -> None:
    driver, browser = paused
    driver.session.unwatch("2")
    driver.do("step_batch")
    driver.session.watch("2")
    browser.send(type="want", view="v", cards=[want("2"), want("1", call=4), want("1", sample=99)])
    message, _ = browser.cards()[-1]
    texts = [card["content"]["strips"][0]["missing"] for card in message["cards"]]
    assert texts == [
        "not captured: watched after this batch ran; step to capture it",
        "there was no call 4 in this batch: 1 in all",
        "there is no sample 99: the batch has 4",
    ]


def test_nothing_more_is_sent_until_the_view_has_drawn(paused: Any) -> None:
    driver, browser = paused
    browser.send(type="want", view="v", cards=[want("1")])
    for _ in range(3):
        driver.do("step_batch")
    assert browser.widget._hub.painter.wait_idle(TIMEOUT_S)  # noqa: SLF001
    assert len(browser.cards()) == 1
    browser.send(type="ack", view="v", seq=1)
    assert [message["seq"] for message, _ in browser.cards()] == [1, 2]
    assert browser.cards()[-1][0]["snapshot"] == driver.snapshot.number  # the latest, none between
    browser.send(type="ack", view="v", seq=2)
    assert len(browser.cards()) == 2
    driver.do("step_batch")
    assert browser.widget._hub.painter.wait_idle(TIMEOUT_S)  # noqa: SLF001
    assert len(browser.cards()) == 3


def test_each_view_gets_what_it_asked_for(paused: Any) -> None:
    _, browser = paused
    browser.send(type="want", view="a", cards=[want("1")])
    browser.send(type="want", view="b", cards=[want("3"), want("2")])
    (a, _), (b, _) = browser.cards()
    assert (a["view"], [card["layer"] for card in a["cards"]]) == ("a", ["1"])
    assert (b["view"], [card["layer"] for card in b["cards"]]) == ("b", ["3", "2"])


def test_actions_call_the_session_and_echo_the_call(paused: Any) -> None:
    driver, browser = paused
    browser.send(type="action", view="v", req=1, name="unwatch", args={"layers": ["1", "2"]})
    assert "1" not in driver.session.watched_layers
    browser.send(type="action", view="v", req=2, name="watch", args={"layers": ["no such"]})
    browser.send(type="action", view="v", req=3, name="close", args={})
    browser.send(
        type="action",
        view="v",
        req=4,
        name="set_update_frequency",
        args={"unit": "batch", "n": 3, "phase": None},
    )
    echoes = [message for message, _ in browser.received if message["type"] == "echo"]
    assert [echo["code"] for echo in echoes] == [
        "session.unwatch('1', '2')",
        "session.watch('no such')",
        "session.close()",
        "session.set_update_frequency(unit='batch', n=3)",
    ]
    assert [echo["error"].split(":")[0] for echo in echoes] == ["", "ValueError", "UnknownActionError", ""]
    assert driver.session.status.word == "paused"
    assert driver.session.update_frequency.n == 3


def test_state_and_graph_traits(paused: Any) -> None:
    driver, browser = paused
    driver.do("step_phase")
    browser.widget.refresh()
    state = browser.widget.state
    assert state["status"] == "paused"
    assert state["position"]["phase"] == "val"
    assert state["standing"] == "before"
    assert state["shown"]["batch_idx"] == 4
    assert state["phases"] == {"train": 5, "val": 2}
    graph = browser.widget.graph
    assert [node["name"] for node in graph["nodes"]] == ["input", "0", "1", "2", "3"]
    assert graph["edges"] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert graph["nodes"][2]["params"] == 16 * 8 + 8
    assert browser.widget.watched == list(driver.session.watched_layers)


def test_one_widget_however_often_it_is_shown(paused: Any) -> None:
    session = paused[0].session
    assert session.dashboard() is session.dashboard()
    assert session.strips("1") is session.strips("1")
    assert session.strips("1") is not session.strips("3")
    assert session.strips("Linear").layers == ["1", "3"]
    assert repr(session.controls()).startswith("<Controls of <Session of Sequential")


def test_unknown_arguments_of_a_widget_are_refused(paused: Any) -> None:
    with pytest.raises(TypeError, match="unknown arguments: color"):
        Dashboard(paused[0].session._hub, color="red")  # noqa: SLF001


def test_publisher_orders_an_update_that_was_lost_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt of the kernel may end the callback before it has begun."""
    monkeypatch.setattr("nansense_widgets.widgets.publisher.LOST_S", 0.05)

    async def main() -> int:
        updates: list[None] = []
        publisher = Publisher(lambda: updates.append(None))
        publisher.find_loop()
        with monkeypatch.context() as lost:
            lost.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", lambda *_: None)
            publisher.poke()
        publisher.poke()  # at once, it is taken to be under way
        await asyncio.sleep(0.02)
        assert updates == []
        await asyncio.sleep(0.05)
        publisher.poke()
        await asyncio.sleep(0.1)
        return len(updates)

    assert asyncio.run(main()) == 1


def test_publisher_makes_many_pokes_one_update_and_keeps_the_pace() -> None:
    times: list[float] = []
    publisher = Publisher(lambda: times.append(time.monotonic()))
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        publisher.poke()
        publisher.pump()
    assert BURST + 15 <= len(times) <= BURST + 22


def test_painter_runs_the_latest_of_a_key_and_survives_errors() -> None:
    painter = Painter()
    gate = threading.Event()
    done: list[str] = []

    def wait() -> None:
        gate.wait(TIMEOUT_S)

    painter.submit(wait)
    for name in ("old", "new"):
        painter.submit_latest("paint", lambda name=name: done.append(name))  # type: ignore[misc]
    painter.submit(lambda: done.append(str(1 // 0)))
    gate.set()
    assert painter.wait_idle(TIMEOUT_S)
    assert done == ["new"]
    assert painter.error == "ZeroDivisionError: integer division or modulo by zero"
    painter.submit(lambda: done.append("after"))
    assert painter.wait_idle(TIMEOUT_S)
    assert done == ["new", "after"]
    assert painter.error == ""


def test_a_view_that_fails_says_so_on_its_card_and_spares_the_others(paused: Any) -> None:
    _, browser = paused
    broken = want("2")
    del broken["options"]["px"]
    browser.send(type="want", view="v", cards=[want("1"), broken, want("3")])
    [(message, buffers)] = browser.cards()
    first, second, third = message["cards"]
    assert second["failed"] == "this view could not be made: KeyError: 'px'"
    assert second["content"] is None
    assert (first["failed"], third["failed"]) == ("", "")
    assert [strip["buffer"] for card in (first, third) for strip in card["content"]["strips"]] == [0, 1, 2, 3]
    assert len(buffers) == 4


def test_scripts_of_views_are_those_that_were_built(paused: Any) -> None:
    driver, browser = paused
    for name in ("histogram", "curves"):
        browser.send(type="script", view="v", req=4, name=name)
        message, [script] = browser.received[-1]
        assert (message["type"], message["view"], message["req"]) == ("script", "v", 4)
        assert b"export{" in script
    before = len(browser.received)
    browser.send(type="script", view="v", req=5, name="../dashboard")
    assert len(browser.received) == before
    assert "is no view with a script" in driver.session.notice
