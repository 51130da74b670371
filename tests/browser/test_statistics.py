"""Statistics in JupyterLab: what a card's Histogram says is what was collected, and it stays where it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_life import saved_states
from tests.browser.test_looks import CUT, NARROW, OVERFLOWING, UNNAMED
from tests.browser.training import LAUNCH, LOOP, NET, START, View, open_training

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab


IDLE = START + "\nsession.set_stats_scope('none')"
"""Collects no statistics."""

BOXES = """
(card) => [...card.querySelectorAll('*:not(svg *)')].filter((e) => e.getClientRects().length).map((e) => {
    const box = e.getBoundingClientRect(), origin = card.getBoundingClientRect();
    const place = [box.x - origin.x, box.y - origin.y, box.width, box.height];
    return `${e.tagName}.${e.classList[0]} ${place.join(' ')}`;
})
"""
"""Where everything in a card lies, texts and marks inside pictures left out."""


def open_statistics(lab: Lab, *layers: str, **options: Any) -> tuple[View, Locator]:
    """A dashboard with statistics, and the card of the first layer, which shows its histogram."""
    options.setdefault("viewport", (1900, 1300))  # a table of one row an epoch
    view = open_training(lab, watch=layers, start=START, **options)
    card = view.card(layers[0])
    card.get_by_role("tab", name="Histogram").click()
    expect(card.get_by_role("table")).to_be_visible()
    return view, card


def row(card: Locator, label: str) -> Locator:
    return card.get_by_role("row").filter(has=card.page.get_by_label(f"Draw {label}", exact=True))


WIDE = NET.replace("model = Net()", "model = Net(40)").replace(
    "model.stem.weight[3], model.stem.bias[3] = 0, -1", "model.stem.weight[33], model.stem.bias[33] = 0, -1"
)


@pytest.mark.parametrize(("net", "dead"), [(NET, 3), (WIDE, 33)])
def test_a_dead_channel_is_found_in_two_clicks(lab: Lab, net: str, dead: int) -> None:
    view = open_training(lab, net=net, watch=("act",), start=IDLE)
    card = view.card("act")
    card.get_by_role("tab", name="Histogram").click()
    card.get_by_role("radio", name="dead").click()
    # In the current batch, with nothing collected; that is said, with the one action that helps.
    expect(card.get_by_text("Statistics over whole epochs are not collected yet.")).to_be_visible()
    expect(row(card, "current batch")).to_contain_text("1/8" if dead == 3 else "1/40")
    if dead == 3:
        expect(card.locator(".rmarks")).to_have_text("3 dead")
        expect(card.locator(".rlabels")).to_have_text("3")
        expect(card.get_by_role("slider", name="Rows of 1 channels of act; dead: 3")).to_be_visible()
    else:  # it has no row of its own, and is named all the same
        text = "dead, without a row: 33 \u00b7 first 16 of 40 channels have rows"
        expect(card.locator(".rows .foot")).to_contain_text(text)
    card.get_by_role("button", name="Collect statistics").click()
    expect(view.code).to_have_text("session.set_stats_scope('watched')")
    expect(card.get_by_text("step or run")).to_be_visible()
    view.press("n")
    # It goes over to the phase in training as soon as that has statistics.
    expect(card.get_by_label("Draw train \u00b7 epoch 1")).to_be_checked()
    expect(card.locator(".offer")).to_be_hidden()


def test_a_finished_epoch_stays_and_is_compared(lab: Lab) -> None:
    view, card = open_statistics(lab, "act")
    expect(row(card, "train \u00b7 epoch 1")).to_contain_text("1 of 6 so far")
    view.press("e")
    view.stands("epoch 2/3\u00b7train\u00b7before batch 1/6")
    view.press("n")
    expect(row(card, "train \u00b7 epoch 2")).to_contain_text("1 of 6 so far")
    card.get_by_label("Draw train \u00b7 epoch 1").check()
    facts = card.locator(".hpanel[data-kind=activations] .sh")
    expect(facts).to_contain_text(f"{6 * 4 * 8 * 14 * 14:,} values")
    held = view.tab.evaluate("session.watch_snapshot().stats['act', 'train', 0].activations.max")
    expect(row(card, "train \u00b7 epoch 1")).to_contain_text(f"{held:.2f}")
    # One click compares; the outline appears beside the filled bars.
    outline = card.locator("[data-kind=activations] .hother")
    assert not outline.get_attribute("d")
    card.get_by_label("Compare with train \u00b7 epoch 2").check()
    expect(outline).to_have_attribute("d", re.compile("M"))
    expect(card.locator(".hlegend")).to_have_text("train \u00b7 epoch 1train \u00b7 epoch 2")
    # The choice holds when more batches come, and in another tab and back.
    view.press("n")
    expect(row(card, "train \u00b7 epoch 2")).to_contain_text("2 of 6 so far")
    expect(card.get_by_label("Draw train \u00b7 epoch 1")).to_be_checked()
    view.press("n")
    card.get_by_role("tab", name="Strips").click()
    expect(view.tiles("act")).to_have_count(8)
    card.get_by_role("tab", name="Histogram").click()
    expect(row(card, "train \u00b7 epoch 2")).to_contain_text("3 of 6 so far")
    expect(card.get_by_label("Compare with train \u00b7 epoch 2")).to_be_checked()


def test_nothing_moves_between_two_updates(lab: Lab) -> None:
    view, card = open_statistics(lab, "act", "fc")
    view.press("n")
    expect(row(card, "train \u00b7 epoch 1")).to_contain_text("2 of 6")
    before = card.evaluate(BOXES)
    card.evaluate(
        "(card) => { window.elements = new Set(card.querySelectorAll('.hpanel, .stats *, svg, canvas')); }"
    )
    view.press("n")
    expect(row(card, "train \u00b7 epoch 1")).to_contain_text("3 of 6")
    assert card.evaluate(BOXES) == before
    assert card.evaluate("(card) => [...window.elements].every((e) => card.contains(e))")
    # Nor does a reading move anything.
    card.get_by_role("slider", name="Bars of activations").press("End")
    expect(card.locator("[data-kind=activations] .hro")).to_contain_text("values")
    assert card.evaluate(BOXES) == before


def test_bars_are_read_by_pointer_and_keyboard(lab: Lab) -> None:
    view, card = open_statistics(lab, "act")
    bars = card.get_by_role("slider", name="Bars of activations")
    readout = card.locator("[data-kind=activations] .hro")
    bars.press("ArrowRight")
    n = 4 * 8 * 14 * 14
    zeros = view.tab.evaluate("int((session.snapshot.activations['act'] == 0).sum())")
    share = f"{100 * zeros / n:.0f}%"
    text = f"zero: {zeros:,} values, {share}"
    expect(readout).to_have_text(f"{text} \u00b7 samples are known for the current batch only")
    expect(bars).to_have_attribute("aria-valuetext", text)
    expect(card.locator("[data-kind=activations] .hzt")).to_have_text(f"{share} zero")
    # Of the current batch the kernel says which samples a bar holds.
    card.get_by_label("Draw current batch").check()
    expect(card.get_by_label("Draw current batch")).to_be_checked()
    bars.press("End")
    expect(readout).to_contain_text("of 4 samples: ")
    match = re.match(r"\[([\d.e-]+), ([\d.e-]+)\): ([\d,]+) values?, .* in (\d) of 4", readout.inner_text())
    assert match is not None, readout.inner_text()
    low, high, count, samples = match.groups()
    tensor = "session.snapshot.activations['act']"
    inside = f"(({tensor} >= {low}) & ({tensor} < {high}))"
    assert view.tab.evaluate(f"int({inside}.sum())") == int(count)
    assert view.tab.evaluate(f"int({inside}.flatten(1).any(1).sum())") == int(samples)
    bars.hover(position={"x": 14, "y": 80})
    expect(readout).to_contain_text("zero: ")
    # Rows of channels too.
    rows = card.get_by_role("slider", name=re.compile("^Rows of 8 channels"))
    for _ in range(4):
        rows.press("ArrowDown")
    expect(card.locator(".rows .hro")).to_have_text("channel 3: dead, every value was zero")
    # Keys choose the view of the card that has the focus.
    card.get_by_role("tab", name="Histogram").press("1")
    expect(view.tiles("act")).to_have_count(8)
    card.press("2")
    expect(bars).to_be_visible()
    card.get_by_role("tab", name="Histogram").press("ArrowLeft")
    expect(card.get_by_role("tab", name="Strips")).to_be_focused()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_width_and_both_themes(lab: Lab, dark: bool) -> None:
    view, card = open_statistics(lab, "act", viewport=(1800, 1300))
    view.tab.set_theme(dark=dark)
    try:
        fills = set()
        for width in (250, 320, 720, 900, 1600):
            view.root.evaluate(NARROW, width)
            expect(card.locator("[data-kind=activations] .hfill")).to_be_visible()
            view.page.wait_for_timeout(300)
            assert view.root.evaluate(OVERFLOWING) == [], width
            assert view.root.evaluate(CUT) == [], width
            assert view.root.evaluate(UNNAMED) == [], width
            stats = card.locator(".stats")
            assert stats.evaluate("(e) => e.scrollWidth <= e.clientWidth"), width
            picture = card.locator(".hpanel[data-kind=activations] svg").bounding_box()
            assert picture is not None
            fills.add(round(picture["width"]))
        assert len(fills) == 5  # the plots follow the width
        expect(card.get_by_label("View of act").locator("visible=true")).to_have_count(1)
    finally:
        view.tab.set_theme(dark=False)


def test_histogram_alone_in_a_cell(lab: Lab) -> None:
    path = lab.write_notebook([NET + LOOP, IDLE, "session.histogram('stem')"])
    tab = lab.open(path, viewport=(1600, 1600))
    tab.run_all()
    alone = View(tab)
    # Before the first batch it says so, and what would help.
    expect(alone.root.get_by_text("no batch has been captured yet")).to_be_visible()
    alone.root.get_by_role("button", name="Collect statistics").click()
    expect(alone.root.get_by_text("step or run")).to_be_visible()
    assert tab.evaluate("bool(session.launch(train))")
    card = alone.card("stem")
    expect(card.get_by_label("Draw train \u00b7 epoch 1")).to_be_checked()
    expect(card.locator("[data-kind=gradients] .hfill")).to_have_attribute("d", re.compile("M"))
    expect(alone.root.get_by_role("tab")).to_have_count(0)
    expect(alone.root.get_by_label("Sample in the batch")).to_be_hidden()


def figures(card: Locator) -> Locator:
    """Figures of curves that have been drawn."""
    return card.locator("figure").filter(has=card.page.locator("svg .axis"))


def test_curves_are_bqplot_figures_that_change_in_place(lab: Lab) -> None:
    view = open_training(lab, watch=("stem", "act"), start=START, viewport=(1600, 1800))
    view.root.locator(".body").evaluate("(body) => body.style.setProperty('--body-h', '1600px')")
    card = view.card("stem")
    card.get_by_role("tab", name="Curves").click()
    expect(figures(card)).to_have_count(7, timeout=60_000)  # bqplot and pandas are imported
    expect(card.locator("figure h4")).to_have_text(
        [
            "Activations",
            "Gradients",
            "Dead channels",
            "stem.weight",
            "stem.bias",
            "Gradient norm",
            "Update ratio",
        ]
    )
    expect(card.locator(".clegend")).to_contain_text("train \u00b7 epoch 1: 1 of 6 batches so far")
    card.evaluate("(card) => { window.plots = [...card.querySelectorAll('figure svg')]; }")
    before = card.evaluate(BOXES)
    view.press("n")
    expect(card.locator(".clegend")).to_contain_text("2 of 6")
    assert card.evaluate(BOXES) == before
    view.press("e")
    view.stands("epoch 2/3\u00b7train\u00b7before batch 1/6")
    expect(card.locator(".clegend")).to_contain_text("val")
    # The same pictures with more in them: nothing was taken away and drawn anew.
    assert card.evaluate("(card) => window.plots.every((plot) => card.contains(plot))")
    # Labels of the statistics that are chosen stand at the ends of the lines.
    plot = card.locator("figure[data-figure=activations]")
    expect(plot.get_by_text("median")).to_be_visible()
    card.get_by_role("group", name="Statistics").get_by_label("median").uncheck()
    expect(plot.get_by_text("median")).to_have_count(0)
    card.get_by_role("group", name="Statistics").get_by_label("max").check()
    expect(plot.get_by_text("max")).to_be_visible()
    # Figures are saved as files, numbers read from the session.
    for kind in ("PNG", "SVG"):
        with view.page.expect_download() as download:
            card.get_by_role("button", name=f"Save Activations of stem as {kind}").click()
        assert download.value.suggested_filename == f"stem-activations.{kind.lower()}"
    rows = view.tab.evaluate("session.curves('stem').to_pandas().tensor.value_counts()['activations'].item()")
    assert rows == 2
    # Another tab and back: the figures are there at once; the width is followed.
    card.get_by_role("tab", name="Strips").click()
    expect(view.tiles("stem")).to_have_count(8)
    card.get_by_role("tab", name="Curves").click()
    expect(figures(card).first).to_be_visible()
    for width in (250, 900):
        view.root.evaluate(NARROW, width)
        plot.scroll_into_view_if_needed()
        view.page.wait_for_function(
            "(figure) => Math.abs(figure.querySelector('svg').clientWidth - figure.clientWidth) < 4",
            arg=plot.element_handle(),
        )
        assert view.root.evaluate(OVERFLOWING) == [], width
        assert view.root.evaluate(UNNAMED) == [], width


def test_curves_alone_before_anything_is_collected(lab: Lab) -> None:
    path = lab.write_notebook([NET + LOOP, IDLE, LAUNCH, "session.curves('act')"])
    tab = lab.open(path, viewport=(1600, 1700))
    tab.run_all()
    alone = View(tab)
    expect(alone.root.get_by_text("Statistics over whole epochs are not collected yet.")).to_be_visible()
    alone.root.get_by_role("button", name="Collect statistics").click()
    expect(alone.root.get_by_text("step or run")).to_be_visible()
    before = tab.evaluate("session.pause_count")
    tab.evaluate("session.step_batch()")
    tab.evaluate(f"session.wait_until_paused(after_pauses={before}, timeout=30)")
    expect(figures(alone.card("act"))).to_have_count(3, timeout=60_000)
    expect(alone.root.get_by_role("tab")).to_have_count(0)


def test_saved_histogram_without_a_kernel(lab: Lab) -> None:
    start = START + "\nsession.watch('act')"
    path = lab.write_notebook([NET + LOOP, start, LAUNCH, "session.histogram('act')"])
    tab = lab.open(path, viewport=(1600, 1700))
    tab.run_all()
    expect(View(tab).card("act").get_by_label("Draw train \u00b7 epoch 1")).to_be_checked()
    for _ in range(50):
        tab.save()
        if any(state.get("still", {}).get("cards") for state in saved_states(lab.file(path))):
            break
        tab.page.wait_for_timeout(200)
    tab.page.close()
    lab.server.shut_down_kernels()

    card = View(lab.open(path, viewport=(1600, 1700))).card("act")
    expect(card.get_by_label("Draw train \u00b7 epoch 1")).to_be_checked()
    expect(card.locator("[data-kind=activations] .hfill")).to_have_attribute("d", re.compile("M"))
    expect(card.locator(".rmarks")).to_have_text("3 dead")
    # What is there can still be read; nobody is there to be asked for more.
    card.get_by_role("radio", name="linear x").click()
    card.get_by_role("slider", name="Bars of activations").press("End")
    expect(card.locator("[data-kind=activations] .hro")).to_contain_text("values")
