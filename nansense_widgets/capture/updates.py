"""What optimizer steps did to the parameters of one batch: the value after each step minus that before it."""

from __future__ import annotations

import threading
import time
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.hooks import OPTIMIZER_HOOKS
from nansense_widgets.capture.values import Budget, Kept, copied, to_cpu, unobserved

__all__ = ["UpdateWatch", "parameters_of_optimizer"]


class UpdateWatch:
    """Adds up what the steps of a batch change.

    The copy from before a step is taken at its very beginning, so what a closure computes inside is a part
    of it. Of an optimizer that calls others inside its own step only the outer one counts.

    Args:
        parameters: whose updates are wanted, by name.
        budget: what the snapshot of the batch may take.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], budget: Budget) -> None:
        self._parameters = parameters
        self._budget = budget
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._before: dict[str, tuple[Optimizer, Kept]] = {}
        self._updates: dict[str, Kept] = {}
        self._by: dict[str, set[int]] = {}
        self._thread = threading.get_ident()
        self.seconds = 0.0
        """Time spent inside the user's steps."""

    def install(self) -> None:
        """Begin to listen."""
        if self._names:
            OPTIMIZER_HOOKS.add(self)

    def remove(self) -> None:
        """Stop listening; may be called twice."""
        OPTIMIZER_HOOKS.remove(self)
        self._before.clear()

    def before_step(self, optimizer: Optimizer, *_rest: Any) -> None:
        """Keep the weights that the step is about to change."""
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return
        began = time.perf_counter()
        with unobserved():
            for parameter in parameters_of_optimizer(optimizer):
                name = self._names.get(id(parameter))
                if name is None:
                    continue
                stepping = self._before.get(name)
                if stepping is None or stepping[0] is optimizer:  # its last step raised
                    self._before[name] = (optimizer, self._copy(parameter))
        self.seconds += time.perf_counter() - began

    def after_step(self, optimizer: Optimizer, *_rest: Any) -> None:
        """What has changed since."""
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return
        began = time.perf_counter()
        with unobserved():
            for name in [name for name, (by, _) in self._before.items() if by is optimizer]:
                _, before = self._before.pop(name)
                self._by.setdefault(name, set()).add(id(optimizer))
                self._updates[name] = self._changed(name, before)
        self.seconds += time.perf_counter() - began

    def result(self, skipped: list[Optimizer]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Updates by parameter, and why there are none or not all; `skipped` are steps that were left out."""
        updates: dict[str, torch.Tensor] = {}
        reasons: dict[str, str] = {}
        left_out = {id(parameter) for one in skipped for parameter in parameters_of_optimizer(one)}
        optimizers = {id(one) for one in skipped}
        for name, parameter in self._parameters.items():
            kept = self._updates.get(name)
            if kept is None:
                reasons[name] = _why_none(parameter, id(parameter) in left_out)
            elif self._by[name] <= optimizers:  # a fused optimizer is called all the same
                reasons[name] = SKIPPED
            else:
                kept = to_cpu(kept)
                if kept.tensor is not None and not parameter.requires_grad and not kept.tensor.any():
                    kept = Kept(None, FROZEN)  # an optimizer that has it passes over it
                if kept.tensor is not None:
                    updates[name] = kept.tensor
                if why := kept.reason or kept.part:
                    reasons[name] = why
        return updates, reasons

    def _copy(self, parameter: torch.Tensor) -> Kept:
        try:
            return copied(parameter, self._budget, "row")
        except Exception as error:  # never an error in the user's step
            return Kept(None, f"{type(error).__name__}: {error}")

    def _changed(self, name: str, before: Kept) -> Kept:
        if before.tensor is None:
            return before
        try:
            now = self._parameters[name].detach()
            if before.part:
                now = now[: before.tensor.shape[0]]
            change = _minus(now, before.tensor)
            earlier = self._updates.get(name)
            if earlier is not None and earlier.tensor is not None:
                change += earlier.tensor
            return Kept(change, part=before.part)
        except Exception as error:  # such as: the step gave the parameter another shape
            return Kept(None, f"no update: {type(error).__name__}: {error}")


FROZEN = "no update: frozen (requires_grad is False)"
SKIPPED = "no update: the step was skipped, because GradScaler found Inf or NaN in a gradient"


def _minus(now: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """In float32 for narrower floats: the difference of two of them may be none of theirs."""
    if now.dtype.is_floating_point and now.element_size() < 4:
        return now.float() - before.float()
    return torch.sub(now, before, out=before)


def _why_none(parameter: torch.Tensor, skipped: bool) -> str:
    if not parameter.requires_grad:
        return FROZEN
    if skipped:
        return SKIPPED
    return "no update: no optimizer stepped with it in this batch"


def parameters_of_optimizer(optimizer: Optimizer) -> list[torch.Tensor]:
    """None of an optimizer that is only a shell around others."""
    try:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]
    except Exception:  # whatever a property of the user's raises
        return []
