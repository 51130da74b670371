"""`weight_norm(Linear(20, 40))`, and a module that keeps `self.feat = out`: `copy.deepcopy` refuses them in
the midst of training, since an attribute is a tensor inside a graph, so a tool that copies the model fails.

Captured they are like any other. That moments and experiments work for them too belongs here once there are
moments and experiments.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from tests.reports.training import watched


class Keeps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(20, 40), nn.Linear(40, 3)
        self.feat: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.feat = self.fc(x)
        out: torch.Tensor = self.out(self.feat)
        return out


def old_weight_norm() -> nn.Sequential:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still in use
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(20, 40)), nn.Linear(40, 3))


def test_a_module_that_keeps_its_feature() -> None:
    model = Keeps()
    x = torch.randn(4, 20)
    refused: list[str] = []

    def body(_: int) -> None:
        loss = model(x).square().sum()
        with pytest.raises(RuntimeError) as error:
            copy.deepcopy(model)
        refused.append(str(error.value))
        loss.backward()

    with watched(model, body) as run:
        feature = model.fc(x)
        assert torch.equal(run.snapshot.activations["fc"], feature)
        by_hand = torch.autograd.grad(model.out(feature).square().sum(), feature)[0]
        assert torch.allclose(run.snapshot.activation_gradients["fc"], by_hand)
        assert run.draws("fc", feature[2][:16, None, None], sample=2)
    assert all("deepcopy" in text for text in refused)


@pytest.mark.parametrize("style", ["old", "parametrization"])
def test_weight_norm_shows_the_parts_that_are_learned(style: str) -> None:
    if style == "old":
        model, parts = old_weight_norm(), ("0.weight_g", "0.weight_v")
    else:
        normed = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
        model = nn.Sequential(normed, nn.Linear(40, 3))
        parts = tuple(f"0.parametrizations.weight.original{i}" for i in (0, 1))  # type: ignore[assignment]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = torch.randn(4, 20)

    def body(_: int) -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    with watched(model, body, optimizer=optimizer) as run:
        magnitude, direction = (run.snapshot.weights[part].clone().requires_grad_() for part in parts)
        weight = magnitude * direction / direction.norm(dim=1, keepdim=True)
        out = x @ weight.T + run.snapshot.weights["0.bias"]
        assert torch.allclose(run.snapshot.activations["0"], out, atol=1e-6)
        (out @ run.snapshot.weights["1.weight"].T + run.snapshot.weights["1.bias"]).square().sum().backward()
        for part, value in zip(parts, (magnitude, direction), strict=True):
            assert value.grad is not None
            assert torch.allclose(run.snapshot.weight_gradients[part], value.grad, rtol=1e-3, atol=1e-4)
