"""Loops."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, images, kind, mlp


@kind
def gradient_accumulation() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 0

    def train(item: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        loss = F.cross_entropy(model(item[0]), item[1])
        (loss / 3).backward()
        if count % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return Program(model, [optimizer], images(7), train)


@kind
def zero_grad_after_step() -> Program:
    model = mlp()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)

    def train(item: Any) -> torch.Tensor:
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def lbfgs_closure() -> Program:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def train(item: Any) -> torch.Tensor:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(item[0]), item[1])
            loss.backward()
            return loss

        return torch.as_tensor(optimizer.step(closure)).detach()

    return Program(model, [optimizer], images(), train)


@kind
def gradient_penalty_by_double_backward() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def train(item: Any) -> torch.Tensor:
        x = item[0].requires_grad_()
        out = model(x).sum()
        (gradient,) = torch.autograd.grad(out, x, create_graph=True)
        loss = out.square() * 0.01 + (gradient.flatten(1).norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def several_backward_calls() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        out = model(item[0])
        first = F.cross_entropy(out, item[1])
        first.backward(retain_graph=True)
        second = out.square().mean() * 0.1
        second.backward()
        optimizer.step()
        return (first + second).detach()

    return Program(model, [optimizer], images(), train)


@kind
def learning_rate_schedule() -> Program:
    program = classify(mlp())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(program.optimizers[0], 0.1, total_steps=100)
    inner = program.train

    def train(item: Any) -> torch.Tensor:
        loss = inner(item)
        scheduler.step()
        return loss

    program.train, program.schedulers = train, [scheduler]
    return program


@kind
def exception_in_forward_that_is_caught() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(item: Any) -> torch.Tensor:
        with contextlib.suppress(RuntimeError):
            model(item[0][:, :, :3])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train)
