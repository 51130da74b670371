"""Loss scaling: what `torch.amp.GradScaler` multiplied, so that gradients can be shown as they are.

A scaler tells an optimizer nothing of a skipped step, and has no hooks. For the length of a captured batch
three of its methods pass through here first; they do and return what they always did.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.installed import Installed, Patch
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.values import unobserved

__all__ = ["LossScaling"]


_SCALE = "nansense_widgets: scale"

STEPS = 4
"""Operations between a scaled loss and the backward pass that it is looked for through."""


class LossScaling:
    """What the scalers of one batch did.

    Args:
        on_stepped: called after each `scaler.step(optimizer)`, when gradients are unscaled, step or not.
    """

    def __init__(self, on_stepped: Callable[[Optimizer], None]) -> None:
        self.scale: torch.Tensor | None = None
        """The factor of the loss that the backward under way began with; None outside, or without one."""
        self._on_stepped = on_stepped
        self._thread = threading.get_ident()
        self._found_inf: list[tuple[Optimizer, list[torch.Tensor]]] = []
        self._divided: set[int] = set()
        self._handles: list[RemovableHandle] = []

    def install(self) -> None:
        """Begin to listen."""
        _LISTENERS.append(self)
        _WRAPPED.need(self)

    def remove(self) -> None:
        """Stop listening."""
        if self in _LISTENERS:
            _LISTENERS.remove(self)
        _WRAPPED.release(self)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def forget(self) -> None:
        """The batch is over, and listening goes on."""
        if self._handles or self._found_inf or self._divided:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            self._found_inf.clear()
            self._divided.clear()

    def is_unscaled(self, optimizer: Optimizer) -> bool:
        """Whether the gradients of this optimizer's parameters have been divided by the scale."""
        return id(optimizer) in self._divided

    def scale_of(self, loss: torch.Tensor) -> torch.Tensor | None:
        """The factor in a loss that a scaler has given, or in what was made of it; None for others."""
        nodes = [] if not self._handles or loss.grad_fn is None else [loss.grad_fn]
        for _ in range(STEPS):  # `(scaler.scale(loss) / 2).backward()`
            for node in nodes:
                if (scale := _metadata(node).get(_SCALE)) is not None:
                    found: torch.Tensor = scale
                    return found
            nodes = [inner for node in nodes for inner, _ in node.next_functions if inner is not None]
        return None

    def skipped(self) -> list[Optimizer]:
        """Optimizers whose step a scaler left out because a gradient was Inf or NaN."""
        return [optimizer for optimizer, found in self._found_inf if any(bool(flag) for flag in found)]

    def heard(
        self, method: str, scaler: GradScaler, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """A method of a scaler has returned."""
        if torch.compiler.is_compiling() or not scaler.is_enabled():
            return
        try:
            with unobserved():
                if method == "scale":
                    self._scaled(scaler, result)
                elif method == "unscale_":
                    self._divided.add(id(_optimizer(*args, **kwargs)))
                else:
                    self._stepped(scaler, _optimizer(*args, **kwargs))
        except Exception:  # noqa: S110  a torch that keeps this elsewhere: nothing is told
            pass

    def _scaled(self, scaler: GradScaler, losses: Any) -> None:
        if threading.get_ident() != self._thread or scaler._scale is None:
            return
        scale = scaler._scale.detach().clone()
        for _, loss in leaves(losses):
            if loss.grad_fn is not None:
                _metadata(loss.grad_fn)[_SCALE] = scale  # goes with the graph
                self._handles.append(loss.grad_fn.register_prehook(lambda _: self._begin_pass(scale)))

    def _begin_pass(self, scale: torch.Tensor) -> None:
        if torch.compiler.is_compiling():
            return
        self.scale = scale
        torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)

    def _end_pass(self) -> None:
        self.scale = None

    def _stepped(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        self._found_inf.append((optimizer, [flag.detach().clone() for flag in found.values()]))
        # A fused optimizer divides in its own step, which it does not take when it is to be skipped.
        if not getattr(optimizer, "_step_supports_amp_scaling", False):
            self._divided.add(id(optimizer))
        self._on_stepped(optimizer)


def _optimizer(optimizer: Optimizer, *_: Any, **__: Any) -> Optimizer:
    return optimizer


def _metadata(node: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = node.metadata  # torch's types say that it is a method
    return found


_LISTENERS: list[LossScaling] = []


def _patches() -> Iterator[Patch]:
    for name in ("scale", "unscale_", "step"):
        yield GradScaler, name, functools.partial(_telling, name)


def _telling(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(scaler: GradScaler, *args: Any, **kwargs: Any) -> Any:
        result = original(scaler, *args, **kwargs)
        for listener in tuple(_LISTENERS):
            listener.heard(name, scaler, args, kwargs, result)
        return result

    return method


_WRAPPED = Installed(_patches)
