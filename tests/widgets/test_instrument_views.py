"""What cards say of the user's own instruments, without a browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Session
from nansense_widgets.widgets.card import CardPainter
from nansense_widgets.widgets.metric_figures import metric_problems, metric_specs
from nansense_widgets.widgets.views.weight_tensors import held_tensors

OPTIONS: dict[str, Any] = {
    "strips": {
        "sample": 0,
        "average": False,
        "transform": "none",
        "part": "magnitude",
        "first": 0,
        "count": 16,
        "px": 56,
        "depth": 0,
        "shows": "difference",
    },
    "curves": {"statistics": None},
}


@pytest.fixture(autouse=True)
def every_batch_is_counted(nothing_has_been_compiled: None) -> None:
    """See there."""


def run(session: Session, model: nn.Module, epochs: range = range(1)) -> None:
    for epoch in epochs:
        for phase in ("train", "val"):
            for _ in session.batches(range(3), phase=phase, epoch=epoch):
                x = torch.linspace(-1, 1, 2 * 3 * 5 * 5).view(2, 3, 5, 5)
                model(model(x) if isinstance(model, nn.ReLU) else x)


def card(session: Session, layer: str, view: str, call: int = 1) -> tuple[Any, list[bytes]]:
    buffers: list[bytes] = []
    want: Any = {"layer": layer, "call": call, "leaf": 0, "view": view, "options": OPTIONS[view]}
    made = CardPainter(session).card(session.snapshot, want, buffers)
    assert made["failed"] == ""
    return made["content"], buffers


def session_of(model: nn.Module) -> Session:
    session = nansense_widgets.start(model)
    session.watch("*")
    session.set_update_frequency(unit="batch")
    session.step_run()
    return session


def test_a_layer_tensor_is_a_strip_with_its_own_scale_and_exact_values() -> None:
    model = nn.Sequential(nn.ReLU())
    session = session_of(model)
    session.watch_layer_tensor("tenfold")(lambda ctx: 10 * ctx.activation)
    session.watch_layer_tensor("none")(lambda _: None)
    session.watch_layer_tensor("short")(lambda ctx: ctx.activation[0])
    run(session, model)
    content, buffers = card(session, "0", "strips")
    strips = {strip["kind"]: strip for strip in content["strips"]}
    assert list(strips) == ["activations", "gradients", "custom tenfold", "custom none", "custom short"]
    own = strips["custom tenfold"]
    assert own["scale"] == pytest.approx(10 * strips["activations"]["scale"])
    assert buffers[own["buffer"]] == buffers[strips["activations"]["buffer"]]
    assert strips["custom none"]["missing"] == "not evaluated: the instrument returned None"
    assert "expected, not (3, 5, 5)" in strips["custom short"]["missing"]
    want: Any = {"layer": "0", "call": 1, "leaf": 0, "view": "strips", "options": OPTIONS["strips"]}
    ask = {"kind": "custom tenfold", "channel": 2, "window": None}
    reply, [exact] = CardPainter(session).fetch(want, ask)
    assert reply["missing"] == ""
    assert session.snapshot is not None
    tensor = session.snapshot.custom_activations["0"]["tenfold"]
    assert np.frombuffer(exact, np.float32).tolist() == tensor[0, 2].flatten().tolist()
    session.watch_layer_tensor("later")(lambda ctx: ctx.activation)
    content, _ = card(session, "0", "strips")
    assert content["strips"][-1]["missing"].startswith("not evaluated")
    session.close()


def test_of_another_call_there_is_none_and_that_is_said() -> None:
    model = nn.ReLU()
    session = session_of(model)
    session.watch_layer_tensor("same")(lambda ctx: ctx.activation)
    run(session, model)
    content, _ = card(session, "relu", "strips", call=2)
    assert "first output of the first call" in content["strips"][-1]["missing"]
    session.close()


def test_a_metric_is_a_figure_with_a_line_for_each_series_and_phase() -> None:
    model = nn.Sequential(nn.ReLU())
    session = session_of(model)
    session.watch_metric("ends")(lambda ctx: {"low": ctx.activation.min(), "high": ctx.activation.max()})
    session.watch_metric("sum", on="epoch", reduce="sum")(lambda _: 1.0)
    session.watch_metric("many")(lambda _: {f"{i:02}": i for i in range(20)})
    session.watch_metric("broken")(lambda _: "text")
    run(session, model, range(2))
    metrics = session.watch_metrics_snapshot(layers=["0"])
    specs = {spec.title: spec for spec in metric_specs(metrics, "0", ("val", 1), ("train", "val"))}
    assert list(specs) == ["ends", "many", "sum"]
    lines = specs["ends"].lines
    assert [(line.phase, line.label) for line in lines] == [
        (phase, label) for phase in ("train", "val") for label in ("high", "low")
    ]
    assert lines[0].color == lines[2].color != lines[1].color
    assert lines[0].xs.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3])
    assert [line.running.tolist() for line in specs["sum"].lines] == [[False, False], [False, True]]
    assert specs["many"].unit == "your metric, first 8 of 20 series"
    assert list(metric_problems(metrics, "0")) == ["metric broken"]
    content, _ = card(session, "0", "curves")
    [broken] = content["figures"]  # the others wait for the main thread
    assert broken["model"] == ""
    assert broken["problem"].startswith("off from here on: TypeError")
    numbers = session.curves("0").to_dict()
    assert numbers["metric sum"]["train"]["value"].tolist() == [3, 3]
    assert numbers["metric ends[high]"]["val"]["batch"].tolist() == [0, 1, 2] * 2
    table = session.curves("0").to_pandas()
    assert set(table["tensor"]) >= {"activations", "metric sum", "metric many[19]"}
    session.close()


def test_a_gap_is_drawn_where_a_definition_was_replaced() -> None:
    model = nn.Sequential(nn.ReLU())
    session = session_of(model)
    session.watch_metric("m")(lambda _: 1.0)
    run(session, model)
    session.watch_metric("m", on="epoch")(lambda _: 2.0)
    run(session, model, range(1, 2))
    [spec] = metric_specs(session.watch_metrics_snapshot(), "0", None, ("train",))
    line = next(line for line in spec.lines if line.phase == "train")
    assert np.isnan(line.values).sum() == 1
    assert (np.diff(line.xs) >= 0).all()
    session.close()


def test_a_weight_tensor_stands_beside_its_weight_or_says_why_not() -> None:
    conv = nn.Conv2d(3, 2, 3)
    model = nn.Sequential(conv)
    session = session_of(model)
    session.watch_weight_tensor("double")(lambda ctx: 2 * ctx.weight if ctx.weight.ndim > 1 else None)
    run(session, model)
    assert session.snapshot is not None
    held = {one.name: one for one in held_tensors(session.snapshot, session, "0")}
    [double] = [strip for strip in held["0.weight"].strips if strip.title == "double"]
    assert double.tensor is not None
    torch.testing.assert_close(double.tensor, 2 * conv.weight.detach())
    [none] = [strip for strip in held["0.bias"].strips if strip.title == "double"]
    assert none.tensor is None
    assert "the instrument returned None" in none.missing
    session.close()
