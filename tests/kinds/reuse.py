"""Models and modules that run more than once in a batch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, fit, images, kind, mlp, tokens


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


@kind
def one_encoder_on_different_shapes() -> Program:
    class Lengths(nn.Module):
        """A question and an answer through one encoder; the pooling of both has no size of its own."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 6)
            self.encode = nn.GRU(6, 6, batch_first=True)
            self.pool = nn.AdaptiveMaxPool1d(2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out, _ = self.encode(self.embed(ids))
            return self.pool(out.mT).flatten(1)

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        questions, answers = model(ids[:, :3]), model(ids[:2, 1:])
        alone = model(ids[:1])
        return F.mse_loss(questions[:2], answers) + alone.square().mean()

    return fit(Lengths(), loss, tokens())


@kind
def contrastive_with_momentum_encoder_and_queue() -> Program:
    class Contrast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.slow = mlp(), mlp()
            self.slow.load_state_dict(self.encoder.state_dict())
            self.slow.requires_grad_(False)
            self.register_buffer("queue", F.normalize(torch.randn(12, 5), dim=1))
            self.at = 0

        @torch.no_grad()
        def follow(self) -> None:
            for fast, slow in zip(self.encoder.parameters(), self.slow.parameters(), strict=True):
                slow.mul_(0.9).add_(fast, alpha=0.1)

        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            query = F.normalize(self.encoder(one), dim=1)
            with torch.no_grad():
                self.follow()
                key = F.normalize(self.slow(other), dim=1)
            positive = (query * key).sum(1, keepdim=True)
            logits = torch.cat([positive, query @ self.queue.clone().T], 1) / 0.2
            self.queue[self.at : self.at + len(key)] = key
            self.at = (self.at + len(key)) % len(self.queue)
            return F.cross_entropy(logits, torch.zeros(len(query), dtype=torch.long))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x = item[0]
        return model(x + 0.1 * torch.randn_like(x), x.flip(-1))

    model = Contrast()
    return fit(model, loss, images(), torch.optim.SGD(model.encoder.parameters(), lr=0.1))


@kind
def triplets_with_a_loss_module_outside_the_model() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Hardswish(inplace=True), nn.Linear(8, 4))
    criterion = nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(p=1.0), margin=0.5)

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x, _ = item
        return criterion(model(x), model(x + 0.1), model(x.roll(1, 0)))

    return fit(model, loss, images())


@kind
def submodules_called_without_the_root() -> Program:
    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 8), nn.Tanh())
            self.decoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(True), nn.Linear(16, 64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.decoder(self.encoder(x))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x = item[0].flatten(1)
        code = model.encoder(x)
        code = code + 0.1 * torch.randn_like(code)
        return F.mse_loss(model.decoder(code), x) + 0.01 * code.abs().mean()

    return fit(Autoencoder(), loss, images())


@kind
def forward_called_directly() -> Program:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = mlp(), nn.Linear(5, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last.forward(torch.relu(self.inner.forward(x)))

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner[1](self.inner[0](x))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        return F.cross_entropy(model.forward(item[0]), item[1]) + model.features(item[0]).square().mean()

    return fit(Outer(), loss, images())


@kind
def weights_used_without_calling_their_modules() -> Program:
    class Borrowed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.norm, self.out = nn.Linear(64, 8), nn.LayerNorm(8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.linear(x.flatten(1), self.fc.weight.tanh(), self.fc.bias)
            x = F.layer_norm(x, (8,), self.norm.weight, self.norm.bias)
            return torch.addmm(self.out.bias, x, self.out.weight.T)

    return classify(Borrowed())


@kind
def in_place_ops_of_all_sorts() -> Program:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)
            self.drop = nn.Dropout(0.2, inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.drop(self.fc1(x.flatten(1)))
            y = y.clone().masked_fill_(y > 1, 1.0)
            y[y < -1] = -1.0
            y += 0.5
            y *= 2
            first, second = y.unbind(1)[:2]
            z = torch.stack([first, second], 1).clamp_(min=-0.7).neg_()
            y = y.index_add(1, torch.tensor([0, 3]), z)
            y.t_().mul_(0.5).t_()
            F.leaky_relu_(y.sub_(y.detach().mean(1, keepdim=True)), 0.1)
            return self.fc2(y).squeeze_().unsqueeze_(0)[0]

    return classify(InPlace())


@kind
def a_module_that_calls_itself() -> Program:
    class Tree(nn.Module):
        """A recursive network: the two halves of a row, down to single pixels."""

        def __init__(self) -> None:
            super().__init__()
            self.leaf, self.join, self.out = nn.Linear(8, 6), nn.Linear(12, 6), nn.Linear(6, 5)

        def forward(self, x: torch.Tensor, top: bool = True) -> torch.Tensor:
            if x.shape[1] == 1:
                return torch.tanh(self.leaf(x[:, 0]))
            left, right = (self(half, top=False) for half in x.chunk(2, dim=1))
            y = torch.tanh(self.join(torch.cat([left, right], 1)))
            return self.out(y) if top else y

    program = classify(Tree())
    program.batches = [(x[:, 0], y) for x, y in images(3)]
    return program
