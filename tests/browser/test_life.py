"""What a view outlives: reload, a second tab, a second view, the session, the kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.training import DASHBOARD, ENDLESS, LAUNCH, LOOP, NET, START, View, open_training

if TYPE_CHECKING:
    from pathlib import Path


def saved_states(file: Path) -> list[dict[str, Any]]:
    """The state of each widget in a notebook's file."""
    widgets = json.loads(file.read_text())["metadata"]["widgets"]
    return [
        model["state"] for model in widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
    ]


def running_on(view: View) -> None:
    """Training goes on: batches are still counted."""
    done = view.tab.evaluate("len(seen)")
    view.page.wait_for_function(
        """async ([expression, done]) => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            const future = kernel.requestExecute({
                code: '', silent: true, store_history: false, user_expressions: {value: expression},
            });
            const reply = (await future.done).content.user_expressions.value;
            return Number(reply.data['text/plain']) > done + 5;
        }""",
        arg=["len(seen)", done],
    )


def test_reload_while_training_runs(lab: Lab) -> None:
    view = open_training(lab, loop=ENDLESS, watch=("stem", "fc"))
    expect(view.tiles("stem")).to_have_count(8)
    view.button("Run").click()
    expect(view.pill).to_have_text("running")
    view.tab.reload()
    expect(view.pill).to_have_text("running")
    expect(view.code).to_have_text("session.step_run()")
    running_on(view)
    view.root.scroll_into_view_if_needed()
    expect(view.tiles("stem")).to_have_count(8)
    expect(view.card("fc")).to_have_count(1)
    view.stop.click()
    expect(view.pill).to_have_text("paused")
    view.step.click()
    expect(view.code).to_have_text("session.step_batch()")


def test_second_tab_and_second_view_follow(lab: Lab) -> None:
    path = lab.write_notebook([NET + LOOP, START, LAUNCH, DASHBOARD, DASHBOARD])
    tab = lab.open(path, viewport=(1600, 2400))
    tab.run_all()
    first, second = View(tab), View(tab, 1)
    first.stands("epoch 1/3·train·batch 1/6")
    second.stands("epoch 1/3·train·batch 1/6")
    first.root.scroll_into_view_if_needed()
    first.node("stem").click()
    second.root.scroll_into_view_if_needed()
    second.step.click()
    for view in (first, second):
        view.stands("epoch 1/3·train·batch 2/6")
        view.root.scroll_into_view_if_needed()
        expect(view.tiles("stem")).to_have_count(8)
    # Each view keeps what it looks at to itself.
    second.button("Average").click()
    expect(second.tiles("stem")).to_have_count(1)
    expect(first.tiles("stem")).to_have_count(8)

    tab.save()
    other = View(lab.open(path))
    other.stands("epoch 1/3·train·batch 2/6")
    other.root.scroll_into_view_if_needed()
    expect(other.tiles("stem")).to_have_count(8)
    other.step.click()
    other.stands("epoch 1/3·train·batch 3/6")
    first.stands("epoch 1/3·train·batch 3/6")
    other.page.close()
    first.step.click()
    first.stands("epoch 1/3·train·batch 4/6")


def test_kernel_restart(lab: Lab) -> None:
    view = open_training(lab, watch=("stem",))
    expect(view.tiles("stem")).to_have_count(8)
    view.tab.restart_kernel()
    expect(view.pill).to_have_text("kernel gone")
    expect(view.root.get_by_role("alert").locator("visible=true")).to_contain_text("Kernel gone")
    for name in ("Step batch", "Step options", "Run", "Stop", "Refresh", "Settings"):
        expect(view.button(name)).to_be_disabled()
    # What is on screen stays, and so do values read from the picture.
    expect(view.tiles("stem")).to_have_count(8)
    view.tile("stem", 2).locator(".face").hover(position={"x": 10, "y": 10})
    expect(view.tensor("stem").locator(".ro")).to_contain_text("ch 2 (2, 2)")
    view.press("n")
    view.node("fc").click()
    expect(view.cards).to_have_count(1)
    # The cells bring it back.
    view.tab.run_all()
    view.stands("epoch 1/3·train·batch 1/6")
    view.step.click()
    view.stands("epoch 1/3·train·batch 2/6")


def test_close_and_replace(lab: Lab) -> None:
    path = lab.write_notebook([NET + LOOP, START + "; session.watch('stem')", LAUNCH, DASHBOARD, DASHBOARD])
    tab = lab.open(path, viewport=(1600, 2400))
    tab.run_all()
    old, new = View(tab), View(tab, 1)
    expect(old.tiles("stem")).to_have_count(8)
    old.stands("epoch 1/3·train·batch 1/6")
    alert = old.root.get_by_role("alert").locator("visible=true")
    # All but the first dashboard again, as someone does who starts over.
    for cell in (1, 2, 4):
        tab.page.evaluate(
            """async (cell) => {
                const {shell, commands} = window.jupyterapp;
                shell.currentWidget.content.activeCellIndex = cell;
                await commands.execute('notebook:run-cell');
            }""",
            cell,
        )
    expect(old.pill).to_have_text("closed")
    expect(alert).to_contain_text("replaced by a newer session")
    expect(old.step).to_be_disabled()
    expect(old.tiles("stem")).to_have_count(8)  # its last picture stays
    new.stands("epoch 1/3·train·batch 1/6")
    new.root.scroll_into_view_if_needed()
    new.step.click()
    new.stands("epoch 1/3·train·batch 2/6")
    tab.execute("session.close()")
    expect(new.pill).to_have_text("closed")
    expect(new.root.get_by_role("alert").locator("visible=true")).to_contain_text("session.close()")
    assert tab.evaluate("[t.name for t in threading.enumerate() if 'training' in t.name]") == []


def test_saved_notebook_without_a_session(lab: Lab) -> None:
    view = open_training(lab, watch=("stem", "blocks.0.conv1", "fc"))
    view.step.click()
    view.stands("epoch 1/3·train·batch 2/6")
    # The picture for the file is made when training has been quiet for a moment.
    path = view.tab.url.rsplit("/", 1)[1]
    file = lab.file(path)
    for _ in range(50):
        view.tab.save()
        if "blocks.0.conv1" in json.dumps([state.get("still") for state in saved_states(file)]):
            break
        view.page.wait_for_timeout(200)
    assert file.stat().st_size < 1_000_000
    (still,) = [state["still"] for state in saved_states(file) if "still" in state]
    assert [card["layer"] for card in still["cards"]["cards"]] == ["stem", "blocks.0.conv1", "fc"]
    view.page.close()
    lab.server.shut_down_kernels()

    saved = View(lab.open(path, viewport=(1600, 1300)))
    expect(saved.pill).to_have_text("saved picture")
    expect(saved.root.get_by_role("alert").locator("visible=true")).to_contain_text("epoch 1, train, batch 2")
    saved.root.scroll_into_view_if_needed()
    expect(saved.tiles("stem")).to_have_count(8)
    expect(saved.tiles("blocks.0.conv1", "gradients")).to_have_count(8)
    expect(saved.node("stem")).to_have_attribute("aria-pressed", "true")
    for name in ("Step batch", "Run", "Stop", "Refresh"):
        expect(saved.button(name)).to_be_disabled()
    saved.root.screenshot(path=saved.tab.screenshot("saved").with_name("saved-dashboard.png"))
    # Nothing runs in the new kernel until the cells do.
    saved.tab.run_all()
    saved.stands("epoch 1/3·train·batch 1/6")


def test_loop_in_a_cell_hears_clicks(lab: Lab) -> None:
    """The main thread of the default kernel, busy with the loop's own cell."""
    path = lab.write_notebook([NET + LOOP, START, DASHBOARD, "print(train())"])
    tab = lab.open(path, viewport=(1600, 1300))
    tab.start_all()
    view = View(tab)
    view.stands("epoch 1/3·train·batch 1/6")
    view.root.scroll_into_view_if_needed()
    view.node("stem").click()
    expect(view.card("stem")).to_be_visible()
    view.press("n")
    view.stands("epoch 1/3·train·batch 2/6")
    expect(view.tiles("stem")).to_have_count(8)
    view.point("stem", 2, 3, 4, scale=4, kind="activations")
    view.press("p")
    view.stands("epoch 1/3·val·before batch 1/2")
    view.press("r")
    view.stands("epoch 3/3·val·batch 2/2")
    view.press("n")
    view.stands("epoch 3/3·val·batch 2/2", status="finished")
    tab.wait_idle()
    assert tab.cell_outputs(3).strip() == "trained"


def test_interrupt_pauses_a_launched_loop(lab: Lab) -> None:
    path = lab.write_notebook([NET + ENDLESS, START, LAUNCH, DASHBOARD, "session.wait()"])
    tab = lab.open(path, viewport=(1600, 1300))
    tab.start_all()
    view = View(tab)
    expect(view.pill).to_have_text("paused")
    expect(tab.page.locator(".jp-Notebook .jp-Cell").nth(4).locator(".jp-InputPrompt")).to_have_text("[*]:")
    view.root.scroll_into_view_if_needed()
    view.button("Run").click()
    expect(view.pill).to_have_text("running")
    tab.interrupt_kernel()
    expect(view.pill).to_have_text("paused")
    tab.wait_idle()
    assert "KeyboardInterrupt" in tab.cell_outputs(4)
    view.step.click()
    expect(view.code).to_have_text("session.step_batch()")
