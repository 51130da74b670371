"""Layers that run for some of the data only, or in some batches only."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, fit, images, kind


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


@kind
def mixture_of_two_experts_with_capacity() -> Program:
    class TopTwo(nn.Module):
        """Two experts a token, a limit an expert, a noisy gate and a loss that balances them."""

        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4, bias=False)
            self.up = nn.Parameter(torch.randn(4, 8, 12) * 0.3)
            self.down = nn.Parameter(torch.randn(4, 12, 8) * 0.3)
            self.balance = torch.zeros(())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = x.flatten(0, 1)
            logits = self.gate(tokens)
            if self.training:
                logits = logits + torch.randn_like(logits) * 0.1
            shares = logits.softmax(-1)
            weights, chosen = shares.topk(2)
            weights = weights / weights.sum(-1, keepdim=True)
            out = torch.zeros_like(tokens)
            for index in range(4):
                rows, slot = (chosen == index).nonzero(as_tuple=True)
                rows, slot = rows[:20], slot[:20]
                hidden = F.silu(tokens[rows] @ self.up[index]) @ self.down[index]
                out.index_add_(0, rows, hidden * weights[rows, slot, None])
            load = F.one_hot(chosen[:, 0], 4).float().mean(0)
            self.balance = 4 * (load * shares.mean(0)).sum()
            return out.view_as(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.experts, self.head = nn.Linear(8, 8), TopTwo(), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x[:, 0])
            return self.head((x + self.experts(x)).mean(1))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        return F.cross_entropy(model(item[0]), item[1]) + 0.01 * model.experts.balance

    return fit(Model(), loss, images())


@kind
def stochastic_depth_and_random_depth() -> Program:
    class Deep(nn.Module):
        """Each block may be left out for some samples, and the last ones for a whole batch."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(64, 8), nn.Linear(8, 5)
            self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(5)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.flatten(1))
            depth = random.randint(1, 5) if self.training else 5
            for block in list(self.blocks)[:depth]:
                keep = (torch.rand(len(x), 1) < 0.8).float() / 0.8 if self.training else 1.0
                x = x + torch.tanh(block(x)) * keep
            return self.head(x)

    return classify(Deep())


@kind
def straight_through_gumbel_choices() -> Program:
    class Discrete(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits, self.codes, self.out = nn.Linear(64, 12), nn.Embedding(12, 6), nn.Linear(6, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits = self.logits(x.flatten(1)).view(-1, 3, 4)
            choice = F.gumbel_softmax(logits, tau=0.7, hard=True)
            codes = choice.flatten(1) @ self.codes.weight
            binary = (codes > 0).float()
            return self.out(binary + codes.sigmoid() - codes.sigmoid().detach())

    return classify(Discrete())


@kind
def computing_until_it_is_sure() -> Program:
    class Halting(nn.Module):
        """Samples leave the loop one by one; the last one ends it."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.cell = nn.Linear(64, 8), nn.GRUCell(8, 8)
            self.halt, self.out = nn.Linear(8, 1), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.flatten(1))
            h, left, total = torch.zeros_like(x), torch.ones(len(x)), torch.zeros_like(x)
            for _ in range(6):
                h = self.cell(x, h)
                stop = self.halt(h).squeeze(1).sigmoid()
                used = torch.where(left - stop > 0.05, stop, left)
                total = total + used[:, None] * h
                left = left - used
                if bool((left <= 0).all()):
                    break
            return self.out(total)

    return classify(Halting())


@kind
def experts_that_nothing_registers() -> Program:
    class Hidden(nn.Module):
        """Modules in plain lists and dicts: torch does not know them as the model's, the optimizer does."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Linear(64, 8)
            self.plain = [nn.Linear(8, 8) for _ in range(2)]
            self.table = {"out": nn.Linear(8, 5)}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.flatten(1))
            for layer in self.plain:
                x = F.relu(layer(x))
            return self.table["out"](x)

    model = Hidden()
    unknown = nn.ModuleList([*model.plain, model.table["out"]])
    parameters = [*model.parameters(), *unknown.parameters()]
    program = classify(model, torch.optim.Adam(parameters, lr=0.01))
    program.also = unknown.state_dict
    return program
