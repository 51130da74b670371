"""Loss scaling: what `torch.amp.GradScaler` multiplied, so that gradients can be shown as they are.

A scaler tells an optimizer nothing of a skipped step, and has no hooks. For the length of a captured batch
three of its methods pass through here first; they do and return what they always did.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from nansense_widgets.capture.installed import Installed

__all__ = ["LossScaling"]


class LossScaling:
    """What the scalers of one batch did, on the thread that made it.

    Args:
        on_stepped: called after each `scaler.step(optimizer)`, when gradients are unscaled, step or not.
    """

    def __init__(self, on_stepped: Callable[[Optimizer], None]) -> None:
        self.scale: torch.Tensor | None = None
        """The factor of the last scaled loss; a copy, on its device."""
        self._on_stepped = on_stepped
        self._thread = threading.get_ident()
        self._found_inf: list[tuple[Optimizer, list[torch.Tensor]]] = []
        self._unscaled: set[int] = set()

    def install(self) -> None:
        """Begin to listen."""
        _LISTENERS.append(self)
        _WRAPPED.need()

    def remove(self) -> None:
        """Stop listening."""
        if self in _LISTENERS:
            _LISTENERS.remove(self)
            _WRAPPED.release()

    def is_unscaled(self, optimizer: Optimizer) -> bool:
        """Whether the gradients of this optimizer's parameters have been divided by the scale."""
        return self.scale is None or id(optimizer) in self._unscaled

    def skipped(self) -> list[Optimizer]:
        """Optimizers whose step a scaler left out because a gradient was Inf or NaN."""
        return [optimizer for optimizer, found in self._found_inf if any(bool(flag) for flag in found)]

    def heard(self, method: str, scaler: GradScaler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A method of a scaler has returned."""
        if threading.get_ident() != self._thread or torch.compiler.is_compiling():
            return
        try:
            with torch._C.DisableTorchFunction():
                getattr(self, _METHODS[method])(scaler, *args, **kwargs)
        except Exception:  # noqa: S110  a torch that keeps this elsewhere: nothing is told
            pass

    def _scaled(self, scaler: GradScaler, *_: Any, **__: Any) -> None:
        if scaler.is_enabled() and scaler._scale is not None:
            self.scale = scaler._scale.detach().clone()

    def _unscaled_(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        if scaler.is_enabled():
            self._unscaled.add(id(optimizer))

    def _stepped(self, scaler: GradScaler, optimizer: Optimizer, *_: Any, **__: Any) -> None:
        if not scaler.is_enabled():
            return
        self._unscaled.add(id(optimizer))
        found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        self._found_inf.append((optimizer, [flag.detach().clone() for flag in found.values()]))
        self._on_stepped(optimizer)


_METHODS = {"scale": "_scaled", "unscale_": "_unscaled_", "step": "_stepped"}
_LISTENERS: list[LossScaling] = []


def _wrap_methods() -> Callable[[], None]:
    originals = {name: getattr(GradScaler, name) for name in _METHODS}
    for name, original in originals.items():
        setattr(GradScaler, name, _telling(name, original))

    def unwrap() -> None:
        for name, original in originals.items():
            setattr(GradScaler, name, original)

    return unwrap


def _telling(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(scaler: GradScaler, *args: Any, **kwargs: Any) -> Any:
        result = original(scaler, *args, **kwargs)
        for listener in tuple(_LISTENERS):
            listener.heard(name, scaler, args, kwargs)
        return result

    return method


_WRAPPED = Installed(_wrap_methods)
