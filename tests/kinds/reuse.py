"""Models and modules that run more than once in a batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, images, kind, mlp


@kind
def shared_module_called_twice() -> Program:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh())
            self.pool = nn.MaxPool2d(2)
            self.fc = nn.Linear(12, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.pool(self.pool(x))
            return self.fc(torch.cat([self.encode(x), self.encode(x.flip(-1))], 1))

    return classify(Twice())


@kind
def siamese() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(inplace=True), nn.Linear(8, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def train(item: Any) -> torch.Tensor:
        x, y = item
        optimizer.zero_grad()
        loss = F.cosine_embedding_loss(model(x), model(x.roll(1, 0)), (y > 2).float() * 2 - 1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def gan_with_two_optimizers() -> Program:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 64))
            self.critic = nn.Sequential(nn.Linear(64, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    model = Pair()
    for_g = torch.optim.Adam(model.generator.parameters(), lr=0.01)
    for_d = torch.optim.Adam(model.critic.parameters(), lr=0.01)

    def train(item: Any) -> torch.Tensor:
        real = item[0].flatten(1)
        fake = model.generator(torch.randn(len(real), 4))
        d_loss = F.softplus(model.critic(fake.detach())).mean() + F.softplus(-model.critic(real)).mean()
        for_d.zero_grad()
        d_loss.backward()
        for_d.step()
        g_loss = F.softplus(-model.critic(fake)).mean()
        for_g.zero_grad()
        g_loss.backward()
        for_g.step()
        return (d_loss + g_loss).detach()

    return Program(model, [for_g, for_d], images(), train)


@kind
def functional_call() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        halved = {name: p * 0.5 for name, p in model.named_parameters()}
        loss = F.cross_entropy(torch.func.functional_call(model, halved, (item[0],)), item[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def per_sample_gradients_by_vmap() -> Program:
    model = nn.Sequential(nn.Flatten(0), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(item: Any) -> torch.Tensor:
        parameters = dict(model.named_parameters())

        def loss(p: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(torch.func.functional_call(model, p, (x,)), y)

        gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, *item)
        optimizer.zero_grad()
        for name, parameter in parameters.items():
            parameter.grad = gradients[name].mean(0).detach()
        optimizer.step()
        return parameters["1.weight"].detach().sum()

    return Program(model, [optimizer], images(), train)
