"""The view model of the Weights view: payloads decoded are the tensors, and what is special is said."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import BatchSnapshot, Session
from nansense_widgets.media.quantise import decode
from nansense_widgets.widgets.shown import ShownOutput
from nansense_widgets.widgets.views.weights import AS_SUGGESTED, WeightsView
from tests.driver import TIMEOUT_S
from tests.widgets.test_messages import Browser


class Trained:
    """A model after some batches of training, paused, and the browser beside it."""

    def __init__(
        self,
        model: nn.Module,
        step: Callable[[], Any],
        *layers: str,
        optimizer: Any = None,
        batches: int = 1,
    ) -> None:
        self.model = model
        self.session: Session = nansense_widgets.start(model, optimizer=optimizer)
        self.session.watch(*layers)

        def loop() -> None:
            for _ in self.session.batches(range(batches + 1), phase="train"):
                step()

        self.session.launch(loop)
        assert self.session.wait_until_paused(timeout=TIMEOUT_S)
        for _ in range(batches - 1):
            before = self.session.pause_count
            self.session.step_batch()
            assert self.session.wait_until_paused(after_pauses=before, timeout=TIMEOUT_S)
        self.browser = Browser(self.session.dashboard())

    @property
    def snapshot(self) -> BatchSnapshot:
        assert self.session.snapshot is not None
        return self.session.snapshot

    def content(self, layer: str, **given: Any) -> tuple[Any, list[bytes]]:
        self.browser.send(type="want", view=f"v{len(self.browser.received)}", cards=[want(layer, **given)])
        message, buffers = self.browser.cards()[-1]
        [found] = message["cards"]
        assert (found["view"], found["failed"]) == ("weights", "")
        return found["content"], buffers

    def panel(self, layer: str, name: str, **given: Any) -> tuple[Any, list[bytes]]:
        content, buffers = self.content(layer, **given)
        [found] = [panel for panel in content["panels"] if panel["name"] == name]
        return found, buffers

    def exact(self, layer: str, ask: dict[str, Any], **given: Any) -> np.ndarray:
        self.browser.send(type="fetch", view="v", req=7, card=want(layer, **given), ask=ask)
        reply, [data] = self.browser.received[-1]
        assert (reply["type"], reply["req"], reply["missing"]) == ("exact", 7, "")
        top, bottom, left, right = reply["window"]
        return np.frombuffer(data, reply["dtype"]).reshape(bottom - top, right - left)

    def end(self) -> None:
        self.session.detach()
        assert self.session.wait(TIMEOUT_S)
        self.session.close()


@pytest.fixture
def trained() -> Any:
    made: list[Trained] = []

    def make(*args: Any, **kwargs: Any) -> Trained:
        made.append(Trained(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.end()


def want(layer: str, **given: Any) -> dict[str, Any]:
    panels = {name: {**AS_SUGGESTED, **chosen} for name, chosen in given.pop("panels", {}).items()}
    options = {"first": 0, "count": 20, "box": [300, 280], "ratio": 1, "scale": "own", "panels": panels}
    return {"layer": layer, "call": 1, "leaf": 0, "view": "weights", "options": options | given}


def strip_of(panel: Any, key: str) -> Any:
    [found] = [strip for strip in panel["strips"] if strip["key"] == key]
    return found


def pixels(strip: Any, buffers: list[bytes]) -> np.ndarray:
    """(tiles, rows, columns) or, in colour, (tiles, rows, columns, 3)."""
    shape = (strip["region"][1], *strip["tile"], *((3,) if strip["colours"] == 3 else ()))
    codes = np.frombuffer(buffers[strip["buffer"]], np.uint8).reshape(shape)
    return decode(codes, strip["scale"])


def close(found: np.ndarray, expected: Any, scale: float) -> None:
    np.testing.assert_allclose(found, np.asarray(expected), atol=scale / 252 * 1.02)


def small() -> tuple[nn.Sequential, Callable[..., Callable[[], None]]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    x = torch.randn(6, 5)

    def stepping(*optimizers: torch.optim.Optimizer) -> Callable[[], None]:
        def step() -> None:
            for optimizer in optimizers:
                optimizer.zero_grad()
            model(x).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()

        return step

    return model, stepping


def test_every_strip_is_its_tensor(trained: Any) -> None:
    model, stepping = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    run = trained(model, stepping(optimizer), "0", optimizer=optimizer, batches=2)
    snapshot = run.snapshot
    panel, buffers = run.panel("0", "0.weight")
    tensors = {
        "value": snapshot.weights["0.weight"],
        "gradient": snapshot.weight_gradients["0.weight"],
        "update": snapshot.weight_updates["0.weight"],
        "state:0:exp_avg": snapshot.optimizer_state["0.weight"]["exp_avg"],
        "state:0:exp_avg_sq": snapshot.optimizer_state["0.weight"]["exp_avg_sq"],
    }
    assert [strip["key"] for strip in panel["strips"]] == list(tensors)
    for key, tensor in tensors.items():
        strip = strip_of(panel, key)
        close(pixels(strip, buffers)[0], tensor, strip["scale"])
        assert strip["scale"] == pytest.approx(float(tensor.abs().max()))
        assert strip["norm"] == pytest.approx(float(tensor.norm()), rel=1e-5)
        assert strip["unsigned"] == (key == "state:0:exp_avg_sq")
        ask = {"panel": "0.weight", "strip": key, "tile": 0, "colour": 0, "window": None}
        assert np.array_equal(run.exact("0", ask), tensor.numpy())  # bit for bit
    assert torch.equal(tensors["value"], model[0].get_parameter("weight").detach())
    [one] = panel["optimizers"]
    assert (one["label"], one["optimizer"], one["group"]) == ("Adam", 0, 0)
    assert one["scalars"] == [("step", 2.0)]
    assert {knob["name"]: knob["value"] for knob in one["knobs"]} == {
        "lr": 0.1,
        "eps": 1e-8,
        "weight_decay": 0.0,
    }
    assert one["others"] == "betas (0.9, 0.999)"
    assert panel["notes"] == []
    assert [axis["name"] for axis in panel["axes"]] == ["out", "in"]


def test_axes_tiles_and_places_are_chosen(trained: Any) -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(5, 4, (2, 3))
    run = trained(model, lambda: model(torch.randn(1, 5, 6, 6)), "conv2d")
    weight = model.weight.detach()
    panel, buffers = run.panel("conv2d", "weight")
    assert panel["arranged"] == {"y": 2, "x": 3, "tile": 0, "colour": -1}
    close(pixels(strip_of(panel, "value"), buffers), weight[:, 0], 0.2)
    chosen = {"arranged": {"y": 1, "x": 0, "tile": 3, "colour": -1}, "index": [0, 0, 1, 0]}
    panel, buffers = run.panel("conv2d", "weight", panels={"weight": chosen})
    strip = strip_of(panel, "value")
    assert (strip["tiles"], strip["full"], strip["index"]) == (3, (5, 4), [0, 0, 1, 0])
    close(pixels(strip, buffers), weight[:, :, 1, :].permute(2, 1, 0), 0.2)
    ask = {"panel": "weight", "strip": "value", "tile": 2, "colour": 0, "window": (1, 3, 0, 2)}
    found = run.exact("conv2d", ask, panels={"weight": chosen})
    assert np.array_equal(found, weight[:2, 1:3, 1, 2].T.numpy())


def test_three_input_channels_are_a_colour_picture_on_one_scale(trained: Any) -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(3, 4, 2)
    run = trained(model, lambda: model(torch.randn(1, 3, 6, 6)), "conv2d")
    panel, buffers = run.panel("conv2d", "weight")
    strip = strip_of(panel, "value")
    assert (strip["colours"], strip["scale"]) == (3, pytest.approx(model.weight.abs().max().item()))
    close(pixels(strip, buffers), model.weight.detach().permute(0, 2, 3, 1), strip["scale"])


def test_heads_of_an_attention_are_tiles(trained: Any) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(6, 2)
    model = nn.ModuleDict({"attention": attention})
    x = torch.randn(3, 1, 6)
    run = trained(model, lambda: attention(x, x, x), "attention")
    panel, buffers = run.panel("attention", "attention.in_proj_weight")
    assert panel["axes"][0]["labels"] == [f"{which} head {n}" for which in "qkv" for n in range(2)]
    close(pixels(strip_of(panel, "value"), buffers), attention.in_proj_weight.detach().reshape(6, 3, 6), 0.8)
    panel, _ = run.panel(
        "attention", "attention.in_proj_weight", panels={"attention.in_proj_weight": {"group": True}}
    )
    assert panel["groups"] == [(0, "q"), (2, "k"), (4, "v")]
    panel, _ = run.panel(
        "attention", "attention.in_proj_weight", panels={"attention.in_proj_weight": {"split": False}}
    )
    assert (panel["splits"], strip_of(panel, "value")["full"]) == (True, (18, 6))
    panel, buffers = run.panel("attention", "attention.out_proj.weight")
    weight = attention.out_proj.weight.detach().reshape(6, 2, 3).movedim(1, 0)
    close(pixels(strip_of(panel, "value"), buffers), weight, 0.8)


def test_an_order_is_the_same_for_all_strips(trained: Any) -> None:
    model, stepping = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = trained(model, stepping(optimizer), "0", optimizer=optimizer)
    chosen = {"0.weight": {"order": "norm"}}
    panel, buffers = run.panel("0", "0.weight", panels=chosen)
    order = np.frombuffer(buffers[panel["order_buffer"]], np.int32)
    weight = run.snapshot.weights["0.weight"]
    assert order.tolist() == weight.norm(dim=1).argsort(descending=True).tolist()
    assert panel["ordered"] == "y"
    for key, tensor in (("value", weight), ("gradient", run.snapshot.weight_gradients["0.weight"])):
        strip = strip_of(panel, key)
        close(pixels(strip, buffers)[0], tensor[order.tolist()], strip["scale"])
    ask = {"panel": "0.weight", "strip": "value", "tile": 0, "colour": 0, "window": (1, 2, 0, 5)}
    assert np.array_equal(run.exact("0", ask, panels=chosen)[0], weight[1].numpy())  # by index


def test_only_the_region_asked_for_is_sent_and_large_tensors_are_pooled(trained: Any) -> None:
    torch.manual_seed(0)
    model = nn.Linear(900, 700)
    with torch.no_grad():
        model.weight[3, 4] = float("nan")
    run = trained(model, lambda: None, "linear")
    weight = run.snapshot.weights["weight"]
    panel, buffers = run.panel("linear", "weight")
    strip = strip_of(panel, "value")
    pool = strip["pool"]
    assert pool > 1
    picture = pixels(strip, buffers)[0]
    assert np.isnan(picture[3 // pool, 4 // pool])
    assert np.isnan(picture).sum() == 1
    block = weight[pool : 2 * pool, :pool].mean()
    assert picture[1, 0] == pytest.approx(float(block), abs=strip["scale"] / 250)
    assert strip["nonfinite"] == {"nan": 1, "posinf": 0, "neginf": 0}
    near = {"zoom": 12, "region": [0, 1, 100, 130, 200, 260]}
    panel, buffers = run.panel("linear", "weight", panels={"weight": near})
    strip = strip_of(panel, "value")
    assert (strip["pool"], strip["magnify"], strip["tile"]) == (1, 32, (30, 60))
    close(pixels(strip, buffers)[0], weight[100:130, 200:260], strip["scale"])


def test_scales_are_own_shared_or_pinned(trained: Any) -> None:
    model, stepping = small()
    with torch.no_grad():
        model[0].get_parameter("bias").mul_(0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = trained(model, stepping(optimizer), "0", optimizer=optimizer)
    weights = run.snapshot.weights
    largest = max(float(weights["0.weight"].abs().max()), float(weights["0.bias"].abs().max()))
    panel, _ = run.panel("0", "0.bias")
    assert strip_of(panel, "value")["scale"] == pytest.approx(float(weights["0.bias"].abs().max()))
    panel, buffers = run.panel("0", "0.bias", scale="shared")
    strip = strip_of(panel, "value")
    assert strip["scale"] == pytest.approx(largest)
    close(pixels(strip, buffers)[0, 0], weights["0.bias"], largest)
    panel, _ = run.panel("0", "0.bias", scale="pinned", panels={"0.bias": {"pins": {"value": 7.0}}})
    assert strip_of(panel, "value")["scale"] == 7.0
    assert strip_of(panel, "gradient")["scale"] != 7.0


def test_what_is_special_of_a_parameter_is_said(trained: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(6, 4)
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.alone = nn.Linear(4, 4)
            self.head = nn.Linear(4, 6, bias=False)
            self.head.weight = self.embedding.weight
            self.unused = nn.Linear(2, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.alone(self.frozen(self.embedding(ids))))
            return out

    model = Net()
    optimizer = torch.optim.SGD([model.embedding.weight, *model.unused.parameters()], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.tensor([1, 2, 3])).square().mean().backward()
        optimizer.step()

    run = trained(model, step, "*", optimizer=optimizer)
    tied, _ = run.panel("head", "head.weight")
    assert tied["notes"] == ["tied with embedding.weight"]
    assert tied["optimizers"][0]["label"] == "SGD"
    ask = {"panel": "head.weight", "strip": "gradient", "tile": 0, "colour": 0, "window": None}
    expected = run.snapshot.weight_gradients["embedding.weight"].numpy()
    assert np.array_equal(run.exact("head", ask), expected)
    frozen, _ = run.panel("frozen", "frozen.weight")
    assert frozen["notes"] == ["frozen: requires_grad is False", "in no optimizer"]
    assert strip_of(frozen, "gradient")["missing"] == "no gradient: frozen (requires_grad is False)"
    assert strip_of(frozen, "update")["missing"] == "no update: frozen (requires_grad is False)"
    alone, _ = run.panel("alone", "alone.weight")
    assert alone["notes"] == ["in no optimizer"]
    assert strip_of(alone, "gradient")["missing"] == ""
    assert strip_of(alone, "update")["missing"] == "no update: no optimizer stepped with it in this batch"
    unused, _ = run.panel("unused", "unused.weight")
    assert strip_of(unused, "gradient")["missing"] == "no gradient: backward did not reach it in this batch"


def test_a_layer_without_parameters_says_so(trained: Any) -> None:
    model, stepping = small()
    run = trained(model, stepping(), "1")
    content, _ = run.content("1")
    assert (content["missing"], content["panels"]) == ("1 has no parameters or buffers.", [])
    panel, _ = run.panel("0", "0.weight")  # it was not watched in that batch
    assert strip_of(panel, "value")["missing"] == ""
    assert panel["notes"] == ["in no optimizer that the session was given"]
    assert strip_of(panel, "update")["missing"].startswith("not captured: watched after this batch ran")


def test_several_optimizers_have_a_line_and_strips_each(trained: Any) -> None:
    model, stepping = small()
    first = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    second = torch.optim.Adam(model[0].parameters(), lr=0.01)
    run = trained(model, stepping(first, second), "0", optimizer=[first, second])
    panel, _ = run.panel("0", "0.weight")
    assert [(one["label"], one["optimizer"]) for one in panel["optimizers"]] == [("SGD 1", 0), ("Adam 2", 1)]
    titles = [strip["title"] for strip in panel["strips"]]
    assert titles == [
        "Value", "Gradient", "Last update", "SGD 1 momentum_buffer", "Adam 2 exp_avg", "Adam 2 exp_avg_sq",
    ]  # fmt: skip


def test_buffers_of_every_kind(trained: Any) -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.register_buffer("mask", torch.tensor([[True, False, True]] * 2))
            self.register_buffer("ids", torch.arange(5) + 2**40)
            self.register_buffer("narrow", torch.linspace(-1, 1, 6).to(torch.bfloat16))
            self.register_buffer("wave", torch.tensor([[3 + 4j, 1j], [0, -2]]))
            self.register_buffer("holes", torch.eye(3).to_sparse())
            self.register_buffer("nothing", torch.empty(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.norm(x)
            return out

    model = nn.Sequential(Holder())
    run = trained(model, lambda: model(torch.randn(4, 3)), "0")
    content, buffers = run.content("0")
    found = {panel["name"]: panel["strips"][0] for panel in content["panels"]}
    kinds = {panel["name"]: panel["kind"] for panel in content["panels"]}
    assert kinds["0.norm.weight"] == "parameter"
    assert kinds["0.mask"] == "buffer"
    assert found["0.norm.running_var"]["unsigned"]
    assert found["0.norm.num_batches_tracked"]["value"] == 1
    assert pixels(found["0.mask"], buffers)[0].tolist() == [[1, 0, 1]] * 2
    close(pixels(found["0.narrow"], buffers)[0, 0], model[0].get_buffer("narrow").float(), 1)
    ask = {"panel": "0.ids", "strip": "value", "tile": 0, "colour": 0, "window": None}
    assert run.exact("0", ask)[0].tolist() == [2**40 + i for i in range(5)]
    assert found["0.wave"]["note"] == "magnitudes of complex numbers"
    close(pixels(found["0.wave"], buffers)[0], [[5, 1], [0, 2]], 5)
    assert found["0.holes"]["note"] == "sparse: entries at 3 places, the rest is zero"
    close(pixels(found["0.holes"], buffers)[0], torch.eye(3), 1)
    assert found["0.nothing"]["missing"] == "empty: shape (0,)"


def test_a_sparse_gradient_is_drawn(trained: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 4, sparse=True))
    optimizer = torch.optim.SparseAdam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(torch.tensor([1, 5])).square().sum().backward()
        optimizer.step()

    run = trained(model, step, "0", optimizer=optimizer)
    panel, buffers = run.panel("0", "0.weight")
    strip = strip_of(panel, "gradient")
    assert strip["note"] == "sparse: entries at 2 places, the rest is zero"
    expected = run.snapshot.weight_gradients["0.weight"].to_dense()
    close(pixels(strip, buffers)[0], expected, strip["scale"])
    assert strip_of(panel, "update")["zeros"] >= 5 * 4


def test_a_lazy_parameter_is_not_there_yet(trained: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3))
    run = trained(model, lambda: model[0](torch.randn(1, 2)), "1")
    panel, _ = run.panel("1", "1.weight")
    assert strip_of(panel, "value")["missing"] == "not captured: uninitialised until its first forward"
    assert strip_of(panel, "gradient")["missing"] == "no gradient: uninitialised until its first forward"
    assert (panel["axes"], panel["shape"]) == ([], [])


def test_state_of_another_shape_is_laid_out_by_itself(trained: Any) -> None:
    model, stepping = small()
    optimizer = torch.optim.Adafactor(model.parameters(), lr=0.1)
    run = trained(model, stepping(optimizer), "0", optimizer=optimizer)
    panel, buffers = run.panel("0", "0.weight")
    state = run.snapshot.optimizer_state["0.weight"]
    strip = strip_of(panel, "state:0:row_var")
    assert strip["shape"] == list(state["row_var"].shape)
    assert strip["own"]
    assert strip["unsigned"]
    close(pixels(strip, buffers).reshape(-1), state["row_var"].flatten(), strip["scale"])
    ask = {"panel": "0.weight", "strip": "state:0:row_var", "tile": 0, "colour": 0, "window": None}
    assert np.array_equal(run.exact("0", ask).reshape(-1), state["row_var"].flatten().numpy())


def test_tensors_of_instruments_are_strips_of_their_parameter(trained: Any) -> None:
    model, stepping = small()
    run = trained(model, stepping(), "0")
    measured = {"saliency": torch.rand(4, 5), "drift": torch.randn(4, 5)}
    snapshot = replace(run.snapshot, custom_weight_tensors={"0.weight": measured})
    view, buffers = WeightsView(run.session), list[bytes]()
    shown = ShownOutput.chosen(run.session, snapshot, want("0"))  # type: ignore[arg-type]
    content = view.content(snapshot, shown, want("0"), buffers)  # type: ignore[arg-type]
    strips = {strip["key"]: strip for strip in content["panels"][0]["strips"]}
    assert (strips["custom:saliency"]["title"], strips["custom:saliency"]["unsigned"]) == ("saliency", True)
    assert not strips["custom:drift"]["unsigned"]
    for name, tensor in measured.items():
        strip = strips[f"custom:{name}"]
        close(pixels(strip, buffers)[0], tensor, strip["scale"])


def test_a_scope_has_the_parameters_below_it_in_pages(trained: Any) -> None:
    model = nn.Sequential(nn.Sequential(*(nn.Linear(2, 2) for _ in range(5))), nn.Linear(2, 1))
    run = trained(model, lambda: model(torch.randn(1, 2)), "0")
    content, _ = run.content("0", count=4)
    assert (content["total"], [panel["name"] for panel in content["panels"]]) == (
        10,
        ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"],
    )
    content, _ = run.content("0", first=8, count=4)
    assert [panel["name"] for panel in content["panels"]] == ["0.4.weight", "0.4.bias"]


def test_before_the_first_batch_and_in_a_still() -> None:
    model, stepping = small()
    session = nansense_widgets.start(model)
    widget = session.weights("0")
    assert widget is session.weights("0")
    assert list(widget.layers) == ["0"]
    with pytest.raises(ValueError, match="layer='\\*' must mean one layer; it matches"):
        session.weights("*")
    with pytest.raises(TypeError, match="layer=1 must be the name of a layer"):
        session.weights(1)  # type: ignore[arg-type]
    browser = Browser(widget)
    browser.send(type="want", view="v", cards=[want("0")])
    [card] = browser.cards()[-1][0]["cards"]
    assert card["content"]["missing"] == "no batch has been captured yet"
    step = stepping()

    def loop() -> None:
        for _ in session.batches(range(2), phase="train"):
            step()

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    widget.keep_picture()
    widget.refresh()
    [still] = widget.still["cards"]["cards"]
    weight = still["content"]["panels"][0]["strips"][0]
    assert still["content"]["panels"][0]["name"] == "0.weight"
    assert widget.still["sizes"][weight["buffer"]] == 4 * 5
    session.detach()
    assert session.wait(TIMEOUT_S)
    session.close()


def test_what_is_kept_of_a_snapshot_goes_with_it(trained: Any) -> None:
    model, stepping = small()
    run = trained(model, stepping(), "0")
    view = WeightsView(run.session)
    alone = replace(run.snapshot, weights={"0.weight": torch.zeros(4, 5)})
    held = weakref.ref(alone.weights["0.weight"])
    shown = ShownOutput.chosen(run.session, alone, want("0"))  # type: ignore[arg-type]
    view.content(alone, shown, want("0"), [])  # type: ignore[arg-type]
    assert held() is not None
    del alone, shown
    gc.collect()
    assert held() is None


def test_a_disabled_session_says_so() -> None:
    session = nansense_widgets.start(small()[0], enabled=False)
    browser = Browser(session.weights("0"))
    browser.send(type="want", view="v", cards=[want("0")])
    [card] = browser.cards()[-1][0]["cards"]
    assert card["content"]["missing"] == "started with enabled=False: nothing is captured"
