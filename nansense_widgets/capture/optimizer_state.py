"""What optimizers hold for the parameters of a model: state tensors, and the settings of their groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim import Optimizer

from nansense_widgets.capture.snapshot import ParameterOptimizer, Setting

__all__ = ["OptimizerValues", "optimizer_label", "read_optimizers"]


@dataclass
class OptimizerValues:
    """By parameter name; see `BatchSnapshot`."""

    state: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    settings: dict[str, dict[str, float]] = field(default_factory=dict)
    owners: dict[str, list[ParameterOptimizer]] = field(default_factory=dict)


def read_optimizers(
    optimizers: Sequence[Optimizer],
    names: Mapping[int, str],
    keep: Callable[[torch.Tensor], torch.Tensor | None],
) -> OptimizerValues:
    """Everything as it is now.

    Args:
        optimizers: those of the session.
        names: of the parameters wanted, by `id`.
        keep: copies a tensor to the CPU.
    """
    found = OptimizerValues()
    for number, optimizer in enumerate(optimizers):
        label = optimizer_label(optimizer, optimizers)
        for place, group in enumerate(optimizer.param_groups):
            settings = {
                str(key): setting for key, value in group.items() if (setting := _setting(value)) is not None
            }
            numeric = {key: float(value) for key, value in settings.items() if not isinstance(value, tuple)}
            for parameter in group["params"]:
                known = names.get(id(parameter))
                if known is None:
                    continue
                found.settings.setdefault(known, {}).update(numeric)
                held = optimizer.state.get(parameter, {})
                entries: dict[str, torch.Tensor] = {}
                for key, value in held.items() if isinstance(held, dict) else ():
                    tensor = _as_tensor(value, keep)
                    if tensor is not None:
                        entries[str(key)] = tensor
                found.state.setdefault(known, {}).update(entries)
                named = f"{label}, group {place + 1}" if len(optimizer.param_groups) > 1 else label
                found.owners.setdefault(known, []).append(
                    ParameterOptimizer(named, number, place, settings, entries)
                )
    return found


def optimizer_label(optimizer: Optimizer, optimizers: Sequence[Optimizer]) -> str:
    """Its class and, if there are several, which of them it is, from 1."""
    numbers = [i for i, known in enumerate(optimizers, 1) if known is optimizer]
    several = f" {numbers[0]}" if numbers and len(optimizers) > 1 else ""
    return f"{type(optimizer).__name__}{several}"


def _as_tensor(value: Any, keep: Callable[[torch.Tensor], torch.Tensor | None]) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return keep(value)
    if isinstance(value, (bool, int, float)):
        with suppress(OverflowError, RuntimeError):  # an int beyond 64 bits
            return torch.tensor(value)
    return None


def _setting(value: Any) -> Setting | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, (tuple, list)):
        numbers = [number for one in value if (number := _number(one)) is not None]
        return tuple(numbers) if numbers and len(numbers) == len(value) <= 4 else None
    return _number(value)


def _number(value: Any) -> float | None:
    with suppress(OverflowError):  # an int too large for a float is no knob to show
        if isinstance(value, (bool, int, float)):
            return float(value)
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_meta:
            return float(value.detach())
    return None
