"""What instruments are given: the values that the loop itself saw, whatever it does with them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nansense_widgets
from nansense_widgets import LayerContext, Session
from nansense_widgets.stats.instruments import held
from nansense_widgets.stats.scope import StatsScope

BATCHES = 6

Seen = dict[str, Any]


def batches(count: int = BATCHES) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(4, 5), torch.randint(0, 3, (4,))) for _ in range(count)]


class Net(nn.Module):
    """What follows a layer may rewrite what it gave."""

    def __init__(self, *, inplace: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Linear(5, 6), nn.BatchNorm1d(6)
        self.act, self.last = nn.ReLU(inplace), nn.Linear(6, 3)
        self.truth: Seen = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in ("first", "norm", "act", "last"):
            x = getattr(self, name)(x)
            self.truth[name] = x.detach().clone()
            if x.requires_grad:
                x.register_hook(self._hear(name, x))
        return x

    def _hear(self, name: str, x: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def hear(gradient: torch.Tensor) -> None:
            if name != "norm":  # in place: the tensor's later history answers there
                key = f"grad {name}"
                self.truth[key] = self.truth.get(key, 0) + gradient.detach().clone()

        return hear


def session_of(model: nn.Module, optimizer: Any = None, *, captures: bool = False) -> Session:
    session = nansense_widgets.start(model, optimizer=optimizer)
    session.set_stats_scope("all")
    session.set_patch_layers([])
    if captures:
        session.set_update_frequency(unit="batch")
        session.step_run()
    else:
        session.detach()
    return session


def copied(context: LayerContext) -> Seen:
    return {
        "activation": context.activation.clone(),
        "gradient": None if context.gradient is None else context.gradient.clone(),
        "weights": {name: weight.detach().clone() for name, weight in context.weights.items()},
        "weight_gradients": {name: g.clone() for name, g in context.weight_gradients.items()},
        "state": {name: sorted(map(str, state)) for name, state in context.optimizer_state.items()},
        "module": context.module,
    }


def listen(session: Session) -> list[dict[str, Seen]]:
    """What a metric is given, batch by batch and layer by layer."""
    heard: list[dict[str, Seen]] = []
    places: list[tuple[str, int, int]] = []

    @session.watch_metric("listener")
    def listener(ctx: LayerContext) -> None:
        if not places or places[-1] != ctx.position.key:
            places.append(ctx.position.key)
            heard.append({})
        heard[-1][ctx.layer] = copied(ctx)

    return heard


def same(found: Any, expected: Any) -> None:
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


# ---------------------------------------------------------------- values of layers


@pytest.mark.parametrize("captures", [False, True])
def test_layers_give_what_they_gave_though_it_is_rewritten_later(captures: bool) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = session_of(model, optimizer, captures=captures)
    heard, truth = listen(session), []
    for x, y in session.batches(batches(), phase="train", epoch=0):
        model.truth = {}
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        truth.append(model.truth)
    # The first forward tells which layers there are.
    assert [set(layers) >= {"first", "norm", "act", "last", "x"} for layers in heard[-4:]] == [True] * 4
    for layers, seen in zip(heard[-4:], truth[-4:], strict=True):
        for name in ("first", "norm", "act", "last"):
            same(layers[name]["activation"], seen[name])
            if name != "norm":
                same(layers[name]["gradient"], seen[f"grad {name}"])
        assert layers["norm"]["gradient"] is not None
        # ReLU hands on what comes from behind where its input was positive: closed form.
        behind = seen["grad act"] * (seen["norm"] > 0)
        same(layers["norm"]["gradient"], behind)
        assert layers["act"]["module"] is model.act
        assert layers["x"]["module"] is None
        assert layers["x"]["gradient"] is None
    assert session.instrument_errors == {}
    assert not session.watch_metrics_snapshot().notes
    session.close()


def test_without_room_for_copies_one_batch_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "ROOM", 0)
    model = Net()
    session = session_of(model)
    session.watch_metric("mean")(lambda ctx: float(ctx.activation.mean()))
    truth = []
    for x, _ in session.batches(batches(), phase="train", epoch=0):
        model(x)
        truth.append(float(model.truth["norm"].mean()))
    snapshot = session.watch_metrics_snapshot()
    norm, act = (snapshot.series[name, "train", "mean", ""] for name in ("norm", "act"))
    assert norm.values.tolist() == truth[-len(norm) :]
    assert len(act) == len(norm) + 1
    assert "rewritten in place" in snapshot.notes["norm"]
    assert snapshot.notes.keys() == {"norm"}
    assert session.instrument_errors == {}
    session.close()


def test_no_gradients_without_a_backward() -> None:
    model = Net(inplace=False)
    session = session_of(model)
    heard = listen(session)
    for x, y in session.batches(batches(3), phase="train", epoch=0):
        model.truth = {}
        F.cross_entropy(model(x), y).backward()
    for x, _ in session.batches(batches(3), phase="val", epoch=0):
        with torch.no_grad():
            model(x)
    for x, _ in session.batches(batches(3), phase="test", epoch=0):
        with torch.inference_mode():
            model(x)
    for layers in heard[-6:]:
        assert all(seen["gradient"] is None for seen in layers.values())
        # The gradients of the training phase lie in `.grad` still: they are not these batches'.
        assert all(not seen["weight_gradients"] for seen in layers.values())
    same(heard[-1]["last"]["activation"], model.truth["last"])
    session.close()


def test_two_backwards_of_one_forward_are_one_gradient() -> None:
    model = Net(inplace=False)
    session = session_of(model)
    heard = listen(session)
    for x, y in session.batches(batches(3), phase="train", epoch=0):
        model.truth = {}
        out = model(x)
        F.cross_entropy(out, y).backward(retain_graph=True)
        torch.autograd.grad(out.sum(), out)  # an aside, which `.grad` knows nothing of
        out.square().mean().backward()
    for name in ("first", "act", "last"):
        expected = model.truth[f"grad {name}"]
        if name == "last":
            expected = expected - torch.ones(4, 3)  # the hook in the model hears the aside too
        torch.testing.assert_close(heard[-1][name]["gradient"], expected)
    session.close()


def test_of_a_layer_called_twice_the_first_call_counts() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(5, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.one = self.fc(x)
            self.one.retain_grad()
            return self.fc(self.one.tanh())

    model = Twice()
    session = session_of(model)
    heard = listen(session)
    for x, _ in session.batches(batches(3), phase="train", epoch=0):
        model(x).square().sum().backward()
    same(heard[-1]["fc"]["activation"], model.one.detach())
    same(heard[-1]["fc"]["gradient"], model.one.grad)
    session.close()


def test_of_a_tuple_the_first_tensor_counts() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(5, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.out, _ = self.lstm(x[:, None].expand(-1, 3, -1))
            return self.out

    model = Recurrent()
    session = session_of(model)
    heard = listen(session)
    for x, _ in session.batches(batches(3), phase="train", epoch=0):
        model(x).sum().backward()
    same(heard[-1]["lstm"]["activation"], model.out.detach())
    same(heard[-1]["lstm"]["gradient"], torch.ones(4, 3, 4))
    assert set(heard[-1]["lstm"]["weights"]) == {f"lstm.{name}" for name, _ in model.lstm.named_parameters()}
    session.close()


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_of_a_recomputed_layer(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner = nn.Sequential(nn.Linear(5, 5), nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    model = Checkpointed()
    session = session_of(model)
    heard = listen(session)
    for x, _ in session.batches(batches(3), phase="train", epoch=0):
        x.requires_grad_()
        model(x).sum().backward()
    plain = Checkpointed().inner
    hidden = plain[0](x)
    hidden.retain_grad()
    plain[1](hidden).sum().backward()
    same(heard[-1]["inner.0"]["activation"], hidden.detach())
    same(heard[-1]["inner.0"]["gradient"], hidden.grad)
    session.close()


# ---------------------------------------------------------------- tensors


def test_tensors_ride_on_captured_batches_only() -> None:
    model = Net()
    session = session_of(model, captures=True)
    calls = []

    @session.watch_layer_tensor("zscore")
    def zscore(ctx: LayerContext) -> torch.Tensor | None:
        calls.append(ctx.layer)
        a = ctx.activation
        return None if ctx.layer == "act" else (a - a.mean()) / (a.std() + 1e-6)

    for x, y in session.batches(batches(3), phase="train", epoch=0):
        F.cross_entropy(model(x), y).backward()
    snapshot = session.snapshot
    assert snapshot is not None
    truth = model.truth["norm"]
    same(snapshot.custom_activations["norm"]["zscore"], (truth - truth.mean()) / (truth.std() + 1e-6))
    assert "act" not in snapshot.custom_activations
    assert "returned None" in snapshot.custom_activation_reasons["act"]["zscore"]
    assert session.memory().by_kind["snapshot"] > 0
    session.detach()
    before = len(calls)
    for x, _ in session.batches(batches(3), phase="train", epoch=1):
        model(x)
    assert len(calls) == before
    session.close()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda ctx: ctx.activation[:1], "a tensor of shape (4, 6) was expected, not (1, 6)"),
        (lambda _: "text", "not a str"),
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda ctx: ctx.activation.to_sparse(), "dense"),
    ],
)
def test_a_wrong_tensor_switches_its_instrument_off(
    wrong: Any, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Net()
    session = session_of(model, captures=True)
    session.watch_layer_tensor("wrong")(lambda ctx: wrong(ctx) if ctx.layer == "norm" else None)
    session.watch_layer_tensor("right")(lambda ctx: ctx.activation * 2)
    for x, _ in session.batches(batches(4), phase="train", epoch=0):
        model(x)
    snapshot = session.snapshot
    assert snapshot is not None
    assert text in session.instrument_errors["wrong"]
    assert "wrong is off" in snapshot.custom_activation_reasons["norm"]["wrong"]
    same(snapshot.custom_activations["norm"]["right"], model.truth["norm"] * 2)
    assert capsys.readouterr().err.count("nansense_widgets: layer tensor 'wrong' is off") == 1
    session.close()


def test_scopes_decide_which_layers_are_evaluated() -> None:
    model = Net()
    session = session_of(model, captures=True)
    session.set_stats_scope(StatsScope.WATCHED)
    session.watch("norm")
    layers: list[str] = []
    session.watch_metric("layers")(lambda ctx: layers.append(ctx.layer))
    loader = batches()

    def epoch(number: int) -> Iterator[torch.Tensor]:
        for x, _ in session.batches(loader, phase="train", epoch=number):
            model(x)
            yield x

    list(epoch(0))
    assert set(layers) == {"norm"}
    layers.clear()
    session.set_stats_scope("none")
    list(epoch(1))
    assert not layers
    session.set_stats_scope("all")
    list(epoch(2))
    assert {"first", "norm", "act", "last", "x"} <= set(layers)
    session.close()


def test_two_sessions_keep_theirs_apart() -> None:
    models = [Net(), Net()]
    sessions = [session_of(model) for model in models]
    for number, session in enumerate(sessions):
        session.watch_metric("number")(lambda _, number=number: number)
    for pair in zip(*(s.batches(batches(), phase="train", epoch=0) for s in sessions), strict=True):
        for model, (x, _) in zip(models, pair, strict=True):
            model(x)
    for number, session in enumerate(sessions):
        values = session.watch_metrics_snapshot(layers=["norm"]).plots("norm", "train")["number"][""].values
        assert set(values.tolist()) == {float(number)}
        session.close()


def test_a_disabled_session_hands_functions_back() -> None:
    session = nansense_widgets.start(Net(), enabled=False)

    def function(_: Any) -> float:
        return 1.0

    assert session.watch_metric("a")(function) is function
    assert session.watch_layer_tensor("a")(function) is function
    assert session.watch_weight_tensor("a")(function) is function
    assert session.instrument_errors == {}
    assert not session.instruments
    assert not session.watch_metrics_snapshot().series
