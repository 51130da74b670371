"""What torch does to modules and graphs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

from tests.kinds.program import Program, classify, images, kind, mlp


class Clamp(torch.autograd.Function):
    """A straight-through estimator: its backward is not the derivative of its forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(-0.5, 0.5)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


@kind
def custom_autograd_function() -> Program:
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc2(Clamp.apply(self.fc1(x.flatten(1))))

    return classify(Custom())


def _checkpointed(reentrant: bool) -> Program:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(1, 4, 3)
            self.block = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Dropout(0.2), nn.ReLU(inplace=True))
            self.fc = nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = checkpoint(self.block, self.stem(x), use_reentrant=reentrant)
            return self.fc(y.mean((2, 3)))

    return classify(Checkpointed())


@kind
def activation_checkpointing_reentrant() -> Program:
    return _checkpointed(True)


@kind
def activation_checkpointing() -> Program:
    return _checkpointed(False)


@kind
def normed_parametrized_and_pruned() -> Program:
    model = nn.Sequential(
        nn.Flatten(),
        nn.utils.parametrizations.weight_norm(nn.Linear(64, 16)),
        nn.ReLU(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)),
        nn.utils.spectral_norm(nn.Linear(16, 8)),
        nn.Linear(8, 5),
    )
    prune.l1_unstructured(model[5], "weight", amount=0.3)
    return classify(model)


@kind
def lazy_modules() -> Program:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))
    model(torch.zeros(1, 1, 8, 8))
    return classify(model)


@kind
def module_replaced_while_training() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 0

    def train(item: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        if count == 3:
            model[2] = nn.GELU()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(5), train)
