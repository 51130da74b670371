"""Half precision under a GradScaler whose first step overflows: gradients are shown without the scale, the
skipped step is noted and no alarm, and the second step is like any other.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.reports.training import watched


def loss_of(model: nn.Module, x: torch.Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.float16):
        return model(x).square().float().mean()


@pytest.mark.parametrize("unscales_itself", [False, True])
def test_overflowing_scaled_step_is_skipped(unscales_itself: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    before = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=2.0**-30)
    x = torch.randn(8, 4)

    def body(_: int) -> None:
        optimizer.zero_grad()
        scaler.scale(loss_of(model, x)).backward()
        if unscales_itself:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    with watched(model, body, optimizer=optimizer) as run:
        assert any("step skipped" in note for note in run.snapshot.notes)
        for name, parameter in before.named_parameters():
            assert torch.equal(run.snapshot.weights[name], parameter)
        assert any(not gradient.isfinite().all() for gradient in run.snapshot.weight_gradients.values())
        assert run.session.notice == ""
        assert run.card("0")["note"] == ""

        run.do("step_batch")
        assert scaler.get_scale() == 2.0**10
        assert run.snapshot.notes == ()
        loss_of(before, x).backward()
        for name, parameter in before.named_parameters():
            gradient = run.snapshot.weight_gradients[name]
            assert parameter.grad is not None
            assert torch.allclose(gradient, parameter.grad, rtol=1e-2, atol=1e-5), name
            changed = run.snapshot.weights[name]
            assert torch.allclose(changed, parameter - 0.1 * gradient, atol=1e-6)
        out = before(x)
        by_hand = 2 * out / out.numel()
        assert torch.allclose(run.snapshot.activation_gradients["2"].float(), by_hand, rtol=1e-2, atol=1e-3)


def test_gradients_of_a_batch_that_only_accumulates_are_unscaled_too() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    before = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    x = torch.randn(8, 4)

    def body(index: int) -> None:
        scaler.scale(loss_of(model, x)).backward()
        if index == 1:
            scaler.step(optimizer)
            scaler.update()

    with watched(model, body, optimizer=optimizer) as run:
        for times in (1, 2):
            loss_of(before, x).backward()
            for name, parameter in before.named_parameters():
                gradient = run.snapshot.weight_gradients[name]
                assert parameter.grad is not None
                assert torch.allclose(gradient, parameter.grad, rtol=1e-2, atol=1e-5), (name, times)
            if times == 1:
                run.do("step_batch")
        assert run.snapshot.notes == ()
