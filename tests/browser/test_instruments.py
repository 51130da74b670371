"""The user's own metrics and tensors in JupyterLab: plots, strips, and what is seen when one fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.test_looks import NARROW, OVERFLOWING, UNNAMED
from tests.browser.training import open_training, value_of
from tests.stats.test_instrument_spec import EXAMPLES

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab

START = f"""
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
session = nansense_widgets.start(model, optimizer=optimizer)
session.set_patch_layers([])
{EXAMPLES}
@session.watch_metric("broken")
def broken(ctx):
    return "garbage" if ctx.position.batch_idx else None

@session.watch_metric("range")
def ends(ctx):
    return {{"low": ctx.activation.min(), "high": ctx.activation.max()}}

@session.watch_layer_tensor("sometimes")
def sometimes(ctx):
    return None
"""


def metric(card: Locator, name: str) -> Locator:
    return card.locator(f"figure[data-figure='metric {name}']")


def test_metrics_and_tensors_of_ones_own_are_seen(lab: Lab) -> None:
    view = open_training(lab, watch=("act",), start=START, viewport=(1600, 1900))
    card = view.card("act")
    # Strips: one more a tensor, with a scale and exact values of its own.
    own = view.tensor("act", "'custom zscore'")
    expect(own.get_by_role("heading", name="zscore")).to_be_visible()
    expect(view.tiles("act", "'custom zscore'")).to_have_count(8)
    read = value_of(view.point("act", 2, 3, 4, scale=4, kind="'custom zscore'"))
    held = view.tab.evaluate("session.snapshot.custom_activations['act']['zscore'][0, 2, 3, 4].item()")
    assert abs(read - held) <= 1e-3 * abs(held) + 1e-6
    assert "(3, 4) = " in view.readout("act", "activations")
    expect(view.tensor("act", "'custom sometimes'")).to_contain_text(
        "not evaluated: the instrument returned None"
    )
    # An instrument that comes later stands there with the next batch.
    view.tab.evaluate("session.watch_layer_tensor('twice')(lambda ctx: 2 * ctx.activation) is None")
    expect(view.tensor("act", "'custom twice'")).to_contain_text("not evaluated")
    view.press("n")
    expect(view.tiles("act", "'custom twice'")).to_have_count(8)
    # Curves: a figure each, and where one failed its error.
    card.get_by_role("tab", name="Curves").click()
    expect(metric(card, "sparsity").locator(".cplot svg").first).to_be_visible(timeout=60_000)
    expect(metric(card, "range").locator(".clines")).to_contain_text(re.compile(r"high.*low", re.DOTALL))
    broken = metric(card, "broken")
    expect(broken).to_contain_text("off from here on: TypeError: a metric returns a number")
    expect(broken).to_contain_text("not 'garbage' (str)")
    expect(broken.locator("svg")).to_have_count(0)
    view.press("e")
    view.stands("epoch 2/3\u00b7train\u00b7before batch 1/6")
    view.press("n")
    expect(metric(card, "grad_rms").locator(".cplot")).to_have_attribute(
        "aria-label", re.compile("train, epoch 2")
    )
    points = view.tab.evaluate("len(session.watch_metrics_snapshot().plots('act', 'train')['sparsity'][''])")
    assert points == 7
    # The cell is run again, better: the plot comes in the place of the error.
    view.tab.evaluate("session.watch_metric('broken')(lambda ctx: 1.0) is None")
    view.press("n")
    expect(broken.locator(".cplot svg").first).to_be_visible()
    expect(broken.locator(".missing:visible")).to_have_count(0)
    for width in (250, 900):
        view.root.evaluate(NARROW, width)
        metric(card, "sparsity").scroll_into_view_if_needed()
        assert view.root.evaluate(OVERFLOWING) == [], width
        assert view.root.evaluate(UNNAMED) == [], width
    view.tab.evaluate("session.detach()")
    assert view.tab.evaluate("session.wait(60) and session.result") == "trained"
