"""Gradients accumulate over three micro-batches and the optimizer steps on the third: shown are the sum so
far, and a change of the weights only where there was one.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.reports.training import watched


def test_accumulated_gradients_and_the_update_on_the_third() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    x = torch.randn(6, 4, 3)
    before = model.weight.detach().clone()

    def body(index: int) -> None:
        (model(x[index]).square().sum() / 3).backward()
        if index % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()

    with watched(model, body, batches=6, optimizer=optimizer) as run:
        so_far = torch.zeros_like(before)
        bias = model.bias.detach().clone()
        for index in range(3):
            weight = before.clone().requires_grad_()
            loss = (x[index] @ weight.T + bias).square().sum() / 3
            alone = torch.autograd.grad(loss, weight)[0]
            so_far += alone
            assert torch.allclose(run.snapshot.weight_gradients["weight"], so_far)
            changed = not torch.equal(run.snapshot.weights["weight"], before)
            assert changed == (index == 2)
            assert ("momentum_buffer" in run.snapshot.optimizer_state["weight"]) == (index == 2)
            if index < 2:
                run.do("step_batch")
        assert torch.allclose(run.snapshot.weights["weight"], before - 0.5 * so_far)
        run.do("step_batch")  # after the step the sum begins anew
        weight = run.snapshot.weights["weight"].clone().requires_grad_()
        loss = (x[3] @ weight.T + run.snapshot.weights["bias"]).square().sum() / 3
        first = torch.autograd.grad(loss, weight)[0]
        assert torch.allclose(run.snapshot.weight_gradients["weight"], first)
