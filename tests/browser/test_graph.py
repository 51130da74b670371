"""The architecture graph in JupyterLab: drawn from a real forward, and a way to choose what is watched."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.training import open_training


def test_graph_of_a_real_forward(lab: Lab) -> None:
    view = open_training(lab)
    # Modules, inputs and functional ops; both blocks have a residual edge.
    for name in ("image", "stem", "blocks.0.conv1", "blocks.0.relu1", "blocks.1.conv2", "fc"):
        expect(view.node(name)).to_have_count(1)
    expect(view.root.locator(".gs path.e.res")).to_have_count(2)
    expect(view.root.locator(".gnote")).to_be_hidden()
    # A layer that never ran says so and looks it.
    expect(view.node("unused")).to_have_accessible_name("unused Linear, never ran")
    expect(view.root.locator(".gwrap .gs g.dm .dim")).to_have_count(1)
    # Scopes collapse and expand.
    inside = view.node("blocks.0.conv1")
    view.button("Collapse blocks.0").click()
    expect(inside).to_have_count(0)
    expect(view.root.locator(".gs path.e.res")).to_have_count(1)
    view.button("Expand blocks.0").click()
    expect(inside).to_have_count(1)
    # What a layer is, under the pointer.
    view.node("blocks.0.conv1").hover()
    info = view.root.get_by_role("tooltip")
    for text in ("blocks.0.conv1", "Conv2d", "kernel_size=(3, 3)", "(4, 8, 14, 14)", "584", "Click to watch"):
        expect(info).to_contain_text(text)
    view.node("unused").scroll_into_view_if_needed()
    expect(info).to_be_hidden()
    view.node("unused").hover()
    expect(info).to_contain_text("never")
    view.pill.hover()
    expect(info).to_be_hidden()
    # Zoom and fit.
    percent = view.root.locator(".pct")
    view.button("Zoom in").click()
    expect(percent).not_to_have_text("100%")
    view.button("Fit graph").click()
    view.press("0")
    box = view.root.locator(".gwrap")
    assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 1


def test_click_and_keys_watch_and_unwatch(lab: Lab) -> None:
    view = open_training(lab)
    expect(view.root.locator(".empty")).to_contain_text("Watch a layer")
    view.node("blocks.0.conv1").click()
    expect(view.node("blocks.0.conv1")).to_have_attribute("aria-pressed", "true")
    expect(view.card("blocks.0.conv1")).to_be_visible()
    expect(view.code).to_have_text("session.watch('blocks.0.conv1')")
    assert view.tab.evaluate("session.watched_layers") == ("blocks.0.conv1",)
    view.node("blocks.0.conv1").click()
    expect(view.node("blocks.0.conv1")).to_have_attribute("aria-pressed", "false")
    expect(view.card("blocks.0.conv1")).to_have_count(0)
    # The cross of a card unwatches too, and Python's own watch shows at once.
    view.tab.execute("session.watch('fc')")
    expect(view.node("fc")).to_have_attribute("aria-pressed", "true")
    view.button("Close fc").click()
    expect(view.card("fc")).to_have_count(0)
    assert view.tab.evaluate("session.watched_layers") == ()
    # The same by keyboard.
    view.node("stem").focus()
    view.page.keyboard.press("ArrowDown")
    expect(view.node("act")).to_be_focused()
    expect(view.root.get_by_role("tooltip")).to_contain_text("ReLU")
    view.page.keyboard.press("Enter")
    expect(view.node("act")).to_have_attribute("aria-pressed", "true")
    expect(view.node("act")).to_be_focused()
    view.page.keyboard.press("Space")
    expect(view.node("act")).to_have_attribute("aria-pressed", "false")
    view.page.keyboard.press("ArrowDown")
    expect(view.node("blocks")).to_be_focused()
    view.page.keyboard.press("ArrowLeft")
    expect(view.node("blocks.0")).to_have_count(0)
    view.page.keyboard.press("ArrowRight")
    expect(view.node("blocks.0")).to_have_count(1)
    expect(view.node("blocks")).to_be_focused()
    view.page.keyboard.press("n")
    view.stands("epoch 1/3·train·batch 2/6")


def test_filter_by_glob_and_class_and_watch_at_once(lab: Lab) -> None:
    view = open_training(lab)
    search = view.root.get_by_role("searchbox", name="Filter layers")
    found = view.root.locator(".gfound")
    search.fill("Conv2d")
    expect(found).to_contain_text("5 found")
    search.fill("blocks.0.*")
    in_block = view.tab.evaluate("[n for n in session.layer_names if n.startswith('blocks.0.')]")
    expect(found).to_contain_text(f"{len(in_block)} found")
    found.get_by_role("button", name=f"Watch {len(in_block)}", exact=True).click()
    expect(view.cards).to_have_count(len(in_block))
    assert sorted(view.tab.evaluate("session.watched_layers")) == sorted(in_block)
    found.get_by_role("button", name=f"Unwatch {len(in_block)}", exact=True).click()
    expect(view.cards).to_have_count(0)
    search.fill("nothing like it")
    expect(found).to_contain_text("Nothing found")
    # Enter goes to the first layer found, also inside a collapsed scope.
    search.fill("")
    view.button("Collapse blocks.1").click()
    search.fill("blocks.1.conv2")
    expect(view.node("blocks.1")).to_have_count(1)
    search.press("Enter")
    expect(view.node("blocks.1.conv2")).to_be_focused()
    expect(view.node("blocks.1.conv2")).to_have_attribute("aria-pressed", "false")
