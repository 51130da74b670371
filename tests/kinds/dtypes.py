"""Kinds of number."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, images, kind, language, mlp


@kind
def sparse_embedding() -> Program:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8, sparse=True)
            self.fc = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.fc(self.embed(ids).mean(1))

    model = Bag()
    program = language(model, lambda m, ids: F.cross_entropy(m(ids), ids[:, 0]))
    optimizers = [
        torch.optim.SparseAdam([model.embed.weight], lr=0.01),
        torch.optim.SGD(model.fc.parameters(), lr=0.1),
    ]

    def train(ids: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(ids), ids[:, 0])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    program.optimizers, program.train = list(optimizers), train
    return program


@kind
def double_precision_and_complex() -> Program:
    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 5, dtype=torch.complex128) * 0.1)
            self.fc = nn.Linear(40, 5, dtype=torch.float64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spectrum = torch.fft.rfft2(x[:, 0].double()) * self.weight
            return self.fc(torch.fft.irfft2(spectrum, s=(8, 5)).flatten(1)).float()

    return classify(Spectral())


@kind
def half_precision() -> Program:
    model = mlp().to(torch.bfloat16)
    program = classify(model)
    program.batches = [(x.bfloat16(), y) for x, y in images()]
    return program
