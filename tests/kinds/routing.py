"""Layers that run for some of the data only."""

from __future__ import annotations

import torch
from torch import nn

from tests.kinds.program import Program, classify, kind


@kind
def mixture_of_experts() -> Program:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 3)
            self.experts = nn.ModuleList([nn.Linear(64, 5) for _ in range(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.flatten(1)
            weights, chosen = self.gate(x).softmax(-1).max(-1)
            out = x.new_zeros(x.shape[0], 5)
            for index, expert in enumerate(self.experts):
                rows = (chosen == index).nonzero().squeeze(-1)
                if len(rows):
                    out.index_add_(0, rows, expert(x[rows]) * weights[rows, None])
            return out

    return classify(Mixture())
