"""Widths, themes and names: what must hold of every size, and screenshots for people to look at."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.training import View, open_training
from tests.conftest import REPO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.lab import Lab

NOTEBOOKS = REPO / "notebooks"

WIDTHS = (250, 320, 720, 900, 1600)

NARROW = "(root, width) => { root.style.width = `${width}px`; root.style.maxWidth = 'none'; }"

# Elements that are wider than the frame, except inside boxes that scroll or clip on purpose.
OVERFLOWING = """
(root) => {
    const right = root.getBoundingClientRect().right + 0.5;
    const out = [];
    for (const element of root.querySelectorAll('*')) {
        if (element.closest('.gwrap, .tiles, .wspace, .zoombox, .cplot, pre, .vh, [hidden], svg')) continue;
        const box = element.getBoundingClientRect();
        if (box.width && box.right > right) out.push(`${element.tagName}.${element.className}`);
    }
    return out.concat(root.scrollWidth > root.clientWidth ? [`root: ${root.scrollWidth}`] : []);
}
"""

# Text that is cut off without an ellipsis: buttons whose content does not fit.
CUT = """
(root) => [...root.querySelectorAll('button:not(.gn):not(.gx):not(.tile)')]
    .filter((b) => b.offsetWidth && b.scrollWidth > b.clientWidth + 1)
    .map((b) => b.getAttribute('aria-label') || b.textContent)
"""

UNNAMED = """
(root) => [...root.querySelectorAll('button, input, select, [role=progressbar], [role=tab], [role=radio]')]
    .filter((e) => e.offsetWidth)
    .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
    .map((e) => e.outerHTML.slice(0, 120))
"""


@pytest.fixture(autouse=True)
def light_theme_afterwards(lab: Lab) -> Iterator[None]:
    """The server remembers a theme: the next test finds the one it expects."""
    yield
    lab.tabs[0].set_theme(dark=False)


def test_every_width_in_both_themes(lab: Lab) -> None:
    view = open_training(lab, watch=("stem", "blocks.0.conv1", "act", "fc"), viewport=(2200, 1500))
    view.press("p")
    view.stands("epoch 1/3·val·before batch 1/2")
    for theme in ("light", "dark"):
        view.tab.set_theme(dark=theme == "dark")
        expect(view.root).to_have_attribute("data-theme", theme)
        for width in WIDTHS:
            check_width(view, width, f"{theme}-{width}")


def check_width(view: View, width: int, name: str) -> None:
    view.root.evaluate(NARROW, width)
    view.page.wait_for_function(
        "([root, width]) => root.clientWidth === width", arg=[view.root.element_handle(), width]
    )
    view.root.scroll_into_view_if_needed()
    expect(view.tile("stem", 0)).to_be_visible()
    settled(view)
    assert view.root.evaluate(OVERFLOWING) == [], width
    assert view.root.evaluate(CUT) == [], width
    assert view.root.evaluate(UNNAMED) == [], width
    picture(view, name)
    if width > 720:
        return
    view.root.get_by_role("tab", name="Graph").click()
    expect(view.node("stem")).to_be_visible()
    settled(view)
    assert view.root.evaluate(OVERFLOWING) == [], width
    picture(view, f"{name}-graph")
    view.root.get_by_role("tab", name="Layers").click()


def test_states_and_panels(lab: Lab) -> None:
    view = open_training(lab, watch=("stem", "fc"), viewport=(1600, 1300))
    view.tab.set_theme(dark=True)
    view.root.evaluate(NARROW, 1080)
    view.tile("stem", 4).click()
    expect(view.tensor("stem").locator(".zoom")).to_be_visible()
    view.root.get_by_role("searchbox", name="Filter layers").fill("conv*")
    expect(view.root.locator(".gfound")).to_be_visible()
    view.tile("stem", 2).locator(".face").hover(position={"x": 20, "y": 20})
    picture(view, "dark-magnified")
    view.button("Step options").click()
    picture(view, "dark-menu")
    view.root.get_by_role("menuitem", name="Run until").click()
    picture(view, "dark-until")
    view.page.keyboard.press("Escape")
    view.button("Settings").click()
    picture(view, "dark-settings")
    view.page.keyboard.press("Escape")
    view.press("?")
    picture(view, "dark-keys")
    view.page.keyboard.press("Escape")
    view.node("blocks.0.conv1").hover()
    picture(view, "dark-hover")
    view.tab.execute("gate.clear()")
    view.press("r")
    view.stop.click()
    expect(view.stop).to_have_attribute("aria-busy", "true")
    expect(view.code).to_have_text("session.stop()")
    picture(view, "dark-queued")
    view.tab.execute("gate.set()")
    expect(view.pill).to_have_text("paused")
    view.tab.restart_kernel()
    expect(view.pill).to_have_text("kernel gone")
    picture(view, "dark-gone")


def test_first_notebook(lab: Lab) -> None:
    """The notebook of `make demo`, as someone meets it; its picture is the one in the README."""
    shutil.copytree(NOTEBOOKS / "data", lab.server.root / "data", dirs_exist_ok=True)
    shutil.copy(NOTEBOOKS / "01_first_steps.ipynb", lab.server.root)
    tab = lab.open("01_first_steps.ipynb", viewport=(1800, 1200))
    tab.run_all()
    view = View(tab)
    view.stands("epoch 1/6·train·batch 1/110")
    view.root.scroll_into_view_if_needed()
    view.root.evaluate(NARROW, 1280)
    view.node("stage1.0.relu1").click()
    expect(view.cards).to_have_count(4)
    for batch in range(2, 6):
        view.step.click()
        view.stands(f"epoch 1/6·train·batch {batch}/110")
    view.root.scroll_into_view_if_needed()
    view.tile("stage1.0.conv1", 3).click()
    view.point("stage1.0.conv1", 3, 12, 7, scale=2, kind="activations")
    assert view.root.evaluate(OVERFLOWING) == []
    picture(view, "first-notebook")


def settled(view: View) -> None:
    """Wait for two frames, after which sizes that observers set are drawn."""
    view.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))"
    )


def picture(view: View, name: str) -> None:
    settled(view)
    view.root.screenshot(path=view.tab.screenshot(name))
