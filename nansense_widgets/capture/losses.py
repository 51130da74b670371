"""The loss, where the loop's `backward()` is seen: the value that each batch's backward pass starts from.

While a loop goes on, `torch.autograd.backward`, which `Tensor.backward` calls, passes through here first. It
does what it always did; a reference to the value is all that is taken. It is not put in place anew in every
batch: of a small model that would be a noticeable part of its step.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
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
        on_loss: called with the number of the pass in its batch, from 0, and the loss, divided by the scale
            of a `GradScaler`: a number, or on an accelerator a tensor of no axes, for which nothing waits.
    """

    def __init__(self, on_loss: Callable[[int, float | torch.Tensor], None]) -> None:
        self._on_loss = on_loss
        self._thread = 0
        self._count = 0
        self._listens = False
        self._scaling = LossScaling(lambda _: None)

    def begin(self) -> None:
        """A batch begins."""
        self._count = 0
        if not self._listens:
            self._listens = True
            self._thread = threading.get_ident()
            self._scaling = LossScaling(lambda _: None)
            self._scaling.install()
            _LISTENERS.append(weakref.ref(self))
            _WRAPPED.need(self)
            weakref.finalize(self, _WRAPPED.release_id, id(self))  # of a session that nobody has closed
        elif self._thread != threading.get_ident():  # another loop, on a thread of its own
            self.remove()
            self.begin()
        if _tell is _tell_all:
            _hide_from_dynamo()

    def end(self) -> None:
        """It is over."""
        self._count = MOST_LOSSES
        self._scaling.forget()

    def remove(self) -> None:
        """Stop listening; may be called twice."""
        self._listens = False
        _LISTENERS[:] = [known for known in _LISTENERS if known() not in (None, self)]
        _WRAPPED.release(self)
        self._scaling.remove()

    def heard(self, roots: Any) -> None:
        """A backward pass begins."""
        if self._count >= MOST_LOSSES or threading.get_ident() != self._thread:
            return
        try:
            if type(roots) is torch.Tensor and roots.is_cpu and not _is_observed():
                self._take(roots)  # nearly always; and who trains a small model notices every microsecond
                return
            with unobserved():
                for root in (roots,) if isinstance(roots, torch.Tensor) else tuple(roots):
                    if isinstance(root, torch.Tensor):
                        self._take(root)
        except Exception:  # noqa: S110  never an error in the user's backward
            pass

    def _take(self, root: torch.Tensor) -> None:
        if self._count >= MOST_LOSSES or root.numel() != 1 or root.is_complex():
            return
        number, self._count = self._count, self._count + 1
        scale = self._scaling.scale_of(root)
        if root.is_cpu:
            self._on_loss(number, root.item() / (1.0 if scale is None else float(scale)))
            return
        # A copy: the loop may change its loss in place, and nothing is to wait for it here.
        loss = root.detach().clone().reshape(())
        self._on_loss(number, loss if scale is None else loss.double() / scale.to(root.device).reshape(()))


def _is_observed() -> bool:
    """Whether a mode of the user's sees what is done with tensors."""
    return bool(torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())


_UNDER_WAY = threading.local()

_LISTENERS: list[weakref.ref[LossWatch]] = []


def _patches() -> Iterator[Patch]:
    yield torch.autograd, "backward", _telling


def _telling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # What Dynamo makes of this must not depend on who listens. A pass inside a pass is none of a loss
        # (reentrant checkpointing), or it is this one again, wrapped by somebody who has wrapped us.
        if torch.compiler.is_compiling() or getattr(_UNDER_WAY, "backward", False):
            return original(tensors, *args, **kwargs)
        _tell(tensors)
        _UNDER_WAY.backward = True
        try:
            return original(tensors, *args, **kwargs)
        finally:
            _UNDER_WAY.backward = False

    return backward


_WRAPPED = Installed(_patches)

_CODE = _telling(lambda *_: None).__code__


def _tell_all(roots: Any) -> None:
    for known in tuple(_LISTENERS):
        listener = known()
        if listener is not None:
            listener.heard(roots)


_tell: Callable[[Any], None] = _tell_all


def _hide_from_dynamo() -> None:
    """Have Dynamo leave our part alone.

    Where a whole step is compiled, it breaks its graph at `backward()` and compiles what that calls: the
    wrapper and everything in it would be so many graphs more.
    """
    global _tell  # noqa: PLW0603  once, when somebody has begun to compile
    eval_frame: Any = sys.modules.get("torch._dynamo.eval_frame")
    if eval_frame is not None and _tell is _tell_all:
        eval_frame.skip_code(_CODE)  # of the wrapper; what torch does in it is compiled or not as ever
        _tell = torch.compiler.disable(_tell_all)
