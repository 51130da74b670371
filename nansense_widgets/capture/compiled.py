"""Compiled models: a captured batch runs eagerly, all others keep their compiled code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

__all__ = ["EagerStance", "may_be_compiled"]


def may_be_compiled() -> bool:
    """Whether anything in this process may have been compiled: the model, a part, or a function around it.

    The compiler is imported by the first `torch.compile`, and it takes a second or two.
    """
    return "torch._dynamo" in sys.modules


class EagerStance:
    """Compiled code calls no hooks, so it is not used for the length of a captured batch.

    Made before the batch's hooks are installed, entered after.
    """

    def __init__(self) -> None:
        self._stance: Any = torch.compiler.set_stance("force_eager")
        self._stance.__exit__(None, None, None)  # creating it sets it; that is `enter`'s to do
        self._patches: list[tuple[Any, str, Any]] = []
        # A compiled module warns of every global hook, ours too; a user who makes errors of warnings would
        # get one in his forward. https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/eval_frame.py#L500
        ask_for_hooks: Callable[[], object] = torch_module._has_any_global_hook
        has_hooks = bool(ask_for_hooks())
        self._wrappers: list[tuple[Any, str, Callable[[Any], Any]]]
        self._wrappers = [(torch_module, "_has_any_global_hook", lambda _: lambda: has_hooks)]
        # `torch.cond` and its like compile their branches where nothing else is compiled, and fail in the
        # backward if they may not. https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_higher_order_ops/utils.py#L273
        eval_frame = sys.modules.get("torch._dynamo.eval_frame")
        if eval_frame is not None:
            self._wrappers.append((eval_frame, "_callback_from_stance", _except_in_operators))

    def enter(self) -> None:
        """Run eagerly from here on."""
        for module, name, wrap in self._wrappers:
            original = getattr(module, name, None)
            if original is not None:  # a torch that is built in another way has its own behaviour here
                setattr(module, name, wrap(original))
                self._patches.append((module, name, original))
        self._stance.__enter__()

    def exit(self) -> None:
        """Use compiled code again."""
        self._stance.__exit__(None, None, None)
        for module, name, original in self._patches:
            setattr(module, name, original)
        self._patches.clear()


def _except_in_operators(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    state = getattr(sys.modules.get("torch._higher_order_ops.utils"), "_hop_compile_tls", None)

    def callback_from_stance(callback: Any) -> Any:
        return callback if getattr(state, "in_hop_compile", False) else original(callback)

    return callback_from_stance
