"""The live objects of a run whose state is taken and put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim import Optimizer

__all__ = ["RunParts", "names_in"]


@dataclass
class RunParts:
    """The objects of a run whose state is taken: live, and the same ones for as long as the run goes on.

    Attributes:
        model: its parameters, buffers, gradients and flags.
        optimizers: with their state and the settings of their groups.
        schedulers: anything with `state_dict` and `load_state_dict`.
        tracked: the same, by the name that the user gave.
    """

    model: nn.Module
    optimizers: Sequence[Optimizer] = ()
    schedulers: Sequence[Any] = ()
    tracked: dict[str, Any] = field(default_factory=dict)


def names_in(model: nn.Module) -> dict[int, str]:
    """Id of each parameter to its name."""
    return {id(parameter): name for name, parameter in model.named_parameters()}
