"""Compiled code calls no hooks, so it is not used while a batch is captured; all others keep it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from nansense_widgets.capture.installed import Installed, Patch

__all__ = ["EagerRun", "may_be_compiled", "was_anything_compiled"]


def may_be_compiled() -> bool:
    """Whether anything in this process may have been compiled: the model, a part, or a function around it.

    The compiler is imported by the first `torch.compile`, and it takes a second or two.
    """
    return "torch._dynamo" in sys.modules


def was_anything_compiled() -> bool:
    """Whether `torch.compile` was called in this process, on whatever it was."""
    backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
    return any(backend is not None for backend in backends.values())


class EagerRun:
    """What one captured batch needs to run eagerly; as several may overlap, the stance is shared."""

    def enter(self) -> None:
        """Run eagerly from here on."""
        _PATCHES.need(self)
        _STANCE.set()

    def exit(self) -> None:
        """Use compiled code again, unless another one needs it. May be called twice."""
        if _PATCHES.release(self):
            _STANCE.restore()


class _Stance:
    def __init__(self) -> None:
        self._ours: Any = None

    def set(self) -> None:
        if self._ours is None:
            self._ours = torch.compiler.set_stance("force_eager")

    def restore(self) -> None:
        ours, self._ours = self._ours, None
        if ours is None:
            return
        eval_frame = sys.modules.get("torch._dynamo.eval_frame")
        current = getattr(eval_frame, "_stance", None)
        # A stance that the user has set meanwhile stays.
        if current is None or current is ours.stance:
            ours.__exit__(None, None, None)
        # One that he leaves later goes back to ours, which by then is what it was before.
        for name, value in vars(ours.prev).items() if hasattr(ours, "prev") else ():
            setattr(ours.stance, name, value)


def _patches() -> Iterator[Patch]:
    # A compiled module warns of every global hook, ours too; a user who makes errors of warnings would
    # get one in his forward. https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/eval_frame.py#L500
    yield torch_module, "_has_any_global_hook", lambda _: lambda: False
    # `torch.export` needs the compiler; `torch.cond` and its like compile their branches where nothing else
    # is compiled, and fail in the backward if they may not.
    # https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_higher_order_ops/utils.py#L273
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    if eval_frame is not None:
        yield eval_frame, "_callback_from_stance", _except_in_operators


def _except_in_operators(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)
    state = getattr(sys.modules.get("torch._higher_order_ops.utils"), "_hop_compile_tls", None)

    def callback_from_stance(callback: Any) -> Any:
        wanted = getattr(state, "in_hop_compile", False) or is_exporting()
        return callback if wanted else original(callback)

    return callback_from_stance


_PATCHES = Installed(_patches)
_STANCE = _Stance()
