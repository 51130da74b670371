"""What a kind is made of, and the plain loops that most kinds use."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import nn

EPOCHS = 2

KINDS: dict[str, Callable[[], Program]] = {}


class Walk(Protocol):
    """How a loop goes through its batches: a `Session`, or `Bare`."""

    def epochs(self, n: int) -> Iterator[int]: ...

    def batches(self, loader: Iterable[Any], *, phase: str) -> Iterator[Any]: ...

    def batch(self, *, phase: str) -> AbstractContextManager[None]: ...


class Bare:
    """The loop as it would be without a debugger."""

    def epochs(self, n: int) -> Iterator[int]:
        return iter(range(n))

    def batches(self, loader: Iterable[Any], *, phase: str) -> Iterator[Any]:
        return iter(loader)

    def batch(self, *, phase: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


@dataclass
class Program:
    model: nn.Module
    optimizers: list[torch.optim.Optimizer]
    batches: Any
    """A list, unless the kind is about another loader."""
    train: Callable[[Any], torch.Tensor]
    """The body of the training loop for one item; returns the loss."""
    validate: Callable[[Any], torch.Tensor] | None = None
    schedulers: list[Any] = field(default_factory=list)
    loop: Callable[[Walk], list[torch.Tensor]] | None = None
    """The whole loop, where the plain one over `batches` is not what the kind is about."""
    also: Callable[[], Any] = dict
    """State beside the model's and the optimizers': nested dicts and lists of tensors and numbers."""

    def run(self, walk: Walk) -> list[torch.Tensor]:
        """Train; returns the losses."""
        if self.loop is not None:
            return self.loop(walk)
        losses = []
        for _ in walk.epochs(EPOCHS):
            losses += [self.train(item) for item in walk.batches(self.batches, phase="train")]
            if self.validate is not None:
                some = list(itertools.islice(self.batches, 2))
                losses += [self.validate(item) for item in walk.batches(some, phase="val")]
        return losses


def kind(build: Callable[[], Program]) -> Callable[[], Program]:
    assert build.__name__ not in KINDS
    KINDS[build.__name__] = build
    return build


def images(n: int = 4, channels: int = 1, size: int = 8, classes: int = 5, samples: int = 6) -> list[Any]:
    return [
        (torch.randn(samples, channels, size, size), torch.randint(0, classes, (samples,))) for _ in range(n)
    ]


def tokens(n: int = 4, length: int = 7, vocabulary: int = 11) -> list[Any]:
    return [torch.randint(0, vocabulary, (4, length)) for _ in range(n)]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))


def head(channels: int, classes: int = 5) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


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


def language(model: nn.Module, loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Program:
    """The plain loop over token ids."""
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


def fit(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], torch.Tensor],
    batches: Iterable[Any],
    optimizer: torch.optim.Optimizer | None = None,
) -> Program:
    """The plain loop around a loss of one's own: no validation, no clipping."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        out = loss(model, item)
        out.backward()
        optimizer.step()
        return out.detach()

    return Program(model, [optimizer], batches, train)
