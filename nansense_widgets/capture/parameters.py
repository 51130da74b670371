"""Weights, buffers, the gradients that the optimizer used, and optimizer state, of one batch."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.hooks import OPTIMIZER_HOOKS
from nansense_widgets.capture.model_tensors import ModelTensors
from nansense_widgets.capture.optimizer_state import OptimizerValues, optimizer_label, read_optimizers
from nansense_widgets.capture.scaling import LossScaling
from nansense_widgets.capture.snapshot import ParameterInfo
from nansense_widgets.capture.updates import UpdateWatch, parameters_of_optimizer
from nansense_widgets.capture.values import Budget, Kept, copied, to_cpu, unobserved, unscale

__all__ = ["ParameterValues", "ParameterWatch"]


@dataclass
class ParameterValues:
    """What a batch leaves behind of its parameters, by parameter name; see `BatchSnapshot`."""

    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    gradient_reasons: dict[str, str] = field(default_factory=dict)
    updates: dict[str, torch.Tensor] = field(default_factory=dict)
    update_reasons: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    buffer_reasons: dict[str, str] = field(default_factory=dict)
    optimizers: OptimizerValues = field(default_factory=OptimizerValues)
    info: dict[str, ParameterInfo] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)


class ParameterWatch:
    """Reads gradients at the moment the optimizer uses them, so that `zero_grad` may come any time after.

    Args:
        tensors: what to read, by name.
        optimizers: the session's optimizers; parameters in none of them are read when their gradient
            has been accumulated too, since the loop may update them by itself.
        budget: what the snapshot of the batch may take.
    """

    def __init__(self, tensors: ModelTensors, optimizers: Sequence[Optimizer], budget: Budget) -> None:
        self._budget = budget
        self._tensors = tensors
        self._parameters = parameters = tensors.parameters
        self._updates = UpdateWatch({name: parameters[name] for name in sorted(tensors.watched)}, budget)
        self._optimizers = optimizers
        self._gradients: dict[str, Kept] = {}
        self._factors: dict[str, tuple[torch.Tensor | None, Optimizer | None]] = {}
        """What kept gradients are still multiplied by, and who has divided them if it was not skipped."""
        self._handles: list[RemovableHandle] = []
        self.seconds = 0.0
        """Time spent copying inside the user's backward and step."""
        self._names = {id(p): name for name, p in parameters.items()}
        self._thread = threading.get_ident()
        self.reached: dict[str, torch.Tensor | None] = {}
        """Parameters whose gradient backward has accumulated in this batch, and the loss's scale then."""
        self._owner: dict[str, Optimizer] = {}
        self._before: dict[str, _Gradient] = {}
        self.scaling = LossScaling(self._after_scaler)

    def install(self) -> None:
        """Begin to listen."""
        self._before = {name: _Gradient(p) for name, p in self._parameters.items()}
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if (name := self._names.get(id(parameter))) is not None:
                        self._owner[name] = optimizer
        # Torch's hook on all optimizers, so that one that `start` was not given, or that the loop made
        # later, is heard too.
        OPTIMIZER_HOOKS.add(self)
        self._updates.install()
        for parameter in self._parameters.values():
            lazy = isinstance(parameter, UninitializedParameter)
            if not lazy and parameter.requires_grad and parameter.is_leaf:
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated))
        self.scaling.install()

    def remove(self) -> None:
        """Stop listening."""
        self.scaling.remove()
        OPTIMIZER_HOOKS.remove(self)
        self._updates.remove()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    @property
    def seconds_in_hooks(self) -> float:
        """Time spent inside the user's backward and steps."""
        return self.seconds + self._updates.seconds

    def finish(self) -> ParameterValues:
        """Stop listening; read what is there now."""
        self.remove()
        with unobserved():
            return self._read_all()

    def _read_all(self) -> ParameterValues:
        found = ParameterValues()
        skipped = {id(optimizer) for optimizer in self.scaling.skipped()}
        for name, parameter in self._parameters.items():
            kept = to_cpu(copied(parameter, self._budget, "row"))
            if kept.tensor is not None:
                found.weights[name] = kept.tensor
            if why := kept.reason or kept.part:
                found.reasons[name] = why
            used = to_cpu(self._gradient(name, parameter, skipped))
            if used.tensor is not None:
                found.gradients[name] = used.tensor
            if why := used.reason or used.part:
                found.gradient_reasons[name] = why
        found.updates, found.update_reasons = self._updates.result(self.scaling.skipped())
        for name, buffer in self._tensors.buffers.items():
            kept = to_cpu(self._kept(buffer))
            if kept.tensor is not None:
                found.buffers[name] = kept.tensor
            if why := kept.reason or kept.part:
                found.buffer_reasons[name] = why
        found.optimizers = read_optimizers(
            self._optimizers, self._names, lambda tensor: to_cpu(self._kept(tensor)).tensor
        )
        for name, parameter in self._parameters.items():
            found.info[name] = ParameterInfo(
                self._tensors.names.get(name, ()),
                parameter.requires_grad,
                tuple(found.optimizers.owners.get(name, ())),
            )
        for name, names in self._tensors.names.items():
            found.tied.update(dict.fromkeys(names[1:], name))
        return found

    def notes(self) -> list[str]:
        """What happened to the steps of this batch, if it is worth a word."""
        return [
            f"{optimizer_label(optimizer, self._optimizers)}: step skipped, "
            "because GradScaler found Inf or NaN in a gradient"
            for optimizer in self.scaling.skipped()
        ]

    def _gradient(self, name: str, parameter: nn.Parameter, skipped: set[int]) -> Kept:
        used = self._gradients.get(name)
        owner = self._owner.get(name)
        # A gradient that this batch did not touch is an earlier one's (validation after training).
        before = self._before.get(name)
        touched = before is None or before.is_touched(parameter)
        if used is None and parameter.grad is not None and touched:
            used = self._kept(parameter.grad)
            self._factors[name] = self._factor(name, owner)
        if used is None:
            if name in self.reached:
                return Kept(None, "no gradient: it was set to None before an optimizer stepped with it")
            return Kept(None, _why_no_gradient(parameter))
        scale, stepping = self._factors.get(name, (None, None))
        # A fused optimizer divides the gradients in its own step, which it does not take when it is skipped.
        divided = stepping is not None and id(stepping) not in skipped
        if scale is None or divided or used.tensor is None:
            return used
        return Kept(unscale(used.tensor, scale), part=used.part)

    def _factor(self, name: str, owner: Optimizer | None) -> tuple[torch.Tensor | None, Optimizer | None]:
        """What the gradient is multiplied by now, and the fused optimizer that may be about to divide it."""
        if owner is not None and self.scaling.is_unscaled(owner):
            return None, None
        return self.reached.get(name), None

    def _read(self, optimizer: Optimizer) -> None:
        began = time.perf_counter()
        with unobserved():
            for parameter in parameters_of_optimizer(optimizer):
                name = self._names.get(id(parameter))
                if name is not None:
                    self._take(name, parameter, optimizer)
        self.seconds += time.perf_counter() - began

    def _take(self, name: str, parameter: torch.Tensor, owner: Optimizer | None) -> None:
        if parameter.grad is not None:
            self._gradients[name] = self._kept(parameter.grad)
            self._factors[name] = self._factor(name, owner)

    def _after_scaler(self, optimizer: Optimizer) -> None:
        self._read(optimizer)
        if self.scaling.is_unscaled(optimizer):
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = self._names.get(id(parameter))
                if name in self._factors:
                    self._factors[name] = (self._factors[name][0], optimizer)

    def before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Read the gradients that an optimizer is about to use."""
        if torch.compiler.is_compiling() or threading.get_ident() != self._thread:
            return  # a compiled step: its gradients are read at the batch's end
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)  # args[0] is the optimizer
        if closure is not None:
            return  # a closure (LBFGS) computes the gradients inside the step: they are read after it
        self._read(optimizer)

    def after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Nothing: what a step leaves is read at the batch's end, what it changed by `UpdateWatch`."""

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if torch.compiler.is_compiling():
            return
        name = self._names[id(parameter)]
        self.reached[name] = self.scaling.scale
        if name not in self._owner:  # an optimizer will step with the others, after clipping and all
            began = time.perf_counter()
            with unobserved():
                self._take(name, parameter, None)
            self.seconds += time.perf_counter() - began

    def _kept(self, tensor: torch.Tensor) -> Kept:
        try:
            return copied(tensor, self._budget, "row")
        except Exception as error:  # never an error in the user's step
            return Kept(None, f"{type(error).__name__}: {error}")


class _Gradient:
    """Which gradient a parameter had, and in which version, without keeping it alive."""

    def __init__(self, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        self._gradient = None if gradient is None else weakref.ref(gradient)
        self._version = _version(gradient)

    def is_touched(self, parameter: torch.Tensor) -> bool:
        """Whether the parameter has another gradient now, or that one changed in place."""
        gradient = parameter.grad
        if self._gradient is None or self._gradient() is not gradient:
            return gradient is not None
        return _version(gradient) != self._version


def _why_no_gradient(parameter: torch.Tensor) -> str:
    if isinstance(parameter, UninitializedParameter):
        return "no gradient: uninitialised until its first forward"
    if not parameter.requires_grad:
        return "no gradient: frozen (requires_grad is False)"
    if parameter.grad is not None:
        return "no gradient: backward did not reach it in this batch (`.grad` is left from an earlier one)"
    return "no gradient: backward did not reach it in this batch"


def _version(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None or tensor.is_inference() else tensor._version
