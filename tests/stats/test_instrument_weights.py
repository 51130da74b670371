"""Weights, the gradients that the optimizer used, and its state, as instruments are given them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nansense_widgets import WeightContext
from tests.stats.test_instruments import BATCHES, Net, Seen, batches, listen, same, session_of


def clipped(model: nn.Module, optimizer: Any, _: torch.amp.GradScaler) -> Seen:
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    used = gradients(model)
    optimizer.step()
    return used


def zeroed(model: nn.Module, optimizer: Any, _: torch.amp.GradScaler) -> Seen:
    used = gradients(model)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return used


def gone(model: nn.Module, optimizer: Any, _: torch.amp.GradScaler) -> Seen:
    used = gradients(model)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return used


def not_stepped(model: nn.Module, _optimizer: Any, _: torch.amp.GradScaler) -> Seen:
    return gradients(model)


def scaled(model: nn.Module, optimizer: Any, scaler: torch.amp.GradScaler) -> Seen:
    scaler.unscale_(optimizer)
    used = gradients(model)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return used


def gradients(model: nn.Module) -> Seen:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("end", [clipped, zeroed, gone, not_stepped, scaled])
def test_weights_and_the_gradients_that_the_optimizer_used(kind: Any, end: Any) -> None:
    model = Net()
    more = {} if kind is torch.optim.Adam else {"momentum": 0.9}
    optimizer = kind(model.parameters(), lr=0.01, **more)
    scaler = torch.amp.GradScaler("cpu", enabled=end is scaled, init_scale=1024.0)
    session = session_of(model, optimizer)
    heard = listen(session)
    last: Seen = {}
    for x, y in session.batches(batches(), phase="train", epoch=0):
        loss = F.cross_entropy(model(x), y)
        model.truth = {name: value for name, value in model.truth.items() if "grad" not in name}
        scaler.scale(loss).backward()
        used = end(model, optimizer, scaler)
        if not used or end is clipped:
            optimizer.zero_grad()
        last = used
    weights = dict(model.named_parameters())
    for layer in ("first", "norm", "last"):
        seen = heard[-1][layer]
        assert set(seen["weights"]) == {f"{layer}.weight", f"{layer}.bias"}
        for name, weight in seen["weights"].items():
            same(weight, weights[name].detach())
            same(seen["weight_gradients"][name], last[name])
            entries = ["exp_avg", "exp_avg_sq", "step"] if kind is torch.optim.Adam else ["momentum_buffer"]
            if kind is torch.optim.Adam or end is not not_stepped:
                assert seen["state"][name] == ([] if end is not_stepped else entries)
    if end is scaled:  # gradients of values are without the scale too
        same(heard[-1]["last"]["gradient"], model.truth["grad last"] / 1024.0)
    assert not session.watch_metrics_snapshot().notes
    session.close()


def test_gradients_of_a_step_that_the_scaler_left_out() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    session = session_of(model, optimizer)
    heard = listen(session)
    used: Seen = {}
    for number, (x, y) in enumerate(session.batches(batches(), phase="train", epoch=0)):
        loss = F.cross_entropy(model(x), y) * (float("inf") if number == BATCHES - 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        used = gradients(model)
        scaler.update()
        optimizer.zero_grad(set_to_none=False)
    assert not all(bool(gradient.isfinite().all()) for gradient in used.values())
    for layer in ("first", "norm", "last"):
        for name, gradient in heard[-1][layer]["weight_gradients"].items():
            torch.testing.assert_close(gradient, used[name], equal_nan=True)
    session.close()


def test_a_fused_optimizer_divides_by_the_scale_itself() -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    session = session_of(model, optimizer)
    heard = listen(session)
    used: Seen = {}
    for x, y in session.batches(batches(), phase="train", epoch=0):
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        used = {name: gradient / 1024.0 for name, gradient in gradients(model).items()}
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    for layer in ("first", "norm", "last"):
        for name, gradient in heard[-1][layer]["weight_gradients"].items():
            torch.testing.assert_close(gradient, used[name])
    session.close()


def test_a_tied_weight_belongs_to_both_and_each_optimizer_tells_its_own() -> None:
    first, last = nn.Linear(5, 5), nn.Linear(5, 5)
    model = nn.Sequential(first, nn.Tanh(), last)
    last.weight = first.weight
    optimizers = [
        torch.optim.Adam([first.weight], lr=0.1),
        torch.optim.SGD([first.bias, last.bias], lr=0.1, momentum=0.9),
    ]
    session = session_of(model, optimizers, captures=True)
    heard, given = listen(session), {}

    @session.watch_weight_tensor("direction")
    def direction(ctx: WeightContext) -> torch.Tensor | None:
        given[ctx.parameter] = (ctx.layer, dict(ctx.hyperparams), ctx.module)
        return ctx.optimizer_state.get("exp_avg")

    for x, _ in session.batches(batches(4), phase="train", epoch=0):
        model(x).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    seen = heard[-1]
    names = {name for layer in ("0", "2") for name in seen[layer]["weights"]}
    assert {"0.weight", "0.bias", "2.bias"} <= names
    assert seen["0"]["state"]["0.weight"] == ["exp_avg", "exp_avg_sq", "step"]
    assert seen["0"]["state"]["0.bias"] == ["momentum_buffer"]
    snapshot = session.snapshot
    assert snapshot is not None
    same(
        snapshot.custom_weight_tensors["0.weight"]["direction"],
        snapshot.optimizer_state["0.weight"]["exp_avg"],
    )
    assert "returned None" in snapshot.custom_weight_reasons["0.bias"]["direction"]
    assert given["0.bias"][1]["momentum"] == 0.9
    assert given["0.weight"][2] is first
    session.close()
