"""`MultiheadAttention` uses the weights of its `out_proj` without calling it: no hook there ever fires, and a
tool that waits for one calls the layer dead.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from tests.reports.training import watched


def test_attention_projection_shows_its_weights_and_gradients() -> None:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("attention", nn.MultiheadAttention(16, 4))
    alone = copy.deepcopy(model)
    x = torch.randn(5, 2, 16)

    def step(model: Any) -> torch.Tensor:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        out, _weights = model.attention(x, x, x)
        out.square().sum().backward()
        optimizer.step()
        return out.detach()

    with watched(model, lambda _: step(model)) as run:
        out = step(alone)
        for name, parameter in alone.named_parameters():
            assert torch.equal(run.snapshot.weights[name], parameter)
            assert torch.equal(run.snapshot.weight_gradients[name], parameter.grad)
        assert run.snapshot.weight_gradients["attention.out_proj.weight"].abs().sum() > 0
        assert torch.equal(run.leaf("attention").activation, out)
        assert torch.equal(run.leaf("attention").gradient, 2 * out)
        attention = run.card("attention")
        assert attention["by_kind"]["activations"]["dead"] == []
        why = run.card("attention.out_proj")["by_kind"]["activations"]["missing"]
        assert why == "not called as a module: the attention around it uses its weights"
        assert run.snapshot.weight_gradient_reasons == {}
