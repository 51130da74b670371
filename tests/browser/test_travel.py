"""Going back in JupyterLab: what will happen is said first, and then it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.training import LOOP, open_training

if TYPE_CHECKING:
    from tests.browser.lab import Lab

RESTORING = """
def train(epochs=4):
    for epoch in session.epochs(epochs):
        with session.restore_point():
            for x, y in session.batches(train_data, phase="train"):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                seen.append((epoch, loss.item()))
"""


def test_back_to_an_epoch_and_forward_again(lab: Lab) -> None:
    view = open_training(lab, watch=("act",), loop=RESTORING)
    view.press("e")
    view.stands("epoch 2/4\u00b7train\u00b7before batch 1/6")
    view.press("e")
    view.stands("epoch 3/4\u00b7train\u00b7before batch 1/6")
    view.choose("Go back\u2026")
    form = view.root.get_by_role("dialog", name="Go back")
    expect(form).to_contain_text("Statistics and curves of it and of later epochs are dropped.")
    expect(form.get_by_role("combobox", name="Epoch").locator("option")).to_have_text(["1", "2", "3"])
    form.get_by_role("combobox", name="Epoch").select_option("2")
    form.get_by_role("button", name="Go back").click()
    view.stands("epoch 2/4\u00b7train\u00b7before batch 1/6")
    expect(view.code).to_have_text("session.request_time_travel(1)")
    view.step.click()
    view.stands("epoch 2/4\u00b7train\u00b7batch 1/6")
    view.tab.execute("assert [e for e, _ in seen] == [0] * 6 + [1] * 7, seen")
    view.tab.execute("assert seen[6] == seen[12], seen")
    view.root.get_by_role("tab", name="Run").locator("visible=true").click()
    happened = view.root.get_by_role("region", name="What happened")
    expect(happened).to_contain_text("went back to the beginning of epoch 2 (from epoch 2, train, batch 6)")


def test_a_loop_without_restore_points_says_what_is_missing(lab: Lab) -> None:
    view = open_training(lab, loop=LOOP)
    view.choose("Go back\u2026")
    form = view.root.get_by_role("dialog", name="Go back")
    expect(form).to_contain_text("wrap each epoch's body in `with session.restore_point():`")
    expect(form.get_by_role("button", name="Go back")).to_be_disabled()
