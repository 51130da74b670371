"""A frozen moment and a locked session in JupyterLab: all can be looked at; what cannot be done says why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.training import DASHBOARD, LAUNCH, LOOP, NET, START, View

if TYPE_CHECKING:
    from tests.browser.lab import Lab

FREEZE = (
    START
    + """
session.watch("act", "fc")
session.detach()
session.freeze_moment("a.moment", phase="train", epoch=1, batch_idx=2)
train()
frozen = session.snapshot
session.close()
"""
)

LOAD = """
session = nansense_widgets.load_moment(Net(), "a.moment", replay=lambda m, b: F.cross_entropy(m(b[0]), b[1]))
"""


def open_moment(lab: Lab, then: str) -> View:
    tab = lab.open(lab.write_notebook([NET + LOOP, FREEZE, LOAD, then, DASHBOARD]), viewport=(1600, 1300))
    tab.run_all()
    view = View(tab)
    view.stands("epoch 2/3\u00b7train\u00b7batch 3/6")
    view.root.scroll_into_view_if_needed()
    return view


def test_a_moment_in_all_views(lab: Lab) -> None:
    view = open_moment(lab, "session.park()")
    expect(view.root.get_by_role("alert")).to_have_text(
        re.compile("^A frozen moment .*in which nothing trains")
    )
    expect(view.step).to_be_disabled()
    expect(view.step).to_have_attribute("title", re.compile("^A frozen moment"))
    expect(view.button("Run")).to_have_accessible_description(re.compile("^A frozen moment"))
    expect(view.tiles("act")).to_have_count(8)
    expect(view.tiles("act", "gradients")).to_have_count(8)
    # What was not watched comes from another replay, made by the thread that is parked.
    view.node("fc").click()
    expect(view.card("fc")).to_be_hidden()
    view.node("stem").click()
    expect(view.tiles("stem")).to_have_count(8)
    card = view.card("act")
    card.get_by_role("tab", name="Histogram").click()
    expect(card.get_by_label("Draw train \u00b7 epoch 2")).to_be_visible()
    expect(card.get_by_text("3 of 6")).to_be_visible()
    expect(card.locator(".offer button")).to_be_hidden()
    for name, content in (
        ("Extremes", "canvas"),
        ("Curves", ".bqplot"),
        ("Weights", ".hint, .missing, canvas"),
    ):
        card.get_by_role("tab", name=name).click()
        expect(card.locator(content).first).to_be_attached()
        expect(card.locator(".missing[role=alert]")).to_be_hidden()
    view.root.get_by_role("tab", name="Run", exact=True).locator("visible=true").click()
    rate = view.root.get_by_role("textbox", name=re.compile("^lr of"))
    expect(rate).to_have_value("0.01")
    expect(rate).to_be_disabled()
    view.tab.execute("session.step_batch(); assert session.status.word == 'paused'")
    view.stands("epoch 2/3\u00b7train\u00b7batch 3/6")


def test_pages_of_a_locked_moment_choose_their_own_layers(lab: Lab) -> None:
    view = open_moment(lab, "session.lock(); session.park()")
    expect(view.button("Settings")).to_be_disabled()
    expect(view.button("Settings")).to_have_attribute("title", re.compile("nobody can steer or change it"))
    expect(view.tiles("act")).to_have_count(8)
    view.node("stem").click()
    expect(view.tiles("stem")).to_have_count(8)
    view.card("act").get_by_role("button", name="Close act").click()
    expect(view.card("act")).to_be_hidden()
    expect(view.cards).to_have_count(2)
    view.tab.execute("assert session.watched_layers == ('act', 'fc'), session.watched_layers")
    view.node("stem").hover()
    expect(view.root.get_by_role("tooltip")).to_contain_text("Shown on this page; click to hide.")
    view.tab.reload()
    again = View(view.tab)
    again.root.scroll_into_view_if_needed()
    expect(again.cards).to_have_count(2)
    expect(again.tiles("act")).to_have_count(8)
    expect(again.card("stem")).to_be_hidden()


def test_a_locked_training(lab: Lab) -> None:
    start = START + "\nsession.watch('act')"
    tab = lab.open(lab.write_notebook([NET + LOOP, start, LAUNCH, DASHBOARD]))
    tab.run_all()
    view = View(tab)
    view.stands("epoch 1/3\u00b7train\u00b7batch 1/6")
    expect(view.step).to_be_enabled()
    tab.execute("session.lock()")
    for button in (view.step, view.button("Run"), view.button("Settings"), view.button("Step options")):
        expect(button).to_be_disabled()
    expect(view.step).to_have_attribute("title", re.compile("^Locked: .*nobody can steer or change it"))
    expect(view.root.get_by_role("alert")).to_contain_text("Locked:")
    view.press("n")
    view.press("r")
    view.node("fc").click()
    expect(view.card("fc")).to_contain_text(
        "it was not among the watched layers when this session was locked"
    )
    tab.execute("assert session.watched_layers == ('act',) and session.pause_count == 1")
    view.stands("epoch 1/3\u00b7train\u00b7batch 1/6")
