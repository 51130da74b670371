"""The view model of the Histogram view: what the browser is told, decoded and compared with the tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session, histogram_edges
from tests.driver import Driver, start_small
from tests.widgets.test_messages import Browser

BINS = 2041


def want(layer: str, source: str = "", compare: str = "", rows: str = "activations") -> dict[str, Any]:
    options = {"source": source, "compare": compare, "rows": rows}
    return {"layer": layer, "call": 1, "leaf": 0, "view": "histogram", "options": options}


def content(browser: Browser, layer: str, **options: Any) -> tuple[Any, list[bytes]]:
    browser.send(type="want", view=f"v{len(browser.received)}", cards=[want(layer, **options)])
    message, buffers = browser.cards()[-1]
    [card] = message["cards"]
    assert (card["view"], card["failed"]) == ("histogram", "")
    return card["content"], buffers


def counts(bars: Any, buffers: list[bytes]) -> np.ndarray:
    """All 2,041 bins, as the browser puts them together."""
    full = np.zeros(BINS)
    sides = np.frombuffer(buffers[bars["buffer"]], np.float64)
    n, first = bars["count"], bars["first"]
    assert len(sides) == 2 * n
    full[1020] = bars["zero"]
    full[1021 + first : 1021 + first + n] = sides[n:]
    full[1019 - first - n + 1 : 1019 - first + 1] = sides[:n][::-1]
    return full


def expected(values: torch.Tensor) -> np.ndarray:
    """The same, straight from the edges."""
    edges = histogram_edges().numpy()
    flat = values.double().flatten().numpy()
    flat = flat[np.isfinite(flat)]
    full = np.zeros(BINS)
    full[1020] = (flat == 0).sum()
    positive = np.digitize(flat[flat > 0], edges[1021:], right=False) - 1
    negative = np.digitize(-flat[flat < 0], -edges[1020::-1], right=False) - 1
    np.add.at(full, 1021 + positive, 1)
    np.add.at(full, 1019 - negative, 1)
    return full


@pytest.fixture
def collecting() -> Any:
    """Statistics of everything, over the small classifier; stands in the second batch of the first epoch."""
    session, loop = start_small()
    session.watch("*")
    driver = Driver(session, loop)
    driver.do("step_batch")
    yield driver, Browser(session.dashboard())
    driver.finish()
    session.close()


def keys(shown: Any) -> list[str]:
    return [row["key"] for row in shown["rows"]]


def test_bars_are_the_counts_of_the_values(collecting: Any) -> None:
    driver, browser = collecting
    shown, buffers = content(browser, "2", source="batch")
    assert keys(shown) == ["train:0", "batch"]
    assert (shown["chosen"], shown["hint"]) == ("batch", "")
    [figure] = shown["figures"]
    snapshot = driver.snapshot
    for kind, tensors in (
        ("activations", snapshot.activations),
        ("gradients", snapshot.activation_gradients),
    ):
        bars, tensor = figure[kind], tensors["2"]
        assert (bars["missing"], bars["dtype"], bars["n"]) == ("", "float32", tensor.numel())
        np.testing.assert_array_equal(counts(bars, buffers), expected(tensor))
        row = shown["rows"][-1][kind]
        assert row["mean"] == pytest.approx(tensor.double().mean().item())
        assert row["std"] == pytest.approx(tensor.double().std(correction=0).item())
        assert (row["min"], row["max"]) == (tensor.min().item(), tensor.max().item())
        assert (row["dead"], row["channels"]) == (int((tensor == 0).all(0).sum()), 8)
    # Over the epoch: both batches so far.
    shown, buffers = content(browser, "2")
    assert shown["chosen"] == "train:0"
    row = shown["rows"][0]
    assert (row["batches"], row["total"], row["running"]) == (2, 5, True)
    bars = shown["figures"][0]["activations"]
    assert bars["n"] == 2 * 4 * 8
    kept = driver.session.watch_snapshot().stats["2", "train", 0].activations.hist
    np.testing.assert_array_equal(counts(bars, buffers), kept.numpy())


def test_rows_are_the_channels(collecting: Any) -> None:
    driver, browser = collecting
    for kind, tensors in (
        ("activations", driver.snapshot.activations),
        ("gradients", driver.snapshot.activation_gradients),
    ):
        shown, buffers = content(browser, "1", source="batch", rows=kind)
        rows = shown["channels"]
        assert (rows["kind"], rows["axis"], rows["channels"], rows["rows"]) == (kind, "features", 8, 8)
        sides = np.frombuffer(buffers[rows["buffer"]], np.float32).reshape(8, 2 * rows["count"])
        for channel in range(8):
            full = expected(tensors["1"][:, channel])
            n, first = rows["count"], rows["first"]
            np.testing.assert_array_equal(sides[channel, n:], full[1021 + first : 1021 + first + n])
            assert rows["zeros"][channel] == full[1020]
        assert rows["nonfinite"] == [0] * 8


def test_a_finished_epoch_stays_and_is_compared(collecting: Any) -> None:
    driver, browser = collecting
    driver.do("step_epoch")  # before the first batch of the next one
    driver.do("step_batch")
    shown, _ = content(browser, "2", source="train:0", compare="train:1")
    assert keys(shown) == ["train:1", "train:0", "val:0", "batch"]
    assert [figure["key"] for figure in shown["figures"]] == ["train:0", "train:1"]
    assert shown["figures"][0]["activations"]["n"] == 5 * 4 * 8
    assert shown["figures"][1]["activations"]["n"] == 4 * 8
    rows = {row["key"]: row for row in shown["rows"]}
    assert [rows[key]["running"] for key in ("train:0", "train:1", "val:0")] == [False, True, False]
    assert rows["val:0"]["gradients"]["missing"] == "none: no gradient flowed through this layer here"
    # The newest epoch of a phase by the phase alone; without a choice, that of the phase in training.
    assert content(browser, "2", source="train:")[0]["chosen"] == "train:1"
    assert content(browser, "2")[0]["chosen"] == "train:1"
    # After two more only scalars are left of the first: that is said, and nothing old is passed off as it.
    driver.do("step_epoch")
    driver.do("step_batch")
    shown, _ = content(browser, "2", source="train:0")
    assert "train:0" not in keys(shown)
    assert shown["chosen"] == "train:2"
    assert shown["hint"].startswith("Epoch 1 of train is not kept any more")


def test_an_epoch_that_is_over_is_not_said_to_run(collecting: Any) -> None:
    driver, browser = collecting
    driver.do("step_run")
    rows = {row["key"]: row for row in content(browser, "2")[0]["rows"]}
    assert [rows[key]["batches"] for key in ("train:2", "val:2")] == [5, 2]
    assert not any(row["running"] for row in rows.values())


def test_why_there_is_nothing_and_what_would_help() -> None:
    session, loop = start_small()
    session.set_stats_scope("none")
    driver = Driver(session, loop)
    browser = Browser(session.dashboard())
    shown, buffers = content(browser, "1")
    assert (keys(shown), shown["chosen"], shown["figures"], shown["channels"]) == ([], "", [], None)
    assert shown["offer"] == "collect"
    assert "not captured" in shown["hint"]
    assert buffers == []
    browser.send(type="action", view="v", req=1, name="set_stats_scope", args={"scope": "watched"})
    echo = next(message for message, _ in browser.received if message["type"] == "echo")
    assert (echo["code"], echo["error"]) == ("session.set_stats_scope('watched')", "")
    assert content(browser, "1")[0]["offer"] == "watch"
    session.watch("1")
    shown, _ = content(browser, "1")
    assert (shown["offer"], "step or run" in shown["hint"]) == ("", True)
    driver.do("step_batch")
    shown, _ = content(browser, "1")
    assert (keys(shown), shown["hint"], shown["offer"]) == (["train:0", "batch"], "", "")
    # Collection that is off keeps what was collected, and says so.
    session.set_stats_scope("none")
    shown, _ = content(browser, "1")
    assert keys(shown) == ["train:0", "batch"]
    assert "what was collected stays" in shown["hint"]
    driver.finish()
    session.close()


class Odd(nn.Module):
    """20 channels; 3 and 18 are dead, 5 has what is not finite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[:, [3, 18]] = 0
        x[0, 5, 0, 0] = math.nan
        x[1, 5, 0, 1] = math.inf
        return x


def odd(dtype: torch.dtype = torch.float32) -> tuple[Session, Driver, Browser, torch.Tensor]:
    model = nn.Sequential(nn.Conv2d(1, 20, 1), Odd()).to(dtype)
    torch.manual_seed(0)
    x = torch.randn(4, 1, 6, 6, dtype=dtype)
    session = nansense_widgets.start(model)
    session.set_stats_scope("none")  # what is shown is the current batch
    session.watch("*")

    def loop() -> None:
        for _ in session.batches(range(10), phase="train"):
            model(x)

    driver = Driver(session, loop)
    driver.do("step_batch")
    return session, driver, Browser(session.dashboard()), driver.snapshot.activations["1"]


def test_dead_channels_beyond_the_rows_and_values_that_are_not_finite() -> None:
    session, _, browser, tensor = odd(torch.float16)
    shown, buffers = content(browser, "1")
    assert shown["chosen"] == "batch"
    rows, bars = shown["channels"], shown["figures"][0]["activations"]
    assert (rows["axis"], rows["channels"], rows["rows"]) == ("channels", 20, 16)
    assert rows["dead"] == [3, 18]
    assert rows["nonfinite"] == [0] * 5 + [2] + [0] * 10
    assert (bars["dtype"], bars["nonfinite"], bars["n"]) == ("float16", 2, tensor.numel() - 2)
    np.testing.assert_array_equal(counts(bars, buffers), expected(tensor))
    numbers = shown["rows"][0]["activations"]
    assert (numbers["nan"], numbers["posinf"], numbers["neginf"], numbers["dead"]) == (1, 1, 0, 2)
    session.close()


def test_samples_behind_a_bar() -> None:
    session, _, browser, tensor = odd()
    shown, buffers = content(browser, "1")
    full = counts(shown["figures"][0]["activations"], buffers)
    edges = histogram_edges().double()
    for sign in (-1, 1):
        low, high = 505, 511  # a few bins around 1
        inside = [1020 + sign * (1 + m) for m in range(low, high + 1)]
        ask = {"kind": "activations", "sign": sign, "low": low, "high": high}
        browser.send(type="fetch", view="v", req=1, card=want("1"), ask=ask)
        reply, _ = browser.received[-1]
        assert (reply["type"], reply["missing"], reply["of"]) == ("in_bin", "", 4)
        assert sum(n for _, n in reply["samples"]) == full[inside].sum() > 0
        size = tensor.double() * sign
        here = (size >= edges[1021 + low]) & (size < edges[1022 + high])
        assert dict(reply["samples"]) == {
            i: int(n) for i, n in enumerate(here.flatten(1).sum(1).tolist()) if n
        }
        assert reply["total"] == len(reply["samples"])
    browser.send(
        type="fetch",
        view="v",
        req=2,
        card=want("1"),
        ask={"kind": "activations", "sign": 0, "low": 0, "high": 0},
    )
    reply, _ = browser.received[-1]
    assert sum(n for _, n in reply["samples"]) == full[1020] == (tensor == 0).sum()
    browser.send(
        type="fetch",
        view="v",
        req=3,
        card=want("1"),
        ask={"kind": "gradients", "sign": 1, "low": 0, "high": 9},
    )
    assert browser.received[-1][0]["missing"] == "the current batch has no such values"
    session.close()


def test_histogram_stands_alone() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    widget = session.histogram("1")
    assert session.histogram("1") is widget
    assert widget.layers == ["1"]
    assert "1" in session.watched_layers
    with pytest.raises(ValueError, match=r"layer='Linear' must mean one layer; it matches 2: 1, 3"):
        session.histogram("Linear")
    with pytest.raises(ValueError, match="nowhere"):
        session.histogram("nowhere")
    driver.do("step_batch")
    widget.keep_picture()
    widget.refresh()
    assert widget.still["cards"]["cards"][0]["view"] == "histogram"
    assert len(widget.still["data"]) > 0
    driver.finish()
    session.close()
