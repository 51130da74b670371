"""Numeric settings of optimizers, as they are now, and how one of them is changed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

__all__ = ["Change", "Hyperparameter", "hyperparameters", "labels"]

_ENTRY = re.compile(r"(\w+)\[(\d+)\]")

_RANGES: dict[str, tuple[float, float, str]] = {
    "lr": (0.0, math.inf, "at least 0"),
    "weight_decay": (0.0, math.inf, "at least 0"),
    "momentum": (0.0, math.inf, "at least 0"),
    "eps": (0.0, math.inf, "at least 0"),
    "betas": (0.0, 1.0, "in [0, 1)"),
    "d": (1.0, math.inf, "at least 1"),
    "alpha": (0.0, math.inf, "at least 0"),
    "rho": (0.0, 1.0, "in [0, 1)"),
    "lr_decay": (0.0, math.inf, "at least 0"),
    "momentum_decay": (0.0, math.inf, "at least 0"),
    "beta2_decay": (-math.inf, 1e-300, "at most 0"),
    "etas[0]": (1e-300, 1.0, "in (0, 1)"),
    "etas[1]": (1.0, math.inf, "above 1"),
}
"""What torch's optimizers take when they are made; afterwards nobody checks."""

_FRACTIONS = frozenset(_RANGES) - {"d"} | {"dampening", "alpha", "rho", "lr_decay", "momentum_decay", "lambd"}
"""Settings that are often written as whole numbers (`momentum=0`) and need not remain it. Others that are
whole numbers count something."""

_FIXED = frozenset({"history_size"})
"""Settings that decide how large the optimizer's state is."""

_HIDDEN = ("initial_lr",)
"""Written into the groups by schedulers, for their own use."""


@dataclass(frozen=True)
class Hyperparameter:
    """One numeric setting of one parameter group.

    Attributes:
        name: as in the group, e.g. `lr`; of a pair, `betas[0]` and `betas[1]`.
        value: as it is now.
        optimizer: which of those that `start` was given, from 0.
        group: which of its parameter groups, from 0.
        label: the optimizer's class, with a number if there are several optimizers: `SGD`, `Adam 2`.
        group_label: what the group calls itself (`group["name"]`), else `group 1`, …; empty if it is the only
            one.
    """

    name: str
    value: float
    optimizer: int
    group: int
    label: str
    group_label: str


def labels(optimizers: Sequence[Optimizer]) -> list[str]:
    """A name for each."""
    several = len(optimizers) > 1
    return [
        f"{type(one).__name__} {at}" if several else type(one).__name__
        for at, one in enumerate(optimizers, 1)
    ]


def hyperparameters(optimizers: Sequence[Optimizer]) -> list[Hyperparameter]:
    """All numeric settings; flags are not among them."""
    found = []
    for at, (optimizer, label) in enumerate(zip(optimizers, labels(optimizers), strict=True)):
        for number, group in enumerate(optimizer.param_groups):
            name = f"group {number + 1}" if len(optimizer.param_groups) > 1 else ""
            group_label = str(group["name"]) if isinstance(group.get("name"), str) else name
            found += [
                Hyperparameter(key, value, at, number, label, group_label)
                for key, value in _numbers_of(group)
            ]
    return found


@dataclass(frozen=True)
class Change:
    """A change of one setting in some groups, checked and not yet made."""

    name: str
    value: float
    groups: tuple[tuple[int, int], ...]
    """Optimizer and group, from 0."""

    @staticmethod
    def checked(optimizers: Sequence[Optimizer], name: Any, value: Any, optimizer: Any, group: Any) -> Change:
        """The change that the arguments of `Session.set_hyperparameter` mean; raises if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"name={name!r} must be a string, e.g. 'lr'")
        number = _checked_number(value)
        if not optimizers:
            raise ValueError(f"name={name!r}: this session knows no optimizer; give it to start(optimizer=…)")
        chosen = _chosen("optimizer", optimizer, len(optimizers), "optimizers")
        groups = [
            (at, index)
            for at in chosen
            for index in _chosen("group", group, len(optimizers[at].param_groups), "parameter groups")
        ]
        settings = {(at, i): dict(_numbers_of(optimizers[at].param_groups[i])) for at, i in groups}
        having = [place for place, known in settings.items() if name in known]
        if not having:
            known = ", ".join(dict.fromkeys(key for known in settings.values() for key in known))
            of = " and ".join(labels(optimizers)[at] for at in chosen)
            raise ValueError(f"name={name!r} is no numeric setting of {of}; there are: {known}")
        base = _RANGES.get(name.partition("[")[0], (-math.inf, math.inf, ""))
        low, high, said = _RANGES.get(name, base)
        if not low <= number < high:
            raise ValueError(f"value={value!r}: {name} must be {said}")
        for at, index in having:
            _check_change(optimizers[at], optimizers[at].param_groups[index], name, number)
        return Change(name, number, tuple(having))

    def make(self, optimizers: Sequence[Optimizer]) -> list[tuple[int, int, float]]:
        """Change it; returns optimizer, group and the value before, where there was another one."""
        changed = []
        for at, index in self.groups:
            if at >= len(optimizers) or index >= len(optimizers[at].param_groups):
                continue
            group = optimizers[at].param_groups[index]
            before = dict(_numbers_of(group)).get(self.name)
            if before is None or before == self.value:
                continue
            _write(group, self.name, self.value)
            changed.append((at, index, before))
        return changed


def _check_change(optimizer: Optimizer, group: dict[str, Any], name: str, number: float) -> None:
    """Refuse what would end the loop in the optimizer's next step."""
    if name in _FIXED:
        raise ValueError(f"name={name!r}: {type(optimizer).__name__} has made its state for {group[name]!r}")
    if _is_count(group, name) and not number.is_integer():
        raise ValueError(f"value={number!r}: {name} must be a whole number, as {_raw(group, name)!r} is")
    if group.get("nesterov") and (name, number != 0) in (("momentum", False), ("dampening", True)):
        raise ValueError(f"value={number!r}: Nesterov's momentum needs a momentum and no dampening")
    if name == "momentum" and not isinstance(optimizer, torch.optim.SGD):
        before = float(group[name])
        if (before == 0) != (number == 0):
            raise ValueError(
                f"value={number!r}: {type(optimizer).__name__} began with momentum={before:g}, and keeps a "
                "buffer for it or not: it can be changed, but not between zero and others"
            )


def _is_count(group: dict[str, Any], name: str) -> bool:
    return isinstance(_raw(group, name), int) and name.partition("[")[0] not in _FRACTIONS


def _numbers_of(group: dict[str, Any]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for key, value in group.items():
        if key == "params" or key in _HIDDEN:
            continue
        if isinstance(value, (tuple, list)) and value and all(_is_number(entry) for entry in value):
            found += [(f"{key}[{at}]", float(entry)) for at, entry in enumerate(value)]
        elif _is_number(value):
            found.append((key, float(value)))
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):  # of optimizers that are compiled or captured as a CUDA graph
        return value.numel() == 1 and not value.is_meta
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


def _raw(group: dict[str, Any], name: str) -> Any:
    entry = _ENTRY.fullmatch(name)
    return group[entry[1]][int(entry[2])] if entry else group[name]


def _write(group: dict[str, Any], name: str, value: float) -> None:
    before = _raw(group, name)
    if isinstance(before, torch.Tensor):
        with torch.no_grad():
            before.fill_(value)
        return
    new: Any = int(value) if _is_count(group, name) else value
    entry = _ENTRY.fullmatch(name)
    if entry is None:
        group[name] = new
    else:
        entries = list(group[entry[1]])
        entries[int(entry[2])] = new
        group[entry[1]] = type(group[entry[1]])(entries)


def _checked_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"value={value!r} must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"value={value!r} must be finite")
    return number


def _chosen(argument: str, given: Any, count: int, what: str) -> list[int]:
    if given is None:
        return list(range(count))
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{argument}={given!r} must be an int (counted from 0) or None for all")
    if not 0 <= given < count:
        raise ValueError(f"{argument}={given!r}: there are {count} {what}, counted from 0")
    return [given]
