"""Notebooks that train under the debugger, and the dashboard in them as a person sees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab, Tab

NET = """
import threading, time, torch
import torch.nn.functional as F
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.conv1(x))))

class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.act = nn.ReLU()
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.unused = nn.Linear(width, 3)
        self.fc = nn.Linear(width, 3)

    def forward(self, image):
        x = self.blocks(self.act(self.stem(image)))
        return self.fc(x.mean((2, 3)))

model = Net()
with torch.no_grad():
    model.stem.weight[3], model.stem.bias[3] = 0, -1  # channel 3 of `act` is dead
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train_data = [(torch.randn(4, 1, 14, 14), torch.randint(0, 3, (4,))) for _ in range(6)]
val_data = train_data[:2]
gate = threading.Event()  # cleared, a batch lasts until it is set
gate.set()
seen = []
"""
"""A small residual network on 14 x 14 pictures; a layer that never runs and a dead channel are in it."""

LOOP = """
def train(epochs=3):
    for epoch in session.epochs(epochs):
        for x, y in session.batches(train_data, phase="train"):
            gate.wait(60)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        with torch.no_grad():
            for x, y in session.batches(val_data, phase="val"):
                gate.wait(60)
                model(x)
    return "trained"
"""

ENDLESS = """
def train():
    for epoch in session.epochs(1_000_000):
        for x, y in session.batches(train_data, phase="train"):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            time.sleep(0.005)
            seen.append(epoch)
"""
"""A run that no test sees the end of."""

START = "session = nansense_widgets.start(model, optimizer=optimizer)"

LAUNCH = "_ = session.launch(train)"

DASHBOARD = "session.dashboard()"


class View:
    """One widget on a page: number `nth` of those in the notebook."""

    def __init__(self, tab: Tab, nth: int = 0) -> None:
        self.tab = tab
        self.page = tab.page
        self.root = tab.page.get_by_role("region", name="nansense training debugger").nth(nth)
        self.pill = self.root.locator(".pill")
        self.position = self.root.get_by_role("group", name="Position")
        self.shown = self.root.locator(".shown")
        self.code = self.root.locator(".code code")
        self.stop = self.button("Stop")
        self.step = self.button("Step batch")
        self.cards = self.root.locator(".card[aria-label^='layer ']")

    def button(self, name: str, *, exact: bool = True) -> Locator:
        return self.root.get_by_role("button", name=name, exact=exact)

    def node(self, name: str) -> Locator:
        """A layer in the graph."""
        return self.root.locator(f".gn[data-node='{name}']")

    def card(self, layer: str) -> Locator:
        return self.root.get_by_role("region", name=f"layer {layer}", exact=True)

    def tensor(self, layer: str, kind: str = "activations") -> Locator:
        return self.card(layer).locator(f"[data-kind={kind}]")

    def tiles(self, layer: str, kind: str = "activations") -> Locator:
        """Tiles that have been painted."""
        return self.tensor(layer, kind).locator(".tile:not(.blank)")

    def tile(self, layer: str, channel: int, kind: str = "activations") -> Locator:
        return self.tensor(layer, kind).locator(f".tile[data-channel='{channel}']")

    def point(self, layer: str, channel: int, row: int, col: int, *, scale: float, kind: str) -> str:
        """Point at a value of a tile that is drawn at `scale` pixels a value; the exact read-out."""
        face = self.tile(layer, channel, kind).locator(".face")
        face.hover(position={"x": (col + 0.5) * scale, "y": (row + 0.5) * scale})
        expect(self.tensor(layer, kind).locator(".ro")).to_have_text(re.compile(rf"\({row}, {col}\) = "))
        return self.readout(layer, kind)

    def readout(self, layer: str, kind: str = "activations") -> str:
        """What the head of a strip says once the exact value has come from the kernel."""
        text = self.tensor(layer, kind).locator(".ro")
        expect(text).to_contain_text("= ")
        return text.inner_text()

    def choose(self, item: str) -> None:
        """Choose from the menu beside Step batch."""
        self.button("Step options").click()
        self.root.get_by_role("menuitem", name=item).click()

    def press(self, key: str) -> None:
        """A key while the widget, and no field in it, has the focus."""
        self.root.press(key)

    def stands(self, text: str, *, status: str = "paused") -> None:
        """Wait until the label reads `text` and the pill `status`."""
        expect(self.position).to_have_text(text, timeout=30_000)
        expect(self.pill).to_have_text(status, timeout=30_000)


def value_of(readout: str) -> float:
    """The number in a read-out."""
    return float(readout.rsplit("= ", 1)[1])


def open_training(
    lab: Lab,
    *,
    net: str = NET,
    loop: str = LOOP,
    start: str = START,
    watch: tuple[str, ...] = (),
    viewport: tuple[int, int] = (1600, 1300),
) -> View:
    """A notebook that trains in a worker thread, paused in its first batch, with its dashboard in view."""
    watching = "\n" + "\n".join(f"session.watch({layer!r})" for layer in watch)
    path = lab.write_notebook([net + loop, start + watching, LAUNCH, DASHBOARD])
    tab = lab.open(path, viewport=viewport)
    tab.run_all()
    view = View(tab)
    expect(view.pill).to_have_text("paused", timeout=30_000)
    view.root.scroll_into_view_if_needed()
    return view
