"""Gradients that are not a plain `loss.backward()`: scaled losses, several passes, second forwards."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.utils.checkpoint import checkpoint

from nansense_widgets import BatchSnapshot
from tests.capture.test_capture import capture


def gradient_of(snapshot: BatchSnapshot, layer: str) -> torch.Tensor:
    gradient = snapshot.layers[layer][0].leaves[0].gradient
    assert gradient is not None, snapshot.layers[layer][0].leaves[0].gradient_reason
    return gradient


# ------------------------------------------------------------------ GradScaler


def scaled_loop(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: GradScaler,
    x: torch.Tensor,
    unscale_first: bool,
) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        if unscale_first:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW], ids=lambda make: make.__name__)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscale_first", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["optimizer not given", "optimizer given"])
def test_gradients_of_a_scaled_loss_are_shown_unscaled(
    make: Any, fused: bool, unscale_first: bool, given: bool
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    x = torch.randn(5, 4)
    reference = copy.deepcopy(model)
    hidden = reference[0](x)
    hidden.retain_grad()
    reference[2](reference[1](hidden)).square().mean().backward()

    optimizer = make(model.parameters(), lr=0.1, fused=fused)
    scaler = GradScaler("cpu", init_scale=1024.0)
    step = scaled_loop(model, optimizer, scaler, x, unscale_first)
    _, snapshot = capture(model, step, optimizers=[optimizer] if given else [])
    for name, parameter in reference.named_parameters():
        assert parameter.grad is not None
        assert torch.allclose(snapshot.weight_gradients[name], parameter.grad, rtol=1e-5, atol=1e-8), name
    assert hidden.grad is not None
    assert torch.allclose(gradient_of(snapshot, "0"), hidden.grad, rtol=1e-5, atol=1e-8)
    assert snapshot.layers["0"][0].leaves[0].gradient_note == "divided by the loss scale"
    assert snapshot.notes == ()
    assert GradScaler.step.__module__ == "torch.amp.grad_scaler"
    assert not hasattr(GradScaler.step, "__wrapped__")  # nothing of ours stays behind


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_the_scaler_skips_says_so(fused: bool) -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    other = torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler = GradScaler("cpu", init_scale=2.0**127)
    before = next(model.parameters()).detach().clone()
    step = scaled_loop(model, optimizer, scaler, torch.full((1, 2), 100.0), False)
    _, snapshot = capture(model, step, optimizers=[other, optimizer])
    assert torch.equal(snapshot.weights["0.weight"], before)
    assert snapshot.notes == ("SGD 2: step skipped, because GradScaler found Inf or NaN in a gradient",)
    assert not snapshot.weight_gradients["0.weight"].isfinite().all()


def test_scaled_gradients_that_are_not_stepped_with_are_unscaled_too() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu", init_scale=256.0)
    x = torch.randn(3, 4)
    (expected,) = torch.autograd.grad(model(x).sum(), model.weight)
    _, snapshot = capture(model, lambda: scaler.scale(model(x).sum()).backward(), optimizers=[optimizer])
    assert torch.allclose(snapshot.weight_gradients["weight"], expected)
    assert model.weight.grad is not None
    assert torch.allclose(model.weight.grad, expected * 256)  # the user's own is as it was


def test_half_precision_gradients_below_the_smallest_half_are_not_lost() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False).half())
    scaler = GradScaler("cpu", init_scale=2.0**16)
    x = torch.ones(1, 2).half()
    _, snapshot = capture(model, lambda: scaler.scale(model(x).float().sum() * 1e-9).backward())
    assert gradient_of(snapshot, "0").dtype is torch.float32
    assert torch.allclose(gradient_of(snapshot, "0"), torch.full((1, 2), 1e-9), rtol=1e-2)


# ------------------------------------------------------------------ several passes


def test_a_gradient_penalty_does_not_add_to_the_gradient_of_the_loss() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3, requires_grad=True)

    def loss(hidden: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        (inner,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return out.square().mean() + (inner.norm(dim=1) - 1).square().mean()

    def step() -> None:
        hidden = model[0](x)
        out = model[2](model[1](hidden))
        loss(hidden, out).backward()

    _, snapshot = capture(model, step)
    hidden = model[0](x)
    out = model[2](model[1](hidden))
    (expected,) = torch.autograd.grad(loss(hidden, out), hidden)
    assert torch.allclose(gradient_of(snapshot, "0"), expected, rtol=1e-5)
    assert snapshot.layers["0"][0].leaves[0].gradient_note == ""


def test_where_only_autograd_grad_is_used_that_is_shown_and_said() -> None:
    model = nn.Sequential(nn.Linear(3, 2))
    x = torch.randn(1, 3)

    def step() -> None:
        torch.autograd.grad((model(x) * 3).sum(), list(model.parameters()))

    _, snapshot = capture(model, step)
    assert torch.equal(gradient_of(snapshot, "0"), torch.full((1, 2), 3.0))
    note = snapshot.layers["0"][0].leaves[0].gradient_note
    assert note == "from torch.autograd.grad, not from backward()"


def test_several_backwards_say_how_many() -> None:
    model = nn.Sequential(nn.Linear(3, 2))

    def step() -> None:
        out = model(torch.ones(1, 3))
        out.sum().backward(retain_graph=True)
        out.sum().backward()

    _, snapshot = capture(model, step)
    assert torch.equal(gradient_of(snapshot, "0"), torch.full((1, 2), 2.0))
    assert snapshot.layers["0"][0].leaves[0].gradient_note == "sum of 2 passes"


def test_an_output_that_backward_does_not_use_has_a_reason() -> None:
    class Unbinds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).unbind(1)[0]

    model = Unbinds()
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward(), batches=2)
    used, unused, _ = snapshot.layers["unbind"][0].leaves
    assert used.gradient is not None
    assert unused.gradient_reason == "no gradient: backward did not reach this value in this batch"


# ------------------------------------------------------------------ computed again, or past the hooks


def test_gradients_inside_a_reentrant_checkpoint_are_those_of_its_second_forward() -> None:
    torch.manual_seed(0)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(3, 3)
            self.block = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
            self.twice = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = checkpoint(self.block, self.stem(x), use_reentrant=True)
            return checkpoint(lambda z: self.twice(self.twice(z)), y, use_reentrant=True)

    model = Checkpointed()
    x = torch.randn(2, 3)
    _, snapshot = capture(model, lambda: model(x).square().sum().backward())
    inner = model.block[0](model.stem(x))
    (expected,) = torch.autograd.grad(model.twice(model.twice(model.block[1](inner))).square().sum(), inner)
    assert torch.allclose(gradient_of(snapshot, "block.0"), expected)
    # Which of two calls is repeated cannot be told.
    for call in snapshot.layers["twice"]:
        assert call.leaves[0].gradient_reason.startswith("no gradient: the forward ran without grad")


def test_a_forward_that_is_called_directly_says_so() -> None:
    class Sub(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002  torch's own name
            return super().forward(input)

    class Direct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.act, self.usual, self.patched = nn.Linear(2, 2), nn.Tanh(), Sub(2, 2), nn.ReLU()
            self.patched.forward = torch.relu  # type: ignore[method-assign]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.patched(self.usual(self.act.forward(self.fc.forward(x))))

    model = Direct()
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward())
    says = (
        "never called: its forward() or another method ran directly, which no hook sees; "
        "op {!r} is part of it"
    )
    assert snapshot.missing["fc"] == says.format("linear")
    assert snapshot.missing["act"] == says.format("tanh")
    assert "usual" in snapshot.activations
    assert "patched" in snapshot.activations
    assert set(snapshot.weights) >= {"fc.weight", "fc.bias"}
    assert "fc.weight" in snapshot.weight_gradients

    _, snapshot = capture(model, lambda: model.forward(torch.ones(1, 2)).sum().backward())
    assert snapshot.missing["x"].startswith("not captured: the model itself was not called")
    assert "usual" in snapshot.activations


def test_parameters_without_a_gradient_say_why() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.LazyLinear(3))
    unused = nn.Linear(2, 2)
    model.add_module("unused", unused)
    model[0].requires_grad_(False)
    _, snapshot = capture(model, lambda: model[1](model[0](torch.ones(1, 2))).sum().backward())
    reasons = snapshot.weight_gradient_reasons
    assert reasons["0.weight"] == "no gradient: frozen (requires_grad is False)"
    assert "1.weight" not in reasons
    assert reasons["unused.weight"] == "no gradient: backward did not reach it in this batch"
    assert snapshot.weight_reasons["2.weight"] == "not captured: uninitialised until its first forward"
    assert "uninitialised" in reasons["2.weight"]


def test_an_optimizer_that_start_was_not_given_is_heard() -> None:
    model = nn.Linear(3, 2)
    given = torch.optim.SGD(model.parameters(), lr=0.1)
    later = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 3)
    (expected,) = torch.autograd.grad(model(x).square().sum(), model.weight)

    def step() -> None:
        model(x).square().sum().backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.25)
        later.step()
        later.zero_grad()

    before = copy.deepcopy(model.state_dict())
    for optimizers in ([given], []):
        model.load_state_dict(before)
        _, snapshot = capture(model, step, optimizers=optimizers)
        assert torch.equal(snapshot.weight_gradients["weight"], expected.clamp(-0.25, 0.25))


def test_a_gradient_that_is_dropped_unused_says_so() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.zero_grad()

    _, snapshot = capture(model, step, optimizers=[optimizer])
    reason = snapshot.weight_gradient_reasons["weight"]
    assert reason == "no gradient: it was set to None before an optimizer stepped with it"


def test_two_scalers_and_an_unscaled_loss_are_told_apart() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "c": nn.Linear(2, 2)})
    one, other = GradScaler("cpu", init_scale=4.0), GradScaler("cpu", init_scale=256.0)
    x = torch.ones(1, 2)

    def step() -> None:
        first, second = one.scale(model["a"](x).sum()), other.scale(model["b"](x).sum())
        first.backward()
        second.backward()
        model["c"](x).sum().backward()

    _, snapshot = capture(model, step)
    for name in ("a", "b", "c"):
        assert torch.equal(gradient_of(snapshot, name), torch.ones(1, 2)), name
        assert torch.equal(snapshot.weight_gradients[f"{name}.bias"], torch.ones(2)), name
    assert snapshot.layers["c"][0].leaves[0].gradient_note == ""


def test_what_the_user_has_unscaled_is_not_divided_again() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    scaler = GradScaler("cpu", init_scale=8.0)

    def step() -> None:
        scaler.scale(model["a"](torch.ones(1, 2)).sum()).backward()
        (model["b"](torch.ones(1, 2)).sum() * torch.inf).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)

    _, snapshot = capture(model, step, optimizers=[optimizer])
    assert snapshot.notes != ()
    assert torch.equal(snapshot.weight_gradients["a.bias"], torch.ones(2))


def test_autograd_grad_on_another_thread_is_an_aside_too() -> None:
    model = nn.Sequential(nn.Linear(2, 2))

    def step() -> None:
        out = model(torch.ones(1, 2))
        with ThreadPoolExecutor(1) as pool:
            weights = [*model.parameters()]
            job = pool.submit(lambda: torch.autograd.grad((out * 7).sum(), weights, retain_graph=True))
            job.result()
        out.sum().backward()

    _, snapshot = capture(model, step)
    assert torch.equal(gradient_of(snapshot, "0"), torch.ones(1, 2))
    assert snapshot.layers["0"][0].leaves[0].gradient_note == ""
