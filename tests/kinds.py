"""Kinds of models and loops. Each is built the same way every time, so that two runs can be compared.

A kind is a function that returns a `Program`: the model, its optimizers, the batches, and the body of the
training loop. Bodies do what users do: they draw random numbers, work in place, branch on values, clip.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

KINDS: dict[str, Callable[[], Program]] = {}


@dataclass
class Program:
    model: nn.Module
    optimizers: list[torch.optim.Optimizer]
    batches: list[Any]
    train: Callable[[Any], torch.Tensor]
    """The body of the training loop for one item; returns the loss."""
    validate: Callable[[Any], torch.Tensor] | None = None
    schedulers: list[Any] = field(default_factory=list)


def kind(build: Callable[[], Program]) -> Callable[[], Program]:
    KINDS[build.__name__] = build
    return build


def images(n: int = 4, channels: int = 1, size: int = 8, classes: int = 5) -> list[Any]:
    return [(torch.randn(6, channels, size, size), torch.randint(0, classes, (6,))) for _ in range(n)]


def tokens(n: int = 4, length: int = 7, vocabulary: int = 11) -> list[Any]:
    return [torch.randint(0, vocabulary, (4, length)) for _ in range(n)]


def classify(model: nn.Module, optimizer: torch.optim.Optimizer | None = None, **loss: Any) -> Program:
    """The plain loop over images."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train(item: Any) -> torch.Tensor:
        x, y = item
        optimizer.zero_grad()
        out = F.cross_entropy(model(x), y, **loss)
        out.backward()
        optimizer.step()
        return out.detach()

    def validate(item: Any) -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            out = F.cross_entropy(model(item[0]), item[1])
        model.train()
        return out

    return Program(model, [optimizer], images(), train, validate)


# ------------------------------------------------------------------ convolutional


class Residual(nn.Module):
    def __init__(self, channels: int, inplace: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


def head(channels: int, classes: int = 5) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


@kind
def residual_network() -> Program:
    return classify(nn.Sequential(nn.Conv2d(1, 4, 3), Residual(4), Residual(4), *head(4)))


@kind
def residual_network_in_place() -> Program:
    return classify(nn.Sequential(nn.Conv2d(1, 4, 3), Residual(4, True), Residual(4, True), *head(4)))


@kind
def dropout_and_batchnorm() -> Program:
    return classify(
        nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout2d(0.3), nn.ELU(inplace=True), *head(4)
        )
    )


@kind
def unet() -> Program:
    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1 = nn.Conv2d(1, 4, 3, padding=1)
            self.down2 = nn.Conv2d(4, 8, 3, padding=1)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.out = nn.Conv2d(8, 5, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = torch.relu(self.down1(x))
            b = torch.relu(self.down2(F.max_pool2d(a, 2)))
            return self.out(torch.cat([self.up(b), a], dim=1)).mean((2, 3))

    return classify(UNet())


@kind
def densenet() -> Program:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(1 + 2 * i, 2, 3, padding=1) for i in range(3)])
            self.fc = nn.Linear(7, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = [x]
            for conv in self.convs:
                features.append(F.relu_(conv(torch.cat(features, 1))))
            return self.fc(torch.cat(features, 1).mean((2, 3)))

    return classify(Dense())


@kind
def three_dimensional() -> Program:
    model = nn.Sequential(
        nn.Conv3d(1, 3, 3), nn.GELU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(3, 5)
    )
    program = classify(model)
    program.batches = [(torch.randn(2, 1, 5, 5, 5), torch.randint(0, 5, (2,))) for _ in range(4)]
    return program


@kind
def one_dimensional() -> Program:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(16, 5))
    program = classify(model)
    program.batches = [(torch.randn(3, 2, 10), torch.randint(0, 5, (3,))) for _ in range(4)]
    return program


# ------------------------------------------------------------------ what a traced graph would freeze


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


# ------------------------------------------------------------------ sequences


@kind
def lstm_classifier() -> Program:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.lstm = nn.LSTM(8, 6, num_layers=2, dropout=0.2, batch_first=True)
            self.fc = nn.Linear(6, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out, (h, _) = self.lstm(self.embed(ids))
            return self.fc(out[:, -1] + h[-1])

    return language(Classifier(), lambda model, ids: F.cross_entropy(model(ids), ids[:, 0]))


def language(model: nn.Module, loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Program:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def train(ids: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        out = loss(model, ids)
        out.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return out.detach()

    def validate(ids: torch.Tensor) -> torch.Tensor:
        model.eval()
        with torch.inference_mode():
            out = loss(model, ids)
        model.train()
        return out.clone()

    return Program(model, [optimizer], tokens(), train, validate)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 11, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "norm1": nn.LayerNorm(width),
                        "attn": Attention(width, 2),
                        "norm2": nn.LayerNorm(width),
                        "mlp": nn.Sequential(
                            nn.Linear(width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, width)
                        ),
                    }
                )
                for _ in range(depth)
            ]
        )
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = x + block["attn"](block["norm1"](x))
            x = x + block["mlp"](block["norm2"](x))
        return self.head(x)


def next_token(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@kind
def gpt_with_tied_embeddings() -> Program:
    return language(GPT(), next_token)


@kind
def torch_transformer_encoder() -> Program:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.encoder = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), 2
            )
            self.head = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.encoder(self.embed(ids)))

    return language(Encoder(), lambda model, ids: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()))


@kind
def encoder_decoder_transformer() -> Program:
    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
            self.head = nn.Linear(8, 11)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return self.head(self.transformer(src=self.embed(source), tgt=self.embed(target)))

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids, target=ids.clone()).flatten(0, 1), ids.flatten())

    return language(Seq2Seq(), loss)


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


# ------------------------------------------------------------------ structure of inputs and outputs


class Output(NamedTuple):
    logits: torch.Tensor
    features: dict[str, torch.Tensor]


@kind
def nested_outputs_and_keyword_inputs() -> Program:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 5)

        def forward(self, *, hidden: torch.Tensor, scale: float, mask: torch.Tensor | None = None) -> Output:
            y = self.fc(hidden) * scale
            return Output(y if mask is None else y * mask, {"hidden": hidden})

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, batch: dict[str, Any]) -> torch.Tensor:
            return self.inner(hidden=batch["image"][0].flatten(1), scale=2.0, mask=None).logits

    model = Outer()
    program = classify(model)
    program.batches = [({"image": [x], "id": 3}, y) for x, y in images()]
    return program


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


# ------------------------------------------------------------------ loops


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))


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


# ------------------------------------------------------------------ machinery


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
