"""Extreme patches in JupyterLab: what a card shows is what was collected, and a click leads to the sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_looks import CUT, NARROW, OVERFLOWING, UNNAMED, picture, settled
from tests.browser.training import LOOP, NET, START, View, open_training

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab

COLLECT = START + "\nsession.set_stats_scope('watched')"

PICTURES = """
import torch, torch.nn.functional as F
from torch import nn
import nansense_widgets, threading

torch.set_num_threads(1)
torch.manual_seed(0)

def scene(n):
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    x = torch.zeros(n, 3, 32, 32)
    for i in range(n):
        cy, cx, r = (torch.rand(3) * torch.tensor([20, 20, 7]) + torch.tensor([6, 6, 3])).tolist()
        inside = ((rows - cy) ** 2 + (columns - cx) ** 2 < r * r).float()
        bars = ((columns + i * rows / 8) % 9 < 4).float()
        x[i] = torch.stack([inside, 0.3 + 0.4 * bars * (1 - inside), rows / 32])
    return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.deep = nn.Conv2d(24, 12, 3, padding=1)
        self.act = nn.ReLU()
        self.fc = nn.Linear(12, 4)

    def forward(self, image):
        return self.fc(self.act(self.deep(self.pool(F.relu(self.stem(image))))).mean((2, 3)))

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
mean, std = torch.tensor([0.4, 0.4, 0.5]), torch.tensor([0.3, 0.3, 0.3])
scaled = lambda x: (x - mean.view(3, 1, 1)) / std.view(3, 1, 1)
train_data = [(scaled(scene(8)), torch.randint(0, 4, (8,))) for _ in range(5)]
val_data = train_data[:2]
gate = threading.Event()
gate.set()
seen = []
"""
"""Colours that were normalised; the largest responses see bars and discs."""

NORMALISED = COLLECT.replace(
    "optimizer=optimizer", "optimizer=optimizer, input_mean=mean.tolist(), input_std=0.3"
)

WORDS = """
import torch, torch.nn.functional as F
from torch import nn
import nansense_widgets, threading

torch.set_num_threads(1)
torch.manual_seed(0)
words = "the a cat dog sat ran on under mat log quick brown fox jumps over lazy red blue green tree".split()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.mix = nn.Linear(12, 10)
        self.head = nn.Linear(10, 3)

    def forward(self, ids):
        return self.head(torch.tanh(self.mix(self.embedding(ids))).mean(1))

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train_data = [(torch.randint(0, 20, (4, 24)), torch.randint(0, 3, (4,))) for _ in range(4)]
val_data = train_data[:1]
gate = threading.Event()
gate.set()
seen = []
"""

SPOKEN = COLLECT.replace(
    "optimizer=optimizer", "optimizer=optimizer, input_transform={'ids': lambda ids: [words[i] for i in ids]}"
)

SIGNALS = (
    NET.replace(
        "self.stem = nn.Conv2d(1, width, 3, padding=1)", "self.stem = nn.Conv1d(2, width, 9, padding=4)"
    )
    .replace("self.blocks = nn.Sequential(Block(width), Block(width))", "self.blocks = nn.Identity()")
    .replace("x.mean((2, 3))", "x.mean(2)")
    .replace("torch.randn(4, 1, 14, 14)", "torch.randn(4, 2, 60).cumsum(2)")
)


def open_extremes(lab: Lab, layer: str, *others: str, **options: Any) -> tuple[View, Locator]:
    """A dashboard with statistics, and the card of a layer, which shows its extremes."""
    options.setdefault("start", COLLECT)
    view = open_training(lab, watch=(layer, *others), **options)
    view.step.click()
    expect(view.position).to_contain_text("batch 2")
    card = view.card(layer)
    card.get_by_role("tab", name="Extremes").click()
    expect(card.locator(".xrow").first).to_be_visible()
    return view, card


def patch(card: Locator, channel: int, end: str, rank: int = 0) -> Locator:
    return card.locator(f".xrow[data-channel='{channel}'] .xp[data-end='{end}'][data-rank='{rank}']")


GALLERY = "session.watch_snapshot().stats[({layer!r}, 'train', 0)].gallery"


def told(view: View, layer: str, by: str, channel: int, end: str, rank: int = 0) -> tuple[float, Any]:
    """Value, batch, sample, position, label of a patch, as Python has it."""
    one = f"{GALLERY.format(layer=layer)}.{by}[{channel}].{end}[{rank}]"
    found = view.tab.evaluate(
        f"(lambda p: (p.value, p.sample.batch_idx, p.sample.index, p.position, p.sample.label))({one})"
    )
    return found[0], found[1:]


def test_patches_are_those_that_were_collected(lab: Lab) -> None:
    view, card = open_extremes(lab, "stem")
    for channel, end, rank in ((0, "largest", 0), (3, "smallest", 1), (7, "largest", 4)):
        value, (batch, sample, position, label) = told(view, "stem", "pixel", channel, end, rank)
        button = patch(card, channel, end, rank)
        assert float(button.locator(".xv").inner_text()) == pytest.approx(value, rel=1e-3)
        button.hover()
        info = card.locator(".xinfo")
        expect(info).to_contain_text(f"ch {channel} ({position[0]}, {position[1]}) = ")
        expect(info).to_contain_text(f"epoch 1, train, batch {batch + 1}, sample {sample} · target {label}")
    expect(card.locator(".xabout")).to_contain_text("patches of the input image; receptive field 3 × 3")
    # Whole samples by their mean.
    card.get_by_role("radio", name="average").click()
    value, (batch, sample, _, _) = told(view, "stem", "average", 2, "smallest")
    view.page.mouse.move(2, 2)  # off the patches, which scroll under it
    patch(card, 2, "smallest").focus()
    expect(card.locator(".xinfo")).to_contain_text("ch 2 mean = ")
    assert float(patch(card, 2, "smallest").locator(".xv").inner_text()) == pytest.approx(value, rel=1e-3)
    expect(card.locator(".xinfo")).to_contain_text(f"batch {batch + 1}, sample {sample}")


def test_a_patch_has_the_pixels_of_its_input(lab: Lab) -> None:
    view, card = open_extremes(lab, "blocks.0.conv1")
    button = patch(card, 1, "largest")
    _, (batch, sample, (row, column), _) = told(view, "blocks.0.conv1", "pixel", 1, "largest")
    drawn = button.locator("canvas").evaluate(
        "(c) => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        " return [c.width, c.height, [...d.data]]; }"
    )
    width, height, data = drawn
    assert width == height
    assert width % 5 == 0  # five rows and columns, at whole pixels
    scale = width // 5
    values = view.tab.evaluate(
        f"F.pad(train_data[{batch}][0][{sample}, 0], (2,) * 4)[{row}:{row}+5, {column}:{column}+5].tolist()"
    )
    inside = [
        (r, c) for r in range(5) for c in range(5) if 0 <= row + r - 2 < 14 and 0 <= column + c - 2 < 14
    ]
    greys = {}
    for r, c in inside:
        at = 4 * ((r * scale + scale // 2) * width + c * scale + scale // 2)
        assert data[at] == data[at + 1] == data[at + 2]
        assert data[at + 3] == 255
        greys[(r, c)] = data[at]
    ranked = sorted(inside, key=lambda place: values[place[0]][place[1]])
    assert [greys[place] for place in ranked] == sorted(greys.values())
    assert len(set(greys.values())) > 5


def test_a_click_leads_to_the_sample_if_its_batch_is_shown(lab: Lab) -> None:
    view, card = open_extremes(lab, "stem", "act")
    found: dict[int, tuple[int, str, int, int]] = {}
    for channel in range(8):
        for end in ("largest", "smallest"):
            for rank in range(5):
                _, (batch, sample, _, _) = told(view, "stem", "pixel", channel, end, rank)
                if batch not in found or (sample and not found[batch][3]):
                    found[batch] = (channel, end, rank, sample)
    channel, end, rank, sample = found[1]
    patch(card, channel, end, rank).click()
    expect(card.locator(".xinfo")).to_contain_text(f"sample {sample} is now shown in the strips")
    expect(view.root.get_by_role("spinbutton", name="Sample in the batch")).to_have_value(str(sample))
    channel, end, rank, sample = found[0]
    patch(card, channel, end, rank).click()
    expect(card.locator(".xinfo")).to_contain_text(
        f"epoch 1, train, batch 1, sample {sample}: that batch is not the one shown now"
    )


def test_keys_pages_and_phases(lab: Lab) -> None:
    view, card = open_extremes(lab, "stem", net=PICTURES, start=NORMALISED)
    expect(card.locator(".extremes .rng")).to_have_text("channels 0–7 of 24, kept: first 16")
    card.get_by_role("button", name="Next channels of stem").click()
    expect(card.locator(".xrow").first).to_have_attribute("data-channel", "8")
    expect(card.get_by_role("button", name="Next channels of stem")).to_be_disabled()
    patch(card, 8, "largest").focus()
    for key, where in (
        ("ArrowRight", (8, "largest", 1)),
        ("ArrowDown", (9, "largest", 1)),
        ("End", (9, "smallest", 4)),
    ):
        view.page.keyboard.press(key)
        expect(patch(card, *where)).to_be_focused()
    view.press("p")
    expect(view.position).to_contain_text("val")
    view.step.click()
    phases = card.get_by_role("combobox", name="Phase and epoch of the patches of stem")
    expect(phases.get_by_role("option")).to_have_count(2)
    phases.select_option(label="epoch 1, val (1 batch)")
    patch(card, 8, "largest").hover()
    expect(card.locator(".xinfo")).to_contain_text("epoch 1, val, batch 1")


def test_what_there_is_not_is_said(lab: Lab) -> None:
    view = open_training(lab, watch=("stem",), start=START + "\nsession.set_stats_scope('none')")
    card = view.card("stem")
    card.get_by_role("tab", name="Extremes").click()
    expect(
        card.get_by_text("Extreme patches are collected with the statistics of whole epochs.")
    ).to_be_visible()
    card.get_by_role("button", name="Collect statistics").click()
    expect(view.code).to_have_text("session.set_stats_scope('watched')")
    view.step.click()
    expect(card.locator(".xrow").first).to_be_visible()


def test_alone_in_a_cell(lab: Lab) -> None:
    path = lab.write_notebook([NET + LOOP, COLLECT, "_ = session.launch(train)", "session.extremes('stem')"])
    tab = lab.open(path, viewport=(1200, 900))
    tab.run_all()
    view = View(tab)
    tab.execute("session.step_batch(); session.wait_until_paused(after_pauses=1, timeout=20)")
    view.root.scroll_into_view_if_needed()
    expect(patch(view.card("stem"), 0, "largest")).to_be_visible()
    expect(view.root.get_by_role("tab")).to_have_count(0)
    tab.reload()
    again = View(tab)
    again.root.scroll_into_view_if_needed()
    expect(patch(again.card("stem"), 0, "largest")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "net", "start", "layer"),
    [
        ("colour", PICTURES, NORMALISED, "deep"),
        ("grey", NET, COLLECT, "blocks.1.conv1"),
        ("tokens", WORDS, SPOKEN, "mix"),
        ("signal", SIGNALS, COLLECT, "stem"),
    ],
    ids=["colour", "grey", "tokens", "signal"],
)
def test_looks(lab: Lab, name: str, net: str, start: str, layer: str) -> None:
    view, card = open_extremes(lab, layer, net=net, start=start, viewport=(2000, 1700))
    try:
        for theme in ("light", "dark"):
            view.tab.set_theme(dark=theme == "dark")
            expect(view.root).to_have_attribute("data-theme", theme)
            for width in (1400, 250):
                view.root.evaluate(NARROW, width)
                settled(view)
                card.scroll_into_view_if_needed()
                expect(card.locator(".xp").nth(1)).to_be_visible()
                assert view.root.evaluate(OVERFLOWING) == []
                assert view.root.evaluate(CUT) == []
                assert view.root.evaluate(UNNAMED) == []
                card.locator(".xp").nth(1).focus()
                card.screenshot(path=view.tab.screenshot(f"extremes-{name}-{theme}-{width}"))
            view.root.evaluate(NARROW, 1400)
            card.get_by_role("checkbox", name="Show responses").set_checked(True)
            expect(card.locator(".extremes .leg")).to_be_visible()
            settled(view)
            card.screenshot(path=view.tab.screenshot(f"extremes-{name}-{theme}-heat"))
            card.get_by_role("checkbox", name="Show responses").set_checked(False)
    finally:
        view.tab.set_theme(dark=False)
    picture(view, f"extremes-{name}")
