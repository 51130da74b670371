"""What a traced graph would freeze: random numbers, branches, state, views."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tests.kinds.program import Program, classify, kind


@kind
def random_numbers_in_forward() -> Program:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale = float(np.random.rand()) + torch.rand(()).item()
            return self.fc(x.flatten(1) * scale + torch.randn_like(x.flatten(1)) * 0.1)

    return classify(Noisy())


@kind
def branch_on_a_value() -> Program:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(64, 5), nn.Linear(64, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.flatten(1)
            return self.a(x) if x.mean() > 0 else torch.tanh(self.b(x))

    return classify(Branching())


@kind
def loop_over_input() -> Program:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(8, 6)
            self.fc = nn.Linear(6, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x.new_zeros(x.shape[0], 6)
            for row in x[:, 0].unbind(1):
                h = self.cell(row, h)
            return self.fc(h)

    return classify(Recurrent())


@kind
def frozen_part_under_no_grad() -> Program:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                features = self.backbone(x).mean((2, 3))
            return self.fc(features)

    return classify(Frozen())


@kind
def autocast_in_forward() -> Program:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 16), nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                x = self.fc1(x.flatten(1))
            return self.fc2(x.float())

    return classify(Mixed())


@kind
def keeps_a_tensor_on_itself() -> Program:
    class Keeper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 5)
            self.register_buffer("seen", torch.zeros(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.feature = x.flatten(1)
            self.seen.mul_(0.9).add_(self.feature.mean(0), alpha=0.1)
            return self.fc(self.feature - self.seen)

    return classify(Keeper())


@kind
def in_place_on_a_view() -> Program:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.fc1(x.flatten(1)) * 1
            y[:, :4].mul_(2)
            y[:, 1] = 0
            return self.fc2(y)

    return classify(Views())


@kind
def user_hooks() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))
    model[1].register_forward_hook(lambda module, args, out: out * 1.5)
    model[2].register_full_backward_hook(lambda module, gi, go: tuple(g * 0.5 for g in gi))
    model[1].weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
    return classify(model)
