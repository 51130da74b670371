"""Layer cards in JupyterLab: what they draw is what the tensors hold, to the digit."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.training import View, open_training, value_of

KINDS = {"activations": "activations", "gradients": "activation_gradients"}

SCALE = 4
"""Pixels a value: a 14 x 14 picture is drawn 56 pixels wide."""


def held(view: View, layer: str, index: str, kind: str = "activations") -> float:
    """A value in Python's snapshot."""
    return float(view.tab.evaluate(f"session.snapshot.{KINDS[kind]}[{layer!r}][{index}].item()"))


def reads(view: View, value: float, layer: str, kind: str = "activations") -> None:
    """Wait until the read-out is `value`: after another sample was chosen, the old one may stand a moment."""
    view.page.wait_for_function(
        "([element, value]) => Math.abs(Number(element.textContent.split('= ')[1]) - value)"
        " <= 1e-3 * Math.abs(value)",
        arg=[view.tensor(layer, kind).locator(".ro").element_handle(), value],
    )


def test_readouts_are_the_values_in_python(lab: Lab) -> None:
    view = open_training(lab, watch=("act", "fc"))
    for kind in KINDS:
        expect(view.tiles("act", kind)).to_have_count(8)
        for channel, row, col in ((2, 3, 4), (7, 13, 0)):
            text = view.point("act", channel, row, col, scale=SCALE, kind=kind)
            assert text.startswith(f"ch {channel} ({row}, {col}) = ")
            expected = held(view, "act", f"0, {channel}, {row}, {col}", kind)
            assert value_of(text) == pytest.approx(expected, rel=1e-3)
            # The other tensor of the card reads the same place.
            other = next(name for name in KINDS if name != kind)
            expected = held(view, "act", f"0, {channel}, {row}, {col}", other)
            assert value_of(view.readout("act", other)) == pytest.approx(expected, rel=1e-3)
    # A dead channel is marked in words too; the scale is printed once.
    expect(view.tile("act", 3)).to_have_accessible_name("activations channel 3, dead")
    expect(view.tile("act", 3)).to_have_text("3 dead")
    expect(view.tile("act", 2)).to_have_text("2")
    assert "(4, 8, 14, 14)" in view.card("act").inner_text()
    # Another sample of the batch.
    view.root.get_by_role("button", name="Next sample").click()
    view.root.get_by_role("button", name="Next sample").click()
    expect(view.root.get_by_label("Sample in the batch")).to_have_value("2")
    expect(view.root.locator(".sample")).to_contain_text("of 4")
    for kind in KINDS:
        expected = held(view, "act", "2, 5, 6, 7", kind)
        view.point("act", 5, 6, 7, scale=SCALE, kind=kind)
        reads(view, expected, "act", kind)
    # A feature vector is a bar chart with the same read-out.
    view.root.get_by_label("Sample in the batch").fill("0")
    view.root.get_by_label("Sample in the batch").press("Enter")
    view.tensor("fc").locator(".bars canvas").hover(position={"x": 24 + 12, "y": 40})
    expect(view.tensor("fc").locator(".ro")).to_contain_text("ch 1 = ")
    expected = held(view, "fc", "0, 1")
    reads(view, expected, "fc")


def test_magnifier_average_and_transforms(lab: Lab) -> None:
    view = open_training(lab, watch=("stem",))
    view.tile("stem", 1).click()
    expect(view.tile("stem", 1)).to_have_attribute("aria-pressed", "true")
    expect(view.tile("stem", 1)).to_be_focused()  # although the strip was laid out anew beside the picture
    zoom = view.tensor("stem").locator(".zoom")
    expect(zoom.locator(".chip")).to_have_text("ch 1")
    zoom.locator("canvas").hover(position={"x": (4 + 0.5) * 12, "y": (9 + 0.5) * 12})
    expect(view.tensor("stem").locator(".ro")).to_contain_text("ch 1 (9, 4) = ")
    assert value_of(view.readout("stem")) == pytest.approx(held(view, "stem", "0, 1, 9, 4"), rel=1e-3)
    zoom.locator("canvas").focus()
    view.page.keyboard.press("ArrowRight")
    expect(view.tensor("stem").locator(".ro")).to_contain_text("ch 1 (9, 5) = ")
    view.page.keyboard.press("Escape")
    expect(zoom).to_be_hidden()
    # Average is one tile, the mean over the channels.
    view.button("Average").click()
    expect(view.tiles("stem")).to_have_count(1)
    text = view.point("stem", 0, 5, 6, scale=SCALE, kind="activations")
    assert text.startswith("mean (5, 6) = ")
    mean = view.tab.evaluate("session.snapshot.activations['stem'][0, :, 5, 6].mean().item()")
    assert value_of(text) == pytest.approx(mean, rel=1e-3)
    view.button("Average").click()
    expect(view.tiles("stem")).to_have_count(8)
    # Magnitudes and squares have a scale from 0.
    legend = view.tensor("stem").locator(".leg")
    plain = held(view, "stem", "0, 2, 5, 6")
    for name, expected in (("Abs", abs(plain)), ("Square", plain**2), ("Unchanged", plain)):
        view.root.get_by_role("radiogroup", name="Values", exact=True).get_by_role("radio", name=name).click()
        view.pill.hover()
        expect(legend).to_contain_text("0" if name != "Unchanged" else "-")
        view.point("stem", 2, 5, 6, scale=SCALE, kind="activations")
        reads(view, expected, "stem")
    # What the keyboard pointed at is not pointed at any more when the focus has left the card.
    view.pill.hover()
    view.tile("stem", 2).focus()
    view.page.keyboard.press("ArrowRight")
    expect(view.tensor("stem").locator(".ro")).to_contain_text("ch 3 (")
    view.step.focus()
    expect(view.tensor("stem").locator(".ro")).not_to_contain_text("ch 3 (")


def test_layer_watched_after_its_batch_says_so(lab: Lab) -> None:
    view = open_training(lab)
    view.node("stem").click()
    expect(view.card("stem").locator(".missing:visible")).to_have_text(
        "not captured: watched after this batch ran; step to capture it"
    )
    expect(view.tiles("stem")).to_have_count(0)
    view.press("n")
    expect(view.tiles("stem")).to_have_count(8)
    expect(view.tiles("stem", "gradients")).to_have_count(8)
    # In the validation phase there are no gradients, and that is said instead of old ones shown.
    view.press("p")
    view.stands("epoch 1/3·val·before batch 1/2")
    expect(view.tiles("stem", "gradients")).to_have_count(8)  # of the last batch of train
    view.press("n")
    view.stands("epoch 1/3·val·batch 1/2")
    expect(view.tensor("stem", "gradients").locator(".missing")).to_be_visible()
    expect(view.tiles("stem", "gradients").locator("visible=true")).to_have_count(0)


SHAPES = """
import time, torch
import torch.nn.functional as F
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)

class Broken(nn.Module):
    def forward(self, x):
        x = x.clone()
        x[:, 0, 0, 0] = float("nan")
        x[:, 1, 0, 0] = float("inf")
        x[:, 1, 0, 1] = -float("inf")
        return x

class Shapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Conv1d(2, 6, 3, padding=1)
        self.volume = nn.Conv3d(1, 3, 3, padding=1)
        self.features = nn.Linear(20, 200)
        self.tokens = nn.Embedding(11, 16)
        self.attend = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.wide = nn.Conv2d(1, 4096, 1)
        self.broken = Broken()
        self.total = nn.Identity()

    def forward(self, signal, volume, words):
        a = self.line(signal).mean((1, 2))
        b = self.volume(volume).mean((1, 2, 3, 4))
        c = self.features(signal.flatten(1)).mean(1)
        d = self.attend(self.tokens(words)).mean((1, 2))
        e = self.wide(volume[:, :, 0]).mean((1, 2, 3))
        self.broken(volume.detach().expand(-1, 2, -1, -1, -1)[:, :, 1])
        return self.total((a + b + c + d + e).sum())

model = Shapes()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""

SHAPES_LOOP = """
def train():
    for _ in session.batches(range(10_000), phase="train"):
        optimizer.zero_grad()
        words = torch.randint(0, 11, (4, 7))
        model(torch.randn(4, 2, 10), torch.randn(4, 1, 5, 8, 8), words).backward()
        optimizer.step()
"""


def test_every_layout(lab: Lab) -> None:
    layers = ("line", "volume", "features", "attend", "total", "broken")
    view = open_training(lab, net=SHAPES, loop=SHAPES_LOOP, watch=layers, viewport=(1600, 2600))
    view.root.locator(".body").evaluate("(body) => body.style.setProperty('--body-h', '2300px')")
    # (C, L): a line per channel.
    expect(view.tiles("line")).to_have_count(6)
    view.tile("line", 2).locator(".face").hover(position={"x": 132 * 0.45, "y": 20})
    expect(view.tensor("line").locator(".ro")).to_contain_text("ch 2 (4) = ")
    assert value_of(view.readout("line")) == pytest.approx(held(view, "line", "0, 2, 4"), rel=1e-3)
    # (C, D, H, W): one slice at a time.
    expect(view.tiles("volume")).to_have_count(3)
    text = view.point("volume", 1, 2, 3, scale=7, kind="activations")
    assert value_of(text) == pytest.approx(held(view, "volume", "0, 1, 0, 2, 3"), rel=1e-3)
    slider = view.root.get_by_role("slider", name="Slice of volume")
    slider.fill("4")
    expect(view.card("volume").locator(".slice")).to_contain_text("4 of 0\u20134")
    expected = held(view, "volume", "0, 1, 4, 2, 3")
    view.point("volume", 1, 2, 3, scale=7, kind="activations")
    reads(view, expected, "volume")
    # (F): more than fit as bars are cells.
    view.tensor("features").locator(".bars canvas").hover(position={"x": 35, "y": 5})
    expect(view.tensor("features").locator(".ro")).to_contain_text("ch 3 = ")
    assert value_of(view.readout("features")) == pytest.approx(held(view, "features", "0, 3"), rel=1e-3)
    # (T, C): tokens by features, drawn whole.
    expect(view.tiles("attend")).to_have_count(1)
    text = view.point("attend", 0, 5, 2, scale=8, kind="activations")
    assert text.startswith("(5, 2) = ")
    assert value_of(text) == pytest.approx(held(view, "attend", "0, 5, 2"), rel=1e-3)
    # A single number is a number.
    number = view.tensor("total").locator(".scalar")
    view.card("total").scroll_into_view_if_needed()  # what is out of sight is not drawn
    expect(number).not_to_be_empty()
    assert float(number.inner_text()) == pytest.approx(held(view, "total", "..."), rel=1e-3)
    assert float(view.tensor("total", "gradients").locator(".scalar").inner_text()) == 1.0
    # What is no number is counted and marked, not drawn as one.
    view.card("broken").scroll_into_view_if_needed()  # cards off screen are not drawn
    expect(view.tensor("broken").locator(".bad")).to_have_text("1 NaN, 1 +Inf, 1 -Inf")
    text = view.point("broken", 0, 0, 0, scale=7, kind="activations")
    assert text == "ch 0 (0, 0) = nan"
    view.tile("broken", 1).locator(".face").hover(position={"x": 10, "y": 3})
    expect(view.tensor("broken").locator(".ro")).to_have_text("ch 1 (0, 1) = -inf")
    expect(view.tensor("broken", "gradients").locator(".missing")).to_be_visible()
    view.root.screenshot(path=view.tab.screenshot("layouts").with_name("layouts-dashboard.png"))


def test_thousands_of_channels_scroll(lab: Lab) -> None:
    view = open_training(lab, net=SHAPES, loop=SHAPES_LOOP, watch=("wide",))
    expect(view.tile("wide", 0)).to_be_visible()
    drawn = view.tensor("wide").locator(".tile")
    assert drawn.count() < 100
    expect(view.card("wide").locator(".rng")).to_contain_text("of 4096")
    # One after the other, past what has been fetched, to the last.
    box = view.tensor("wide").locator(".tiles:visible")
    box.evaluate(
        """async (box) => {
            for (let i = 0; i < 60; i++) {
                box.scrollTop += 90;
                await new Promise(requestAnimationFrame);
            }
        }"""
    )
    assert drawn.count() < 100
    box.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    last = view.tensor("wide").locator(".tile[data-channel='4095']:not(.blank)")
    expect(last).to_be_visible()
    expect(view.tensor("wide", "gradients").locator(".tile[data-channel='4095']:not(.blank)")).to_be_visible()
    assert drawn.count() < 100
    text = view.point("wide", 4095, 3, 6, scale=7, kind="activations")
    assert value_of(text) == pytest.approx(held(view, "wide", "0, 4095, 3, 6"), rel=1e-3)
    assert (
        view.tab.evaluate(
            "max(c['options'].get('count', 0) for v in session.dashboard()._views.values() for c in v.cards)"
        )
        < 100
    )
    view.card("wide").get_by_role("button", name="Previous channels").click()
    expect(last).not_to_be_visible()
