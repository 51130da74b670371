"""The controls in JupyterLab: every action by click and by key, and what they say."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.training import ENDLESS, NET, View, open_training


def test_steps_by_click(lab: Lab) -> None:
    view = open_training(lab)
    view.stands("epoch 1/3·train·batch 1/6")
    view.step.click()
    view.stands("epoch 1/3·train·batch 2/6")
    expect(view.code).to_have_text("session.step_batch()")
    expect(view.shown).to_be_hidden()
    view.choose("Step phase")
    view.stands("epoch 1/3·val·before batch 1/2")
    expect(view.shown).to_have_text("shown: train, batch 6")
    view.choose("Step epoch")
    view.stands("epoch 2/3·train·before batch 1/6")
    expect(view.shown).to_have_text("shown: epoch 1, val, batch 2")
    expect(view.code).to_have_text("session.step_epoch()")
    view.button("Run").click()
    view.stands("epoch 3/3·val·batch 2/2")  # the last batch stays to be looked at
    view.step.click()
    view.stands("epoch 3/3·val·batch 2/2", status="finished")
    assert view.tab.evaluate("session.result") == "trained"
    for name in ("Step batch", "Step options", "Run", "Stop", "Refresh"):
        expect(view.button(name)).to_be_disabled()
    assert view.tab.evaluate("len(seen)") == 18


def test_steps_by_key(lab: Lab) -> None:
    view = open_training(lab)
    view.press("n")
    view.stands("epoch 1/3·train·batch 2/6")
    view.press("p")
    view.stands("epoch 1/3·val·before batch 1/2")
    expect(view.shown).to_have_text("shown: train, batch 6")
    view.press("e")
    view.stands("epoch 2/3·train·before batch 1/6")
    view.tab.execute("gate.clear()")
    view.press("r")
    view.stands("epoch 2/3·train·batch 1/6", status="running")
    view.press("s")
    expect(view.stop).to_have_attribute("aria-busy", "true")
    expect(view.code).to_have_text("session.stop()")
    view.tab.execute("gate.set()")
    view.stands("epoch 2/3·train·batch 1/6")
    view.press("?")
    keys = view.root.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("step a batch")
    view.page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


def test_run_until_and_update_frequency(lab: Lab) -> None:
    view = open_training(lab)
    view.press("u")
    form = view.root.get_by_role("dialog", name="Run until")
    expect(form.get_by_label("epoch")).to_have_value("1")
    expect(form.get_by_label("batch")).to_have_value("2")
    form.get_by_label("epoch").fill("2")
    form.get_by_label("batch").fill("3")
    form.get_by_label("batch").press("Enter")
    view.stands("epoch 2/3·train·batch 3/6")
    expect(form).to_be_hidden()
    expect(view.code).to_have_text("session.step_until_position(phase='train', epoch=1, batch_idx=2)")
    # A position that training has passed is refused in words.
    view.choose("Run until")
    form.get_by_label("epoch").fill("1")
    form.get_by_role("button", name="Run").click()
    expect(view.root.locator(".oops")).to_contain_text("ValueError")
    view.root.get_by_role("button", name="Dismiss the error").click()
    view.stands("epoch 2/3·train·batch 3/6")
    # How often the strips follow while training runs: a phase goes with batches only.
    view.button("Settings").click()
    panel = view.root.get_by_role("dialog", name="Settings")
    expect(panel.get_by_label("Phase of the update frequency")).to_be_disabled()
    panel.get_by_label("Update every how many").fill("2")
    panel.get_by_label("Unit of the update frequency").select_option("batch")
    panel.get_by_label("Phase of the update frequency").select_option("train")
    panel.get_by_role("button", name="Apply").click()
    expect(view.code).to_have_text("session.set_update_frequency(unit='batch', n=2, phase='train')")
    expect(panel).to_be_hidden()
    frequency = "(lambda f: (f.unit, f.n, f.phase))(session.update_frequency)"
    assert view.tab.evaluate(frequency) == ("batch", 2, "train")
    view.button("Settings").click()
    expect(panel.get_by_label("Update every how many")).to_have_value("2")
    expect(panel.get_by_label("Phase of the update frequency")).to_have_value("train")
    # Statistics pause and go on; the cards stay.
    scopes = panel.get_by_role("radiogroup", name="Statistics of every batch")
    expect(scopes.get_by_label("of the watched layers")).to_be_checked()
    scopes.get_by_label("of none").check()
    expect(view.code).to_have_text("session.set_stats_scope('none')")
    assert view.tab.evaluate("str(session.stats_scope)") == "none"
    view.tab.execute("session.set_stats_scope('all')")
    expect(scopes.get_by_label("of every layer")).to_be_checked()


def test_stop_waits_for_a_long_batch_and_can_be_taken_back(lab: Lab) -> None:
    view = open_training(lab)
    view.tab.execute("gate.clear()")
    view.button("Run").click()
    view.stands("epoch 1/3·train·batch 2/6", status="running")
    expect(view.step).to_be_disabled()
    view.stop.click()
    expect(view.stop).to_have_attribute("aria-busy", "true")
    expect(view.stop).to_have_attribute("title", "Stop is queued; press again to cancel")
    expect(view.code).to_have_text("session.stop()")
    assert view.tab.evaluate("session.pending") == ["stop"]
    view.stop.click()
    expect(view.stop).to_have_attribute("aria-busy", "false")
    expect(view.code).to_have_text("session.cancel()")
    assert view.tab.evaluate("session.pending") == []
    expect(view.pill).to_have_text("running")
    view.button("Refresh").click()
    expect(view.button("Refresh")).to_have_attribute("aria-busy", "true")
    expect(view.code).to_have_text("session.request_snapshot()")
    view.stop.click()
    expect(view.code).to_have_text("session.stop()")
    view.tab.execute("gate.set()")
    expect(view.pill).to_have_text("paused")
    expect(view.button("Refresh")).to_have_attribute("aria-busy", "false")


def test_refresh_while_running_shows_a_batch(lab: Lab) -> None:
    view = open_training(lab, loop=ENDLESS, watch=("fc",))
    view.tab.execute("session.set_update_frequency(unit='epoch', n=1_000_000)")
    view.button("Run").click()
    expect(view.pill).to_have_text("running")
    before = view.tab.evaluate("session.snapshot.number")
    drawn = view.root.locator("[data-snapshot]")
    expect(drawn).to_have_attribute("data-snapshot", str(before))
    view.button("Refresh").click()
    expect(drawn).not_to_have_attribute("data-snapshot", str(before))
    expect(view.code).to_have_text("session.request_snapshot()")
    expect(view.pill).to_have_text("running")
    view.stop.click()
    expect(view.pill).to_have_text("paused")


def test_copying_and_moving_between_cards(lab: Lab) -> None:
    lab.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=lab.server.url)
    view = open_training(lab, watch=("stem", "fc"))
    expect(view.code).to_have_text("none yet")
    expect(view.button("Copy code")).to_be_disabled()
    view.step.click()
    expect(view.code).to_have_text("session.step_batch()")
    view.button("Copy code").click()
    expect(view.button("Copy code")).to_have_attribute("title", "Copied")
    assert view.page.evaluate("navigator.clipboard.readText()") == "session.step_batch()"
    # `c` copies the value under the pointer; `]` and `[` go from card to card.
    text = view.point("stem", 2, 3, 4, scale=4, kind="activations")
    view.press("c")
    view.page.wait_for_function("async (text) => (await navigator.clipboard.readText()) === text", arg=text)
    view.press("]")
    expect(view.card("stem")).to_be_focused()
    view.page.keyboard.press("]")
    expect(view.card("fc")).to_be_focused()
    view.page.keyboard.press("[")
    expect(view.card("stem")).to_be_focused()
    view.button("Show code").click()
    expect(view.code).to_be_hidden()
    view.button("Show code").click()
    expect(view.code).to_be_visible()


def test_keys_stay_in_the_dashboard(lab: Lab) -> None:
    view = open_training(lab)
    cells = view.page.locator(".jp-Notebook .jp-Cell")
    expect(cells).to_have_count(4)
    view.pill.click()
    for key in ("a", "x", "d", "d", "m", "y", "Enter", "z"):
        view.press(key)
    expect(cells).to_have_count(4)
    view.press("/")
    search = view.root.get_by_role("searchbox", name="Filter layers")
    expect(search).to_be_focused()
    view.page.keyboard.type("nerspaub?")
    expect(search).to_have_value("nerspaub?")
    expect(cells).to_have_count(4)
    view.stands("epoch 1/3·train·batch 1/6")
    expect(view.code).to_have_text("none yet")
    assert view.tab.evaluate("session.pause_count") == 1
    view.page.keyboard.press("Escape")  # empties the filter
    expect(search).to_have_value("")
    view.page.keyboard.press("Escape")  # leaves the field
    expect(search).not_to_be_focused()
    view.page.keyboard.press("Escape")  # back to the notebook
    inside = "document.activeElement.closest('.nsw') !== null"
    assert view.page.evaluate(inside) is False
    view.page.keyboard.press("b")
    expect(cells).to_have_count(5)


def test_exception_in_the_loop_is_shown(lab: Lab) -> None:
    loop = """
def train():
    for x, y in session.batches(train_data, phase="train"):
        if len(seen) == 2:
            raise ValueError("the loss went away")
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        seen.append(0)
"""
    view = open_training(lab, net=NET, loop=loop, watch=("stem",))
    expect(view.tiles("stem")).to_have_count(8)
    view.button("Run").click()
    expect(view.pill).to_have_text("failed")
    banner = view.root.get_by_role("region", name="Training failed")
    expect(banner.locator("h3")).to_contain_text("ValueError")
    expect(banner).to_contain_text("the loss went away")
    expect(banner).to_contain_text("in epoch 1, train, batch 3")
    expect(banner.locator("code")).to_contain_text('raise ValueError("the loss went away")')
    banner.get_by_text("Traceback", exact=True).click()
    expect(banner.locator("pre")).to_contain_text("in train")
    expect(view.step).to_be_disabled()
    # The last state stays to be looked at.
    expect(view.tiles("stem")).to_have_count(8)
    view.tile("stem", 2).locator(".face").hover(position={"x": 10, "y": 10})
    expect(view.tensor("stem").locator(".ro")).to_contain_text("ch 2 (2, 2) = ")


def test_controls_alone(lab: Lab) -> None:
    """The parts of the dashboard are widgets of their own, which follow the same session."""
    view = open_training(lab, watch=("stem",))
    view.tab.page.evaluate(
        """async () => {
            const {commands, shell} = window.jupyterapp;
            await commands.execute('notebook:insert-cell-below');
            const {activeCell} = shell.currentWidget.content;
            activeCell.model.sharedModel.setSource(
              "from IPython.display import display\\n"
              + "display(session.controls(), session.graph(), session.strips('stem'))");
            await commands.execute('notebook:run-cell');
        }"""
    )
    controls, graph, strips = (View(view.tab, nth) for nth in (1, 2, 3))
    expect(controls.pill).to_have_text("paused")
    expect(graph.node("stem")).to_have_attribute("aria-pressed", "true")
    strips.root.scroll_into_view_if_needed()
    expect(strips.tiles("stem")).to_have_count(8)
    controls.step.click()
    view.stands("epoch 1/3·train·batch 2/6")
    controls.stands("epoch 1/3·train·batch 2/6")
