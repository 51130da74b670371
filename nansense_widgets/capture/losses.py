"""The loss, where the loop's `backward()` is seen: the value that each batch's backward pass starts from.

For the length of a batch `torch.autograd.backward`, which `Tensor.backward` calls, passes through here first.
It does what it always did; a reference to the value is all that is taken.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from nansense_widgets.capture.installed import Installed, Patch
from nansense_widgets.capture.scaling import LossScaling
from nansense_widgets.capture.values import unobserved

__all__ = ["MOST_LOSSES", "LossWatch"]

MOST_LOSSES = 4
"""Backward passes of one batch whose losses are told; a GAN has two or three."""


class LossWatch:
    """Sees the losses of one batch after the other, on the training thread.

    Args:
        on_loss: called with the number of the pass in its batch, from 0, and the loss: a tensor of no axes
            without a graph, divided by the scale of a `GradScaler`.
    """

    def __init__(self, on_loss: Callable[[int, torch.Tensor], None]) -> None:
        self._on_loss = on_loss
        self._thread = 0
        self._count = 0
        self._scaling = LossScaling(lambda _: None)

    def install(self) -> None:
        """A batch begins."""
        self._thread = threading.get_ident()
        self._count = 0
        self._scaling = LossScaling(lambda _: None)
        self._scaling.install()
        _LISTENERS.append(self)
        _WRAPPED.need(self)

    def remove(self) -> None:
        """It is over; may be called twice."""
        if self in _LISTENERS:
            _LISTENERS.remove(self)
        _WRAPPED.release(self)
        self._scaling.remove()

    def heard(self, roots: Any) -> None:
        """A backward pass begins."""
        if threading.get_ident() != self._thread:
            return
        try:
            with unobserved():
                for root in (roots,) if isinstance(roots, torch.Tensor) else tuple(roots):
                    if isinstance(root, torch.Tensor) and root.numel() == 1 and not root.is_complex():
                        self._take(root)
        except Exception:  # noqa: S110  never an error in the user's backward
            pass

    def _take(self, root: torch.Tensor) -> None:
        if self._count >= MOST_LOSSES:
            return
        number, self._count = self._count, self._count + 1
        scale = self._scaling.scale_of(root)
        loss = root.detach().reshape(())
        self._on_loss(number, loss if scale is None else loss.double() / scale.to(loss.device).reshape(()))


_LISTENERS: list[LossWatch] = []


def _patches() -> Iterator[Patch]:
    yield torch.autograd, "backward", _telling


def _telling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # What Dynamo makes of this must not depend on who listens.
        if not torch.compiler.is_compiling():
            for listener in tuple(_LISTENERS):
                listener.heard(tensors)
        return original(tensors, *args, **kwargs)

    return backward


_WRAPPED = Installed(_patches)
