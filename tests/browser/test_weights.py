"""The Weights view in JupyterLab: what is read off it is what Python has; its controls do what they say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_looks import CUT, NARROW, OVERFLOWING, UNNAMED, settled
from tests.browser.training import LAUNCH, LOOP, START, View, open_training, value_of

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab

LAYERS = """
import threading, time, torch
import torch.nn.functional as F
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 5, padding=2)
        self.conv = nn.Conv2d(16, 24, 3, padding=1)
        self.norm = nn.BatchNorm2d(24)
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)
        self.embedding = nn.Embedding(300, 24)
        self.lstm = nn.LSTM(24, 20, batch_first=True)
        self.fc = nn.Linear(20, 10)

    def forward(self, image):
        x = F.relu(self.norm(self.conv(F.relu(self.stem(image)))))
        t = x.flatten(2).mT + self.embedding(torch.arange(x[0, 0].numel()))
        t = self.attention(t, t, t, need_weights=False)[0]
        return self.fc(self.lstm(t)[0].mean(1))

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
train_data = [(torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2,))) for _ in range(6)]
val_data = train_data[:2]
gate = threading.Event()
gate.set()
seen = []
"""

LARGE = """
import threading, torch
import torch.nn.functional as F
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 4096), nn.Linear(4096, 4096, bias=False), nn.Linear(4096, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train_data = [(torch.randn(2, 8), torch.randint(0, 3, (2,))) for _ in range(3)]
val_data = train_data[:1]
gate = threading.Event()
gate.set()
seen = []
"""


def open_weights(lab: Lab, layer: str, **options: Any) -> tuple[View, Locator]:
    """A dashboard after a batch, and the card of a layer, which shows its weights."""
    options.setdefault("net", LAYERS)
    view = open_training(lab, watch=(layer,), **options)
    view.step.click()
    expect(view.position).to_contain_text("batch 2")
    card = view.card(layer)
    card.get_by_role("tab", name="Weights").click()
    expect(card.locator(".wpanel").first).to_be_visible()
    return view, card


def panel(card: Locator, name: str) -> Locator:
    return card.get_by_role("group", name=re.compile(rf"^(parameter|buffer) {re.escape(name)}$"))


def field(card: Locator, name: str, strip: str = "value") -> Locator:
    return panel(card, name).locator(f".wstrip[data-strip='{strip}'] .wfield")


def point(card: Locator, name: str, x: float, y: float, strip: str = "value") -> str:
    """Point at a place of a strip; what is said of it once the exact value is there."""
    field(card, name, strip).hover(position={"x": x, "y": y})
    readout = panel(card, name).locator(".wread")
    expect(readout).to_have_text(re.compile(r"^[^≈]* = "))
    return readout.inner_text().split("  ·  ")[0]


def evaluated(view: View, where: str) -> float:
    """The value at a place such as `conv.weight[3, 0, 2, 1]` in the snapshot."""
    name, index = re.fullmatch(r"([\w.]+)(\[.*\])", where).groups()  # type: ignore[union-attr]
    kind = "weight_gradients" if name.endswith(".grad") else "weights"
    found: float = view.tab.evaluate(
        f"session.snapshot.{kind}[{name.removesuffix('.grad')!r}]{index}.float().mean().item()"
    )
    return found


def test_the_value_under_the_mouse_is_that_of_the_tensor(lab: Lab) -> None:
    view, card = open_weights(lab, "conv")
    for strip, name in (("value", "conv.weight"), ("gradient", "conv.weight.grad")):
        for x, y in ((5, 5), (60, 30), (120, 90)):
            text = point(card, "conv.weight", x, y, strip)
            where, _, value = text.partition(" = ")
            assert where.startswith(f"{name}[")
            assert float(value) == pytest.approx(evaluated(view, where), rel=1e-3)
    view.page.evaluate("() => navigator.clipboard.writeText('').catch(() => null)")
    text = point(card, "conv.bias", 30, 20)
    assert value_of(text) == pytest.approx(evaluated(view, text.partition(" = ")[0]), rel=1e-3)


def test_axes_places_and_order_are_chosen(lab: Lab) -> None:
    view, card = open_weights(lab, "conv")
    one = panel(card, "conv.weight")
    assert point(card, "conv.weight", 2, 2).startswith("conv.weight[0, 0, 0, 0] = ")
    slider = one.get_by_role("slider", name="Index of in of conv.weight")
    slider.focus()
    for _ in range(3):
        view.page.keyboard.press("ArrowRight")
    expect(one.locator(".wrest .num")).to_have_text("3 of 0–15")
    assert point(card, "conv.weight", 2, 2).startswith("conv.weight[0, 3, 0, 0] = ")
    # The axis that had the use before gets the one that is free.
    one.get_by_role("combobox", name="Tile axis of conv.weight").select_option(label="in 16")
    expect(one.get_by_role("slider", name="Index of out of conv.weight")).to_be_visible()
    text = point(card, "conv.weight", 2, 2)
    assert text.startswith("conv.weight[0, 0, 0, 0] = ")
    one.get_by_role("combobox", name="Order of conv.weight").select_option("norm")
    expect(one.get_by_text("Tiles in the order of the weights' norm")).to_be_visible()
    largest = view.tab.evaluate(
        "session.snapshot.weights['conv.weight'].movedim(1, 0).flatten(1).norm(dim=1).argmax().item()"
    )
    text = point(card, "conv.weight", 2, 2)
    assert text.startswith(f"conv.weight[0, {largest}, 0, 0] = ")
    assert value_of(text) == pytest.approx(evaluated(view, text.partition(" = ")[0]), rel=1e-3)
    one.get_by_role("combobox", name="Order of conv.weight").select_option("similarity")
    expect(one.get_by_text("Tiles in the order of the weights' similarity")).to_be_visible()


def test_the_keyboard_moves_through_values(lab: Lab) -> None:
    view, card = open_weights(lab, "fc")
    field(card, "fc.weight").locator("canvas").focus()
    readout = panel(card, "fc.weight").locator(".wread")
    for key, where in (
        ("ArrowRight", "[0, 0]"),
        ("ArrowRight", "[0, 1]"),
        ("ArrowDown", "[1, 1]"),
        ("ArrowLeft", "[1, 0]"),
    ):
        view.page.keyboard.press(key)
        expect(readout).to_contain_text(f"fc.weight{where} = ")
    assert value_of(readout.inner_text().split("  ·  ")[0]) == pytest.approx(
        evaluated(view, "fc.weight[1, 0]"), rel=1e-3
    )
    field(card, "fc.weight").locator("canvas").press("+")
    strip = panel(card, "fc.weight").locator(".wstrip[data-strip=value]")
    expect(strip.locator(".wspace")).to_have_attribute("style", re.compile(r"width: (3[2-9]\d|[4-9]\d\d)px"))


def test_scales_are_shared_and_pinned(lab: Lab) -> None:
    view, card = open_weights(lab, "fc")

    def high(name: str, strip: str = "value") -> str:
        return panel(card, name).locator(f"[data-strip='{strip}'] .leg span").last.inner_text()

    assert high("fc.weight") != high("fc.bias")
    card.get_by_role("radio", name="shared").click()
    expect(panel(card, "fc.bias").locator("[data-strip=value] .leg span").last).to_have_text(
        high("fc.weight")
    )
    card.get_by_role("radio", name="own scale").click()
    expect(panel(card, "fc.bias").locator("[data-strip=value] .leg span").last).not_to_have_text(
        high("fc.weight")
    )
    before = high("fc.weight", "gradient")
    card.get_by_role("radio", name="pinned").click()
    view.step.click()
    expect(view.position).to_contain_text("batch 3")
    expect(panel(card, "fc.weight").locator(".wopt")).to_contain_text("step 3")
    assert high("fc.weight", "gradient") == before
    card.get_by_role("radio", name="own scale").click()
    expect(panel(card, "fc.weight").locator("[data-strip=gradient] .leg span").last).not_to_have_text(before)


def test_a_large_matrix_opens_at_once_and_scrolls(lab: Lab) -> None:
    view = open_training(lab, net=LARGE, watch=("1",))
    view.step.click()
    expect(view.position).to_contain_text("batch 2")
    card = view.card("1")
    card.get_by_role("tab", name="Weights").click()
    expect(field(card, "1.weight")).to_be_visible()
    expect(panel(card, "1.weight").locator("[data-strip=value] .foot")).to_contain_text("mean of 16×16")
    text = point(card, "1.weight", 100, 50)
    where, value = text.split(" mean = ")
    assert re.fullmatch(r"1\.weight\[(784:800|800:816), (1584:1600|1600:1616)\]", where)
    assert float(value) == pytest.approx(evaluated(view, where), rel=1e-2, abs=1e-6)
    for _ in range(5):
        panel(card, "1.weight").get_by_role("button", name="Zoom into 1.weight").click()
    expect(panel(card, "1.weight").locator("[data-strip=value] .foot")).to_be_hidden()
    box = field(card, "1.weight")
    box.evaluate("(e) => { e.scrollTop = e.scrollHeight; e.scrollLeft = e.scrollWidth; }")
    settled(view)
    corner = box.evaluate("(e) => [e.clientWidth, e.clientHeight]")
    text = point(card, "1.weight", corner[0] - 2, corner[1] - 2)
    where = text.partition(" = ")[0]
    assert re.fullmatch(r"1\.weight\[409[45], 409[45]\]", where)
    assert value_of(text) == pytest.approx(evaluated(view, where), rel=1e-3)
    # The gradient beside it has scrolled along, and is painted there.
    other = field(card, "1.weight", "gradient")
    assert other.evaluate("(e) => e.scrollTop") == box.evaluate("(e) => e.scrollTop")
    blank = box.evaluate(
        "(e) => { const c = e.querySelector('canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0;"
        " for (let i = 3; i < d.length; i += 4) n += d[i] < 255; return n; }"
    )
    assert blank == 0


def test_weights_of_a_running_training_go_on(lab: Lab) -> None:
    loop = LOOP.replace("seen.append(loss.item())", "seen.append(loss.item()); time.sleep(0.02)")
    view, card = open_weights(lab, "fc", loop=loop.replace("epochs=3", "epochs=1000"))
    view.tab.execute("session.set_update_frequency(unit='batch')")
    view.press("r")
    expect(view.pill).to_have_text("running")
    line = panel(card, "fc.weight").locator(".wopt")
    expect(line).to_contain_text(re.compile(r"step (?:[5-9]|\d\d+)"))
    first = line.inner_text()
    expect(line).not_to_have_text(first)
    view.stop.click()
    expect(view.pill).to_have_text("paused")
    text = point(card, "fc.weight", 5, 5)
    assert value_of(text) == pytest.approx(evaluated(view, text.partition(" = ")[0]), rel=1e-3)


def test_hyperparameters_are_fields(lab: Lab) -> None:
    view, card = open_weights(lab, "fc")
    view.tab.execute(
        "type(session).set_hyperparameter = lambda self, name, value, *, optimizer=0, group=None: "
        "self.told.append((name, value, optimizer, group)) if value < 1 else 1 / 0\n"
        "session.told = []\n"
        "import nansense_widgets.widgets.actions as actions\n"
        "actions.ACTIONS = actions.ACTIONS | {'set_hyperparameter'}"
    )
    knob = panel(card, "fc.weight").get_by_role("textbox", name="lr of Adam")
    expect(knob).to_have_value("0.001")
    knob.fill("0.5")
    knob.press("Escape")
    expect(knob).to_have_value("0.001")
    knob.fill("fast")
    knob.press("Enter")
    expect(knob).to_have_attribute("aria-invalid", "true")
    knob.fill("3e-4")
    knob.press("Enter")
    expect(view.code).to_have_text(
        re.compile(r"session\.set_hyperparameter\((name=)?'lr', (value=)?0\.0003, optimizer=0, group=0\)")
    )
    assert view.tab.evaluate("session.told") == [("lr", 0.0003, 0, 0)]
    knob.blur()
    expect(knob).to_have_value("0.0003")  # until a batch says what it is
    knob.fill("2")
    knob.press("Enter")
    expect(view.root.get_by_role("alert")).to_contain_text("ZeroDivisionError")
    knob.blur()
    expect(knob).to_have_value("0.0003")


def test_layers_without_weights_and_alone_in_a_cell(lab: Lab) -> None:
    cells = [LAYERS + LOOP, START + "\nsession.watch('relu1')", LAUNCH]
    path = lab.write_notebook(
        [
            *cells,
            "session.wait_until_paused(timeout=30)",
            "session.weights('stem')",
            "session.weights('relu1')",
        ]
    )
    tab = lab.open(path, viewport=(1200, 1400))
    tab.run_all()
    view = View(tab)
    view.root.scroll_into_view_if_needed()
    expect(panel(view.card("stem"), "stem.weight")).to_be_visible()
    expect(view.root.get_by_role("tab")).to_have_count(0)
    View(tab, 1).root.scroll_into_view_if_needed()
    expect(View(tab, 1).root.get_by_text("relu1 has no parameters or buffers.")).to_be_visible()
    tab.reload()
    again = View(tab)
    again.root.scroll_into_view_if_needed()
    expect(panel(again.card("stem"), "stem.weight")).to_be_visible()


@pytest.mark.parametrize("layer", ["stem", "conv", "attention", "embedding", "fc"])
def test_looks(lab: Lab, layer: str) -> None:
    path = lab.write_notebook(
        [
            LAYERS + LOOP,
            START + f"\nsession.watch({layer!r})",
            LAUNCH,
            "session.wait_until_paused(timeout=30); session.step_batch()",
            "session.wait_until_paused(after_pauses=1, timeout=30)",
            f"session.weights({layer!r})",
        ]
    )
    tab = lab.open(path, viewport=(1900, 2400))
    tab.run_all()
    view = View(tab)
    card = view.card(layer)
    try:
        for theme in ("light", "dark"):
            tab.set_theme(dark=theme == "dark")
            expect(view.root).to_have_attribute("data-theme", theme)
            for width in (1300, 250):
                view.root.evaluate(NARROW, width)
                settled(view)
                view.root.scroll_into_view_if_needed()
                expect(card.locator(".wfield canvas").first).to_be_visible()
                # The picture for this width has been asked for and is here.
                expect(card.locator(".wfield").first).to_have_js_property(
                    "scrollWidth", card.locator(".wfield").first.evaluate("(e) => e.clientWidth")
                )
                settled(view)
                assert view.root.evaluate(OVERFLOWING) == []
                assert view.root.evaluate(CUT) == []
                assert view.root.evaluate(UNNAMED) == []
                card.screenshot(path=tab.screenshot(f"weights-{layer}-{theme}-{width}"))
    finally:
        tab.set_theme(dark=False)
