"""The Run tab in JupyterLab: what was logged is drawn, and settings are changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.test_looks import CUT, NARROW, OVERFLOWING, UNNAMED, picture
from tests.browser.training import LAUNCH, LOOP, NET, START, View, open_training

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab

LOGGING = LOOP.replace(
    "            seen.append(loss.item())\n",
    "            seen.append(loss.item())\n            session.log('accuracy', 0.5 + epoch / 10)\n",
)


def open_run(view: View) -> Locator:
    view.root.get_by_role("tab", name="Run").locator("visible=true").click()
    pane = view.root.get_by_role("region", name="Run", exact=True)
    expect(pane).to_be_visible()
    return pane


def test_the_run_is_drawn_without_being_asked(lab: Lab) -> None:
    view = open_training(lab, watch=("act",), loop=LOGGING, viewport=(1600, 1100))
    pane = open_run(view)
    expect(view.card("act")).to_be_hidden()
    for title in ("loss", "accuracy", "lr"):
        figure = pane.get_by_role("img", name=f"{title} of the run against the epoch")
        expect(figure).to_be_visible(timeout=20_000)
    # The one batch is there, and each further one as it comes; figures change in place.
    plot = pane.get_by_role("img", name="loss of the run against the epoch").locator("svg").first
    plot.evaluate("(svg) => { svg.dataset.mine = 'yes'; }")
    view.step.click()
    view.stands("epoch 1/3·train·batch 2/6")
    view.tab.execute("losses = session.run_log.series('loss')['train'].values.tolist()")
    view.tab.execute("assert losses == seen")
    newest = view.tab.evaluate("f'{seen[-1]:.3g}'")
    expect(pane.get_by_role("img", name=f"train, epoch 1: train {newest}.")).to_be_visible()
    assert plot.get_attribute("data-mine") == "yes"
    view.root.get_by_role("tab", name="Layers").locator("visible=true").click()
    expect(view.card("act")).to_be_visible()
    expect(pane).to_be_hidden()


def test_the_learning_rate_is_changed_in_the_panel(lab: Lab) -> None:
    view = open_training(lab, loop=LOGGING, viewport=(1600, 1100))
    pane = open_run(view)
    rate = pane.get_by_role("textbox", name="lr of SGD")
    expect(rate).to_have_value("0.01")
    rate.fill("0.5")
    rate.press("Escape")
    expect(rate).to_have_value("0.01")
    rate.fill("-1")
    rate.press("Enter")
    expect(view.root.get_by_role("alert").filter(has_text="lr must be at least 0")).to_be_visible()
    view.tab.execute("assert optimizer.param_groups[0]['lr'] == 0.01")
    rate.fill("0.5")
    rate.press("Enter")
    expect(view.code).to_have_text("session.set_hyperparameter('lr', 0.5, optimizer=0, group=0)")
    events = pane.get_by_role("region", name="What happened")
    expect(events).to_contain_text("lr 0.01 \u2192 0.5after epoch 1, train, batch 1")
    view.tab.execute("assert optimizer.param_groups[0]['lr'] == 0.5")
    view.step.click()
    view.stands("epoch 1/3·train·batch 2/6")
    expect(rate).to_have_value("0.5")
    expect(pane.locator(".rmark.hyperparameter")).to_have_count(1)
    view.choose("Step epoch")
    view.stands("epoch 2/3·train·before batch 1/6")
    view.tab.execute("assert session.run_log.series('lr')['train'].values.tolist() == [0.01] + [0.5] * 5")


@pytest.mark.parametrize("dark", [False, True])
def test_the_run_tab_looks_right_at_every_width(lab: Lab, dark: bool) -> None:
    view = open_training(lab, loop=LOGGING, viewport=(1600, 1100))
    view.choose("Step epoch")
    view.stands("epoch 2/3·train·before batch 1/6")
    pane = open_run(view)
    expect(pane.locator("figure.curve")).to_have_count(3, timeout=20_000)
    view.tab.set_theme(dark=dark)
    try:
        for width in (1600, 900, 320, 250):
            view.root.evaluate(NARROW, width)
            view.page.wait_for_timeout(400)
            for what in (OVERFLOWING, UNNAMED, CUT):
                assert view.root.evaluate(what) == [], f"{width} px"
            picture(view, f"run-{'dark' if dark else 'light'}-{width}")
    finally:
        view.tab.set_theme(dark=False)


def test_alone_in_a_cell_it_is_the_same(lab: Lab) -> None:
    path = lab.write_notebook([NET + LOGGING, START, "session.detach()", LAUNCH, "session.run_curves()"])
    tab = lab.open(path, viewport=(1200, 1100))
    tab.run_all()
    view = View(tab)
    view.root.scroll_into_view_if_needed()
    loss = view.root.get_by_role("img", name="loss of the run against the epoch")
    expect(loss).to_be_visible(timeout=20_000)
    tab.execute(
        "losses = session.run_curves().to_dict()['loss']['train']['value']\nassert losses.tolist() == seen"
    )
    assert view.root.evaluate(UNNAMED) == []
