"""The input pane in JupyterLab: samples, painting, what a change leads to, pinning, receptive fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.input_nets import INPUT_LOOP, NETS
from tests.browser.test_looks import CUT, NARROW, OVERFLOWING, UNNAMED, picture
from tests.browser.training import DASHBOARD, LAUNCH, START, View, open_training, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator

    from tests.browser.lab import Lab

PIXEL = "(canvas, [row, column]) => canvas.getContext('2d').getImageData(column, row, 1, 1).data[0]"

TALL = "(body) => body.style.setProperty('--body-h', '1080px')"


@pytest.fixture(autouse=True)
def light_theme_afterwards(lab: Lab) -> Iterator[None]:
    """The server remembers a theme: the next test finds the one it expects."""
    yield
    lab.tabs[0].set_theme(dark=False)


class Pane:
    """The input pane of a dashboard that trains one of `NETS`."""

    def __init__(self, lab: Lab, kind: str, *, width: int = 1280) -> None:
        net, watch = NETS[kind]
        self.view = open_training(lab, net=net, loop=INPUT_LOOP, watch=watch, viewport=(2200, 1500))
        self.view.root.evaluate(NARROW, width)
        self.view.root.locator(".body").evaluate(TALL)
        self.root = self.view.root.get_by_role("region", name="Inputs")
        self.canvas = self.root.locator(".ipic canvas")
        self.state = self.root.locator(".istate")
        self.thumbs = self.root.get_by_role("radiogroup", name="Samples", exact=True)
        self.sample = self.view.root.get_by_role("spinbutton", name="Sample in the batch")
        expect(self.root.locator(".ihead")).to_contain_text("epoch 1, train, batch 1")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def place(self, row: int, column: int, *, size: int = 28) -> tuple[float, float]:
        """Where a pixel lies on the page."""
        box = self.canvas.bounding_box()
        assert box is not None
        scale = box["width"] / size
        return box["x"] + (column + 0.5) * scale, box["y"] + (row + 0.5) * scale

    def drag(self, *places: tuple[int, int], size: int = 28) -> None:
        """Press at the first pixel, move over the others, and let go."""
        mouse = self.view.page.mouse
        mouse.move(*self.place(*places[0], size=size))
        mouse.down()
        for place in places[1:]:
            mouse.move(*self.place(*place, size=size), steps=4)
        mouse.up()

    def pixel(self, row: int, column: int) -> int:
        """What is drawn there, 0 to 255."""
        found: int = self.canvas.evaluate(PIXEL, [row, column])
        return found

    def changed(self, text: str) -> None:
        """Wait until so many changes are made, and the probe has run."""
        expect(self.state).to_have_text(text)
        expect(self.root.get_by_role("progressbar", name="The probe is computing")).to_be_hidden()

    def moved(self, layer: str, text: str) -> None:
        """Wait until the graph says so of a layer."""
        expect(self.view.node(layer)).to_have_attribute("aria-label", re.compile(text))


def test_a_sample_is_chosen_here_and_in_the_bar(lab: Lab) -> None:
    pane = Pane(lab, "image")
    expect(pane.thumbs.get_by_role("radio")).to_have_count(12)
    expect(pane.root).to_contain_text("first 12 of 40")
    # The largest loss comes first, and the pane, the bar and the cards mean the same sample.
    first = pane.thumbs.get_by_role("radio").first
    name = first.get_attribute("aria-label") or ""
    worst = pane.view.tab.evaluate(
        "int(F.cross_entropy(session.snapshot.activations['fc'], data[0][1], reduction='none').argmax())"
    )
    assert name.startswith(f"sample {worst}, label ")
    first.click()
    expect(first).to_have_attribute("aria-checked", "true")
    expect(pane.sample).to_have_value(str(worst))
    expect(pane.root.locator(".ihead")).to_contain_text(f"sample {worst} of 40")
    pane.view.point("conv1", 2, 5, 6, scale=2, kind="activations")
    shown = value_of(pane.view.readout("conv1"))
    held = f"session.snapshot.activations['conv1'][{worst}, 2, 5, 6].item()"
    assert shown == pytest.approx(pane.view.tab.evaluate(held), rel=1e-3)
    pane.sample.fill("7")
    pane.sample.press("Enter")
    expect(pane.root.locator(".ihead")).to_contain_text("sample 7 of 40")
    # In the order of the batch, a page further; arrow keys choose.
    pane.root.get_by_role("radio", name="Batch").click()
    expect(pane.thumbs.get_by_role("radio").first).to_have_attribute("aria-label", re.compile("^sample 0,"))
    pane.button("Next samples").click()
    expect(pane.root).to_contain_text("13\u201324 of 40")
    pane.thumbs.get_by_role("radio").first.focus()
    pane.view.page.keyboard.press("ArrowRight")
    expect(pane.sample).to_have_value("13")


def test_a_painted_pixel_is_seen_at_once_and_followed_through_the_layers(lab: Lab) -> None:
    pane = Pane(lab, "image")
    before = pane.pixel(1, 2)
    assert before < 255
    pane.view.page.mouse.move(*pane.place(1, 2))
    pane.view.page.mouse.down()
    assert pane.pixel(1, 2) == 255  # before the kernel can have answered
    pane.view.page.mouse.up()
    pane.changed("1 change")
    expect(pane.view.code).to_have_text(
        "session.add_perturbation('image', sample=0, index=(1, 2), values=1.0)"
    )
    assert pane.pixel(1, 2) == 255
    pane.moved("conv1", r"[1-9<].* of units changed")
    pane.moved("fc", "100 % of units changed")
    card = pane.view.card("conv1")
    expect(card.locator(".probed")).to_contain_text("perturbed minus original")
    pane.view.point("conv1", 2, 1, 2, scale=2, kind="activations")
    layer = "session.probe_result.{}['conv1'][0].leaves[0].activation[0, 2, 1, 2].item()"
    after, plain = (pane.view.tab.evaluate(layer.format(which)) for which in ("perturbed", "layers"))
    assert value_of(pane.view.readout("conv1")) == pytest.approx(after - plain, rel=1e-3)
    card.get_by_role("radio", name="Perturbed").click()
    expect(pane.view.card("conv2").get_by_role("radio", name="Perturbed")).to_have_attribute(
        "aria-checked", "true"
    )
    expect(card.locator(".probed")).not_to_contain_text("minus")
    pane.view.point("conv1", 2, 1, 2, scale=2, kind="activations")
    assert value_of(pane.view.readout("conv1")) == pytest.approx(after, rel=1e-3)
    # The input as it was; then it is as it was.
    pane.button("Original").click()
    expect(pane.root).to_contain_text("nothing can be painted on it")
    pane.view.page.wait_for_function(
        f"([canvas]) => ({PIXEL})(canvas, [1, 2]) === {before}", arg=[pane.canvas.element_handle()]
    )
    pane.button("Original").click()
    pane.button("Undo").click()
    pane.changed("unmodified")
    expect(card.locator(".probed")).to_be_hidden()
    expect(pane.view.node("conv1")).not_to_have_attribute("aria-label", re.compile("changed"))
    assert pane.pixel(1, 2) == before


def test_a_stroke_is_one_change_and_the_eraser_puts_back(lab: Lab) -> None:
    pane = Pane(lab, "image")
    plain = [pane.pixel(3, column) for column in range(28)]
    pane.root.get_by_role("combobox", name="Brush size").select_option("2")
    pane.button("Grey").click()
    pane.drag((3, 2), (3, 12), (8, 12))
    pane.changed("1 change")
    assert pane.pixel(3, 7) == pane.pixel(4, 7) == 128
    count = pane.view.tab.evaluate("len(session.perturbations[0].index[0])")
    assert count == 2 * 12 + 5 * 2  # two rows of twelve, then five further ones of two
    pane.button("Eraser").click()
    pane.drag((3, 4), (3, 6))
    pane.changed("2 changes")
    assert pane.pixel(3, 5) == plain[5]
    assert pane.pixel(3, 9) == 128
    same = "(session.probe.inputs()['image'][0, 0, 3, 4:8] == data[0][0][0, 0, 3, 4:8]).all().item()"
    assert pane.view.tab.evaluate(same) is True
    pane.button("Clear all changes").click()
    pane.changed("unmodified")
    assert [pane.pixel(3, column) for column in range(28)] == plain


def test_painting_by_keyboard(lab: Lab) -> None:
    pane = Pane(lab, "image")
    pane.canvas.focus()
    keyboard = pane.view.page.keyboard
    keyboard.press("ArrowUp")
    keyboard.press("Shift+ArrowLeft")
    reading = pane.root.locator(".iread")
    expect(reading).to_contain_text("(13, 9) \u2248 ")
    keyboard.press("Space")
    expect(reading).to_have_text("(13, 9) \u2248 1.00")
    pane.changed("1 change")
    assert pane.view.tab.evaluate("session.perturbations[0].index") == ((13,), (9,))
    # Nothing of the notebook or the dashboard takes these keys.
    pane.view.stands("epoch 1/3\u00b7train\u00b7batch 1/6")


def test_a_whole_sample_is_changed(lab: Lab) -> None:
    pane = Pane(lab, "colour")
    pane.root.get_by_role("textbox", name="Standard deviation of the noise").fill("0.5")
    pane.button("Add noise").click()
    pane.changed("1 change")
    pane.root.get_by_role("combobox", name="Channel to set to zero").select_option("1")
    pane.button("Zero").click()
    pane.changed("2 changes")
    changes = pane.root.get_by_role("list", name="Changes").get_by_role("listitem")
    expect(changes).to_have_count(2)
    expect(changes.nth(0)).to_contain_text("noise=0.5")
    expect(changes.nth(1)).to_contain_text("channel=1")
    assert pane.view.tab.evaluate("session.probe.inputs()['image'][0, 1].abs().max().item()") == 0
    # One channel alone is painted alone.
    pane.root.get_by_role("combobox", name="Channel of the input").select_option("2")
    expect(pane.root.get_by_role("slider", name="Level of the brush")).to_be_visible()
    pane.drag((1, 1), size=32)
    pane.changed("3 changes")
    assert pane.view.tab.evaluate("session.perturbations[2].channel") == (2,)


def test_without_changes_the_original_is_not_shown_for_itself(lab: Lab) -> None:
    pane = Pane(lab, "image")
    pane.drag((3, 3), (3, 6))
    pane.changed("1 change")
    pane.button("Original").click()
    expect(pane.button("Original")).to_have_attribute("aria-pressed", "true")
    pane.button("Clear all changes").click()
    pane.changed("unmodified")
    expect(pane.button("Original")).to_be_hidden()
    pane.drag((5, 3), (5, 6))
    pane.changed("1 change")
    # Ctrl+Z, where the focus is after a stroke.
    pane.canvas.focus()
    pane.view.page.keyboard.press("Control+z")
    pane.changed("unmodified")


def test_a_batch_is_pinned_and_let_go(lab: Lab) -> None:
    pane = Pane(lab, "image")
    pane.button("Pin").click()
    expect(pane.button("Pin")).to_have_attribute("aria-pressed", "true")
    expect(pane.view.code).to_have_text("session.pin_current_batch()")
    for batch in (2, 3):
        pane.view.step.click()
        pane.view.stands(f"epoch 1/3\u00b7train\u00b7batch {batch}/6")
    expect(pane.root.locator(".ihead")).to_contain_text("pinned: epoch 1, train, batch 1")
    curve = pane.root.get_by_role("img", name=re.compile("^loss of this sample at [23] updates, from "))
    expect(curve).to_be_visible()
    expect(pane.view.card("conv1").locator(".probed")).to_contain_text("pinned")
    expect(pane.view.card("conv1").get_by_role("radio", name="Difference")).to_be_hidden()
    pane.button("Unpin").click()
    expect(curve).to_be_hidden()
    expect(pane.root.locator(".ihead")).to_contain_text("epoch 1, train, batch 3")
    expect(pane.view.card("conv1").locator(".probed")).to_be_hidden()


def test_the_mode_of_the_forward(lab: Lab) -> None:
    pane = Pane(lab, "image")
    modes = pane.root.get_by_role("radiogroup", name="Forward mode")
    expect(modes.get_by_role("radio", name="Unchanged")).to_have_attribute("aria-checked", "true")
    modes.get_by_role("radio", name="Eval").click()
    expect(pane.view.code).to_have_text("session.set_probe_mode('eval')")
    assert pane.view.tab.evaluate("session.probe_mode") == "eval"
    expect(modes.get_by_role("radio", name="Eval")).to_have_attribute("aria-checked", "true")


def test_channels_are_silenced_and_fields_measured(lab: Lab) -> None:
    pane = Pane(lab, "image")
    pane.view.tile("conv2", 3).click()
    card = pane.view.card("conv2")
    opener = card.get_by_role("button", name="Channel 3 of conv2")
    opener.click()
    expect(card.get_by_role("menuitem", name="Receptive field: click a value first")).to_be_disabled()
    card.get_by_role("menuitem", name="Silence channel").click()
    pane.changed("1 change")
    assert pane.view.tab.evaluate(
        "(session.probe_result.perturbed['conv2'][0].leaves[0].activation[:, 3] == 0).all().item()"
    )
    pane.moved("conv1", "0 % of units changed")
    opener.click()
    card.get_by_role("textbox", name="Value in place of the channel's").fill("2.5")
    card.get_by_role("textbox", name="Value in place of the channel's").press("Enter")
    pane.changed("2 changes")
    pane.button("Clear all changes").click()
    pane.changed("unmodified")
    # A value is chosen in the magnifier, here by keyboard.
    magnified = card.get_by_role("img", name=re.compile("^Activations channel 3, magnified"))
    magnified.focus()
    pane.view.page.keyboard.press("ArrowDown")
    pane.view.page.keyboard.press("Enter")
    opener.click()
    card.get_by_role("menuitem", name=re.compile(r"^Receptive field of \(\d+, \d+\)$")).click()
    field = pane.root.get_by_role("region", name="Receptive field")
    expect(field).to_contain_text("conv2, channel 3 at (")
    expect(field).to_contain_text(re.compile(r"in theory 5\u00d75: rows \d+\u2013\d+, columns \d+\u2013\d+"))
    expect(field).to_contain_text(re.compile(r"measured 5\u00d75: "), timeout=30_000)
    expect(field.get_by_role("img", name=re.compile("^Sensitivity of conv2"))).to_be_visible()
    expect(pane.root.locator(".iover .itheory")).to_have_count(2)
    expect(pane.root.locator(".iover .imeasured")).to_have_count(2)
    picture(pane.view, "inputs-field")
    pane.button("Clear the receptive field").click()
    expect(field).to_be_hidden()
    expect(pane.root.locator(".iover .itheory")).to_have_count(0)


def test_tokens_are_replaced(lab: Lab) -> None:
    pane = Pane(lab, "tokens")
    chips = pane.root.get_by_role("list", name="Tokens").get_by_role("listitem")
    expect(chips).to_have_count(16)
    chip = chips.nth(2)
    old = int(chip.inner_text())
    chip.get_by_role("button").click()
    field = pane.root.get_by_role("spinbutton", name="Id of token 2")
    expect(field).to_be_focused()
    field.press("Escape")
    expect(chip).to_have_text(str(old))
    chip.get_by_role("button").click()
    field.fill(str((old + 1) % 50))
    field.press("Enter")
    pane.changed("1 change")
    expect(chip.get_by_role("button", name=f"token 2: id {(old + 1) % 50}, replaced")).to_be_visible()
    pane.moved("embedding", "of units changed")
    # One that the embedding does not have: what the forward says of it is said here.
    chip.get_by_role("button").click()
    field.fill("5000")
    field.press("Enter")
    expect(pane.root.get_by_role("alert")).to_contain_text("range")
    pane.button("Undo").click()
    expect(pane.root.get_by_role("alert")).to_be_hidden()
    # What the model attends to is another input; a token can be taken away there from here.
    pane.button("Clear all changes").click()
    chips.nth(5).get_by_role("button").click()
    pane.root.get_by_role("button", name="Mask token 5").click()
    pane.changed("1 change")
    pane.moved("embedding", "0 % of units changed")
    pane.moved("head", "100 % of units changed")
    assert pane.view.tab.evaluate("session.perturbations[0].target") == "attention_mask"


def test_features_are_dragged_and_typed(lab: Lab) -> None:
    pane = Pane(lab, "flat")
    bars = pane.root.get_by_role("application", name=re.compile("^Features"))
    box = bars.bounding_box()
    assert box is not None
    x, y = box["x"] + 2.5 * box["width"] / 13, box["y"] + box["height"] / 2
    mouse = pane.view.page.mouse
    old = pane.view.tab.evaluate("data[0][0][0, 2].item()")
    mouse.move(x, y)
    mouse.down()
    mouse.move(x, y - 10, steps=3)
    mouse.up()
    pane.changed("1 change")
    new = pane.view.tab.evaluate("session.probe.inputs()['table'][0, 2].item()")
    assert new > old + 0.3
    pane.root.get_by_role("spinbutton", name="Feature").fill("5")
    value = pane.root.get_by_role("textbox", name="Value of the feature")
    value.fill("-1.5")
    value.press("Enter")
    pane.changed("2 changes")
    assert pane.view.tab.evaluate("session.probe.inputs()['table'][0, 5].item()") == -1.5
    expect(pane.root.get_by_role("region", name="Prediction")).to_contain_text("without the perturbations")


def test_two_inputs(lab: Lab) -> None:
    pane = Pane(lab, "two")
    pane.drag((2, 2), (2, 8), size=20)
    pane.changed("1 change")
    pane.root.get_by_role("combobox", name="Input", exact=True).select_option("meta")
    expect(pane.canvas).to_be_hidden()
    expect(pane.root).to_contain_text("40 features")
    pane.button("Add noise").click()
    pane.changed("2 changes")
    assert pane.view.tab.evaluate("[one.target for one in session.perturbations]") == ["image", "meta"]


def test_reload_lock_and_a_kernel_that_is_gone(lab: Lab) -> None:
    pane = Pane(lab, "image")
    pane.drag((3, 3), (6, 9))
    pane.changed("1 change")
    pane.view.tab.reload()
    pane.view.root.scroll_into_view_if_needed()
    pane.view.root.evaluate(NARROW, 1280)
    pane.view.root.locator(".body").evaluate(TALL)
    pane.changed("1 change")
    assert pane.pixel(3, 3) == 255
    pane.drag((12, 3), (12, 9))
    pane.changed("2 changes")
    pane.view.tab.execute("session.lock()")
    for name in ("Brush", "Undo", "Pin"):
        expect(pane.button(name)).to_be_disabled()
    expect(pane.root).to_contain_text("locked")
    pane.view.tab.restart_kernel()
    expect(pane.button("Brush")).to_be_disabled()
    expect(pane.root).to_contain_text("There is no kernel to ask.")
    assert pane.pixel(12, 5) == 255


def test_the_pane_is_folded_and_sized(lab: Lab) -> None:
    pane = Pane(lab, "image")
    width = pane.canvas.bounding_box()
    assert width is not None
    assert width["width"] == 7 * 28
    edge = pane.view.root.get_by_role("separator", name="Width of the input pane")
    edge.focus()
    for _ in range(4):
        pane.view.page.keyboard.press("ArrowLeft")
    expect(pane.canvas).to_have_js_property("offsetWidth", 11 * 28)
    pane.view.button("Input pane").click()
    expect(pane.root).to_be_hidden()
    expect(edge).to_be_hidden()
    pane.view.button("Input pane").click()
    expect(pane.root).to_be_visible()


@pytest.mark.parametrize("kind", list(NETS))
def test_every_width_in_both_themes(lab: Lab, kind: str) -> None:
    pane = Pane(lab, kind)
    view = pane.view
    pane.button("Pin").click()
    view.step.click()
    view.stands("epoch 1/3\u00b7train\u00b7batch 2/6")
    if kind in ("image", "colour", "two"):
        pane.drag((3, 3), (10, 12), (16, 5), size={"image": 28, "colour": 32, "two": 20}[kind])
    elif kind == "tokens":
        pane.root.get_by_role("list", name="Tokens").get_by_role("button").nth(2).click()
        view.page.keyboard.type("7")
        view.page.keyboard.press("Enter")
    else:
        pane.button("Add noise").click()
    pane.changed("1 change")
    for theme in ("light", "dark"):
        view.tab.set_theme(dark=theme == "dark")
        expect(view.root).to_have_attribute("data-theme", theme)
        for width in (250, 720, 1000, 1600):
            view.root.evaluate(NARROW, width)
            if width <= 720:
                view.root.get_by_role("tab", name="Input").locator("visible=true").click()
            expect(pane.state).to_be_visible()
            view.page.wait_for_timeout(300)
            assert view.root.evaluate(OVERFLOWING) == [], width
            assert view.root.evaluate(CUT) == [], width
            assert view.root.evaluate(UNNAMED) == [], width
            picture(view, f"inputs-{kind}-{theme}-{width}")


def test_the_pane_alone_in_a_cell(lab: Lab) -> None:
    net, _ = NETS["image"]
    cells = [net + INPUT_LOOP, START, LAUNCH, "session.inputs()", DASHBOARD]
    tab = lab.open(lab.write_notebook(cells), viewport=(1600, 1900))
    tab.run_all()
    alone, dashboard = View(tab), View(tab, 1)
    alone.root.scroll_into_view_if_needed()
    state = alone.root.locator(".istate")
    expect(state).to_have_text("unmodified")
    expect(alone.root.get_by_role("radiogroup", name="Samples", exact=True)).to_be_visible()
    alone.root.get_by_role("button", name="Add noise").click()
    expect(state).to_have_text("1 change")
    for width in (250, 700, 1100):
        alone.root.evaluate(NARROW, width)
        tab.page.wait_for_timeout(300)
        assert alone.root.evaluate(OVERFLOWING) == [], width
        assert alone.root.evaluate(CUT) == [], width
        picture(alone, f"inputs-alone-{width}")
    # What is changed is the session's: the dashboard has it too.
    dashboard.root.scroll_into_view_if_needed()
    expect(dashboard.root.locator(".istate")).to_have_text("1 change")
    expect(dashboard.root.get_by_role("button", name="conv1 Conv2d", exact=False)).to_have_attribute(
        "aria-label", re.compile("of units changed")
    )
