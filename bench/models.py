"""The models that are measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

BATCHES = 64
"""Batches that differ: of one that comes again and again every sample would set new records."""


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.skip = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class ResNet20(nn.Module):
    """He et al. 2015, section 4.2, for 32 x 32 pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        widths = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
        self.blocks = nn.Sequential(*(Block(*width) for width in widths))
        self.fc = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, 4)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 256, width: int = 128, depth: int = 4, length: int = 64) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Step(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        nn.init.normal_(self.fc.weight, std=0.01)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(x)


@dataclass
class Program:
    """A model in training; `step` is one batch."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], None]
    five: tuple[str, ...]
    """Five layers to watch, spread over the model."""


def resnet20() -> Program:
    torch.manual_seed(0)
    model = ResNet20()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    batches = itertools.cycle(
        [(torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))) for _ in range(BATCHES)]
    )

    def step() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    five = ("stem.0", "blocks.1.conv1", "blocks.3.conv2", "blocks.6.bn2", "fc")
    return Program("ResNet-20, batch 32", model, optimizer, step, five)


def gpt() -> Program:
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = itertools.cycle([torch.randint(0, 256, (16, 65)) for _ in range(BATCHES)])

    def step() -> None:
        ids = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()

    five = ("wte", "layers.0.attn.qkv", "layers.1.mlp.1", "layers.3.norm1", "head")
    return Program("4-layer GPT", model, optimizer, step, five)


def deep(width: int = 768, depth: int = 100, batch: int = 16) -> Program:
    """302 layers: 100 residual steps, each with its linear layer and its sum; the input and the head."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Step(width) for _ in range(depth)), nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    batches = itertools.cycle(
        [(torch.randn(batch, width), torch.randint(0, 10, (batch,))) for _ in range(BATCHES)]
    )

    def step() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return Program("302 layers", model, optimizer, step, ("0.fc", "25.fc", "50.fc", "75.fc", "100"))
