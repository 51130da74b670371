"""Going back in JupyterLab: what will happen is said first, and then it happens."""

from __future__ import annotations

import re
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


NAN_AT_137 = """
many = [(x.clone(), y) for x, y in train_data * 30]
many[136][0][0, 0, 0, 0] = float("nan")

def train():
    for epoch in session.epochs(1):
        for x, y in session.batches(many, phase="train"):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""


def test_a_run_that_turned_nan_is_looked_at_again_in_three_clicks(lab: Lab) -> None:
    view = open_training(lab, watch=("act",), loop=NAN_AT_137)
    view.tab.execute("session.step_until_position('train', 0, 136)")
    view.stands("epoch 1/1\u00b7train\u00b7batch 137/180")
    axis = view.root.get_by_role("slider", name="Timeline")
    expect(view.root.locator(".tmark.finding title")).to_have_text(
        re.compile(
            "^loss is nan from epoch 1, train, batch 137\nactivations of act are NaN or Inf from epoch 1, "
            "train, batch 137\ngradients of act are NaN or Inf from epoch 1, train, batch 137$"
        )
    )
    # Two pixels beside the mark it is still the batch of the finding that is meant.
    box = view.root.locator(".tmark.finding").first.bounding_box()
    assert box is not None
    view.page.mouse.move(box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2)
    said = view.root.locator(".tsaid")
    expect(said).to_contain_text(
        "loss is nan from epoch 1, train, batch 137; activations of act are NaN or Inf"
    )
    expect(said).to_contain_text("epoch 1, train, batch 137 (loss nan)")
    view.page.mouse.move(0, 0)
    view.root.get_by_role("button", name="Step back").click()
    view.stands("epoch 1/1\u00b7train\u00b7batch 136/180")
    expect(view.tiles("act").first).to_be_visible()
    view.tab.execute("assert all(p.isfinite().all() for p in model.parameters())")
    view.step.click()
    view.stands("epoch 1/1\u00b7train\u00b7batch 137/180")
    view.tab.execute("assert not any(p.isfinite().all() for p in model.stem.parameters())")
    view.root.get_by_role("button", name="Step back").click()
    view.stands("epoch 1/1\u00b7train\u00b7batch 136/180")
    view.tab.execute("assert not session.history.parted")
    expect(axis).to_have_attribute("aria-valuetext", re.compile("From memory: back to batch "))


def test_the_timeline_says_what_will_happen_and_goes_there(lab: Lab) -> None:
    view = open_training(lab, watch=("act",), loop=RESTORING)
    view.press("e")
    view.stands("epoch 2/4\u00b7train\u00b7before batch 1/6")
    view.press("e")
    view.stands("epoch 3/4\u00b7train\u00b7before batch 1/6")
    axis = view.root.get_by_role("slider", name="Timeline")
    go = view.root.get_by_role("button", name="Go back there")
    axis.focus()
    view.page.keyboard.press("Home")
    said = view.root.locator(".tsaid")
    expect(said).to_contain_text("): restores the beginning of epoch 1 and computes 1 batch anew")
    for _ in range(3):
        view.page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("epoch 1, train, batch 4 (loss ")
    expect(said).to_contain_text("): restores the beginning of epoch 1 and computes 4 batches anew")
    expect(axis).to_have_attribute("aria-valuetext", re.compile("computes 4 batches anew"))
    view.page.keyboard.press("Enter")
    expect(go).to_be_focused()
    view.page.keyboard.press("Enter")
    view.stands("epoch 1/4\u00b7train\u00b7batch 4/6")
    expect(view.code).to_have_text("session.rewind(phase='train', epoch=0, batch_idx=3)")
    view.tab.execute("assert seen[:4] == seen[12:16], seen")
    view.press("n")
    view.stands("epoch 1/4\u00b7train\u00b7batch 5/6")
    view.page.keyboard.press("b")
    view.stands("epoch 1/4\u00b7train\u00b7batch 4/6")
    box = axis.bounding_box()
    assert box is not None
    view.page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + 30)
    expect(said).to_contain_text("epoch 3, train, batch ")
    expect(said).to_contain_text(": runs on to it, and pauses after it")
    view.page.keyboard.press("Escape")
    expect(view.root.get_by_role("button", name="Run until there")).to_be_hidden()


def test_one_epoch_of_the_timeline_is_looked_at_alone(lab: Lab) -> None:
    view = open_training(lab, loop=RESTORING)
    view.press("e")
    view.stands("epoch 2/4\u00b7train\u00b7before batch 1/6")
    view.press("n")
    view.stands("epoch 2/4\u00b7train\u00b7batch 1/6")
    numbers = view.root.locator(".taxis text")
    expect(numbers).to_have_text(["1", "2", "3", "4"])
    near = view.root.get_by_role("button", name="This epoch")
    near.click()
    expect(numbers).to_have_text(["2"])
    box = view.root.get_by_role("slider", name="Timeline").bounding_box()
    assert box is not None
    view.page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + 30)
    expect(view.root.locator(".tsaid")).to_contain_text("epoch 2, train, batch 6: runs on to it")
    view.root.get_by_role("button", name="Run until there").click()
    view.stands("epoch 2/4\u00b7train\u00b7batch 6/6")
    near.click()
    expect(numbers).to_have_text(["1", "2", "3", "4"])
