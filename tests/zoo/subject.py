"""What the zoo trains: a model, batches for it, and a loss of what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

__all__ = ["STEPS", "Batch", "Case", "NotRun", "Subject", "square_loss", "tensors_in"]

STEPS = 3
"""Batches of a run. Ops become known in the first captured one, modules that a forward makes or replaces in
the second; in the third everything is watched."""


Batch = dict[str, Any] | tuple[Any, ...]
"""Arguments of one forward, by name or by position."""


class NotRun(Exception):  # noqa: N818  not an error: a model that this zoo cannot feed or build
    """A model that cannot be run here, with the reason as its text."""


@dataclass
class Subject:
    """One model in a fresh state.

    Attributes:
        batches: as many as `STEPS`.
        loss: one number from what the forward returned.
        note: what is special about the way this model is run.
    """

    model: nn.Module
    batches: Sequence[Batch]
    loss: Callable[[Any], torch.Tensor]
    note: str = ""
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self) -> None:
        self.model.train()
        # Small steps: nothing here is to converge, but a run that ends in NaN would compare nothing.
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def forward(self, batch: Batch) -> Any:
        """The model's output for one batch."""
        return self.model(**batch) if isinstance(batch, dict) else self.model(*batch)


@dataclass(frozen=True)
class Case:
    """A model of the zoo.

    Attributes:
        build: makes the same subject each time it is called under the same seed.
        prepare: called once before; may draw random numbers.
    """

    name: str
    family: str
    build: Callable[[], Subject]
    prepare: Callable[[], object] = lambda: None


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in an output, in torch's own order; not the debugger's way to find them, on purpose."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def square_loss(output: Any) -> torch.Tensor:
    """The mean square of each floating tensor with a history, added up; infinite (masked) entries as 0."""
    parts = [
        torch.where(leaf.isfinite(), leaf, 0).float().square().mean()
        for leaf in tensors_in(output)
        if leaf.requires_grad and leaf.is_floating_point() and leaf.numel()
    ]
    if not parts:
        raise NotRun("its output has no tensor that a loss could be computed from")
    return torch.stack(parts).sum()
