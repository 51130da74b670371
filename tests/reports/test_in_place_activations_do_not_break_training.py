"""Hooks that keep or wrap outputs make in-place activations raise, or change what is learned."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.reports.training import watched


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv2(self.relu(self.conv1(x)))
        out += x
        return self.relu(out)


class Dense(nn.Module):
    """Each layer reads all maps before it; in-place activations sit behind each batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(3 + 2 * i) for i in range(3)])
        self.convs = nn.ModuleList([nn.Conv2d(3 + 2 * i, 2, 3, padding=1) for i in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = torch.cat([x, conv(F.relu_(norm(x)))], 1)
        return x


MODELS = {
    "chain": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(inplace=True)),
    "residual": Residual,
    "dense": Dense,
}


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss: torch.Tensor = (model(x) - 1).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("name", MODELS)
def test_in_place_activations_train_as_without_the_debugger(name: str) -> None:
    torch.manual_seed(0)
    model: Any = MODELS[name]()
    alone = copy.deepcopy(model)
    batches = torch.randn(4, 2, 3, 6, 6)
    losses: list[torch.Tensor] = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(
        model, lambda i: losses.append(step(model, optimizer, batches[i])), batches=4, optimizer=optimizer
    ) as run:
        for _ in range(3):
            run.again()
            assert all("Error" not in reason for reason in run.snapshot.missing.values())
    expected = torch.optim.SGD(alone.parameters(), lr=0.1)
    assert torch.equal(torch.stack(losses), torch.stack([step(alone, expected, x) for x in batches]))
    for mine, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(mine, other)
