"""The view model of the Extremes view: what the browser is told, and the bytes of its pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from tests.driver import TIMEOUT_S
from tests.widgets.test_messages import Browser


def trained(
    model: nn.Module, batches: list[Any], *layers: str, pause: bool = False, **arguments: Any
) -> tuple[Session, Browser]:
    """One epoch over the batches with statistics of the layers, and its dashboard."""
    session = nansense_widgets.start(model, **arguments)
    session.watch(*layers)
    session.set_stats_scope("watched")

    def loop() -> None:
        with torch.no_grad():
            for item in session.batches(batches, phase="train"):
                model(item[0] if isinstance(item, tuple) else item)

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    if not pause:
        session.detach()
        assert session.wait(TIMEOUT_S)
    return session, Browser(session.dashboard())


def content(browser: Browser, layer: str, **given: Any) -> tuple[Any, list[bytes]]:
    options = {"source": "", "by": "pixel", "heat": False, "first": 0, "count": 8, "px": 64} | given
    card = {"layer": layer, "call": 1, "leaf": 0, "view": "extremes", "options": options}
    browser.send(type="want", view=f"v{len(browser.received)}", cards=[card])
    message, buffers = browser.cards()[-1]
    [found] = message["cards"]
    assert (found["view"], found["failed"]) == ("extremes", "")
    return found["content"], buffers


def pixels(cell: Any, buffers: list[bytes]) -> np.ndarray:
    picture = cell["picture"]
    shape = (picture["rows"], picture["columns"], 3 if picture["colour"] else 1)
    return np.frombuffer(buffers[picture["buffer"]], np.uint8).reshape(shape)


def pictures(n: int, channels: int = 1, side: int = 10) -> torch.Tensor:
    torch.manual_seed(n)
    return torch.rand(n, channels, side, side)


def conv(channels: int = 1, out: int = 2, *, kernel: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(channels, out, kernel, padding=kernel // 2))


def test_a_cell_says_all_that_is_known_of_a_patch() -> None:
    data = [(pictures(3), torch.tensor([7, 8, 9])) for _ in range(2)]
    session, browser = trained(conv(), data, "0")
    shown, buffers = content(browser, "0", source="train:0")
    assert (shown["chosen"], shown["input"], shown["kind"], shown["axis"]) == (
        "train:0", "input", "picture", "channels",
    )  # fmt: skip
    assert (shown["channels"], shown["rows"], shown["samples"], shown["averages"]) == (2, 2, 5, True)
    assert shown["sources"] == [{"key": "train:0", "phase": "train", "epoch": 0, "batches": 2}]
    gallery = session.watch_snapshot().stats[("0", "train", 0)].gallery
    assert gallery is not None
    for row, ends in zip(shown["patches"], gallery.pixel, strict=True):
        for cells, patches in ((row["largest"], ends.largest), (row["smallest"], ends.smallest)):
            for cell, patch in zip(cells, patches, strict=True):
                assert cell["value"] == patch.value
                assert cell["position"] == list(patch.position)
                assert (cell["phase"], cell["epoch"], cell["batch_idx"]) == (
                    "train",
                    0,
                    patch.sample.batch_idx,
                )
                assert (cell["sample"], cell["label"]) == (patch.sample.index, 7 + patch.sample.index)
                assert (cell["label_name"], cell["dataset_index"]) == ("target", None)
                assert (cell["size"], cell["shape"]) == ([3, 3], [1, 10, 10])
                (top, bottom), (left, right) = patch.box
                values = data[patch.sample.batch_idx][0][patch.sample.index, 0, top:bottom, left:right]
                drawn = pixels(cell, buffers)[:, :, 0]
                assert np.abs(drawn - values.numpy() * 255).max() <= 0.5  # black is 0, white is 1
                frame = cell["picture"]["frame"]
                assert cell["picture"]["size"] == (3, 3)
                assert cell["picture"]["offset"] == (top - frame[0][0], left - frame[1][0])
    assert shown["about"] == ""
    session.close()


def test_only_what_is_on_the_page_is_sent() -> None:
    session, browser = trained(conv(out=40), [pictures(6)], "0")
    session.set_watch_performance(channel_limit=16)
    shown, buffers = content(browser, "0", first=8, count=4)
    assert [row["channel"] for row in shown["patches"]] == [8, 9, 10, 11]
    assert (shown["channels"], shown["rows"], shown["first"]) == (40, 16, 8)
    assert len(buffers) == 4 * 10
    shown, _ = content(browser, "0", first=99)
    assert [row["channel"] for row in shown["patches"]] == [15]
    session.close()


def test_averages_show_whole_samples_pooled_to_what_is_drawn() -> None:
    session, browser = trained(conv(), [pictures(6, side=80)], "0")
    shown, buffers = content(browser, "0", by="average", px=40)
    cell = shown["patches"][0]["largest"][0]
    assert (shown["by"], cell["position"], cell["picture"]["pool"]) == ("average", [], 2)
    whole = pictures(6, side=80)[cell["sample"], 0].numpy()
    expected = whole.reshape(40, 2, 40, 2).mean((1, 3)) * 255
    assert np.abs(pixels(cell, buffers)[:, :, 0] - expected).max() <= 0.6
    session.close()


def test_means_and_deviations_are_undone() -> None:
    raw = pictures(4, 3)
    mean, std = [0.2, 0.4, 0.6], [0.5, 0.25, 0.125]
    batch = (raw - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    session, browser = trained(conv(3), [batch], "0", input_mean=mean, input_std={"input": std})
    shown, buffers = content(browser, "0")
    assert shown["about"] == "with input_mean and input_std undone"
    cell = shown["patches"][1]["smallest"][0]
    (top, bottom), (left, right) = cell["box"]
    expected = raw[cell["sample"], :, top:bottom, left:right].permute(1, 2, 0).numpy() * 255
    assert np.abs(pixels(cell, buffers) - expected).max() <= 0.6
    session.close()


def test_other_channels_ranges_and_transforms() -> None:
    session, browser = trained(conv(5), [pictures(3, 5) * 4 - 1], "0")
    shown, _ = content(browser, "0")
    assert shown["about"].startswith("first three of 5 channels; black is -")
    assert shown["patches"][0]["largest"][0]["picture"]["colour"]
    session.close()

    def two(x: torch.Tensor) -> torch.Tensor:
        return (x[1:2] * 0 + 1).clamp(0, 1)

    session, browser = trained(conv(2), [pictures(3, 2)], "0", input_transform=two)
    shown, buffers = content(browser, "0")
    cell = shown["patches"][0]["largest"][0]
    assert pixels(cell, buffers).min() == 255
    session.close()

    def bad(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no")

    session, browser = trained(conv(2), [pictures(3, 2)], "0", input_transform=bad)
    shown, _ = content(browser, "0")
    assert shown["about"] == "input_transform failed: RuntimeError: no; first one of 2 channels"
    session.close()


def test_bytes_are_drawn_as_they_are() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv(3)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.conv(image.float() / 255)
            return found

    batch = (pictures(3, 3) * 255).to(torch.uint8)
    session, browser = trained(Scaled(), [batch], "conv.0")
    shown, buffers = content(browser, "conv.0", by="average")
    cell = shown["patches"][0]["largest"][0]
    assert np.array_equal(pixels(cell, buffers), batch[cell["sample"]].permute(1, 2, 0).numpy())
    session.close()


def test_responses_are_laid_over_on_the_channels_scale() -> None:
    model = conv()
    batch = pictures(4)
    session, browser = trained(model, [batch], "0")
    shown, buffers = content(browser, "0", heat=True)
    outputs = model(batch).detach()
    for row in shown["patches"]:
        cells = [*row["largest"], *row["smallest"]]
        seen = outputs[[cell["sample"] for cell in cells], row["channel"]]
        assert row["scale"] == pytest.approx(float(seen.abs().max()), rel=1e-3)
        assert not row["unsigned"]
        for cell in cells:
            heat = cell["heat"]
            codes = np.frombuffer(buffers[heat["buffer"]], np.uint8).reshape(heat["rows"], heat["columns"])
            values = (codes.astype(float) - 129) / 126 * row["scale"]
            assert np.abs(values - outputs[cell["sample"], row["channel"]].numpy()).max() < row["scale"] / 100
    session.close()


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.fc = nn.Embedding(30, 4), nn.Linear(4, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.fc(self.embedding(ids))
        return found


def test_tokens_come_in_their_context() -> None:
    ids = torch.arange(30).repeat(3, 1)
    transform = {"ids": lambda part: [f"w{int(i)}" for i in part]}
    session, browser = trained(Text(), [ids], "fc", input_transform=transform)
    shown, _ = content(browser, "fc")
    assert (shown["kind"], shown["axis"]) == ("tokens", "features")
    for row in shown["patches"]:
        for cell in (*row["largest"], *row["smallest"]):
            (at,) = cell["position"]
            tokens = cell["tokens"]
            start = max(0, at - 8)
            assert (tokens["start"], tokens["at"], tokens["total"]) == (start, at - start, 30)
            assert tokens["ids"] == list(range(start, min(30, at + 9)))
            assert tokens["texts"] == [f"w{i}" for i in tokens["ids"]]
    shown, _ = content(browser, "fc", by="average")
    tokens = shown["patches"][0]["largest"][0]["tokens"]
    assert (tokens["at"], tokens["ids"]) == (-1, list(range(17)))
    session.close()


def test_signals_and_features_are_lines() -> None:
    torch.manual_seed(0)
    batch = torch.randn(3, 2, 50)
    session, browser = trained(nn.Sequential(nn.Conv1d(2, 2, 5)), [batch], "0")
    shown, buffers = content(browser, "0")
    cell = shown["patches"][0]["largest"][0]
    signal = cell["signal"]
    values = np.frombuffer(buffers[signal["buffer"]], np.float32).reshape(
        signal["channels"], signal["length"]
    )
    ((start, stop),) = cell["box"]
    assert np.allclose(values, batch[cell["sample"], :, start:stop].numpy(), atol=1e-6)
    session.close()
    rows = torch.randn(4, 6)
    session, browser = trained(nn.Sequential(nn.Linear(6, 2)), [rows], "0")
    shown, buffers = content(browser, "0")
    assert (shown["kind"], shown["averages"]) == ("features", False)
    cell = shown["patches"][1]["smallest"][0]
    assert np.allclose(
        np.frombuffer(buffers[cell["signal"]["buffer"]], np.float32), rows[cell["sample"]].numpy()
    )
    session.close()


def test_a_sample_of_the_batch_on_screen_says_so() -> None:
    session, browser = trained(conv(), [pictures(2), pictures(2)], "0", pause=True)
    shown, _ = content(browser, "0")
    assert {cell["current"] for row in shown["patches"] for cell in row["largest"]} == {True}
    before = session.pause_count
    session.step_batch()
    assert session.wait_until_paused(after_pauses=before, timeout=TIMEOUT_S)
    shown, _ = content(browser, "0")
    for row in shown["patches"]:
        for cell in row["largest"]:
            assert cell["current"] == (cell["batch_idx"] == 1)
    session.detach()
    assert session.wait(TIMEOUT_S)
    session.close()


def test_what_there_is_not_is_said_with_the_action_that_helps() -> None:
    model = conv()
    session = nansense_widgets.start(model)
    session.set_stats_scope("none")
    browser = Browser(session.dashboard())
    shown, _ = content(browser, "0")
    assert (shown["chosen"], shown["offer"]) == ("", "collect")
    session.set_stats_scope("watched")
    shown, _ = content(browser, "0")
    assert (shown["hint"], shown["offer"]) == (
        "This layer is not watched, so none of its patches are collected.", "watch",
    )  # fmt: skip
    session.watch("0")
    shown, _ = content(browser, "0")
    assert (shown["hint"], shown["offer"]) == (
        "No patches of this layer have been collected yet: step or run.",
        "",
    )
    session.close()


def test_a_layer_without_a_gallery_says_why() -> None:
    class Two(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.relu(a + b)

    model = Two()
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("relu")

    def loop() -> None:
        for x in session.batches([pictures(2)], phase="train"):
            model(x, x + 1)

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    shown, _ = content(Browser(session.dashboard()), "relu")
    assert shown["chosen"] == "train:0"
    assert shown["patches"] == []
    assert shown["note"].startswith("no patches: the layer depends on the inputs a, b; name one in")
    session.detach()
    assert session.wait(TIMEOUT_S)
    session.close()


def test_extremes_alone_is_one_widget_a_layer() -> None:
    model = conv()
    session = nansense_widgets.start(model)
    widget = session.extremes("0")
    assert widget is session.extremes("0")
    assert list(widget.layers) == ["0"]
    assert session.watched_layers == ("0",)
    with pytest.raises(TypeError, match="layer=3 must be the name of a layer"):
        session.extremes(3)  # type: ignore[arg-type]
    session.close()
