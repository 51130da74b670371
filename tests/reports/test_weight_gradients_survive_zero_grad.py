"""`backward`, `step`, `zero_grad`: when the batch is over the gradients are gone, and they are shown."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.reports.training import watched


@pytest.mark.parametrize("known", [True, False], ids=["optimizer given", "optimizer not given"])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_weight_gradients_survive_zero_grad(set_to_none: bool, known: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    alone = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x = torch.randn(5, 4)

    def body(_: int) -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)

    with watched(model, body, optimizer=optimizer if known else None) as run:
        alone(x).square().mean().backward()
        assert all(p.grad is None or not p.grad.any() for p in model.parameters())
        assert run.snapshot.weight_gradients.keys() == dict(alone.named_parameters()).keys()
        for name, parameter in alone.named_parameters():
            assert torch.equal(run.snapshot.weight_gradients[name], parameter.grad)
