"""Compiled models: a captured batch runs eagerly, all others keep their compiled code."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

__all__ = ["EagerStance", "has_compiled_part"]


def has_compiled_part(model: nn.Module) -> bool:
    """Whether `module.compile()` or `torch.compile` was called on the model or a part of it."""
    return any(
        getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod")
        for module in model.modules()
    )


class EagerStance:
    """Compiled code calls no hooks, so it is not used for the length of a captured batch.

    Made before the batch's hooks are installed, entered after.
    """

    def __init__(self) -> None:
        self._stance: Any = torch.compiler.set_stance("force_eager")
        self._stance.__exit__(None, None, None)  # creating it sets it; that is `enter`'s to do
        # A compiled module warns of every global hook, ours too; a user who makes errors of warnings would
        # get one in his forward. https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/eval_frame.py#L500
        self._ask_for_hooks = torch_module._has_any_global_hook
        self._has_hooks = bool(self._ask_for_hooks())  # type: ignore[no-untyped-call]

    def enter(self) -> None:
        """Run eagerly from here on."""
        torch_module._has_any_global_hook = lambda: self._has_hooks
        self._stance.__enter__()

    def exit(self) -> None:
        """Use compiled code again."""
        self._stance.__exit__(None, None, None)
        torch_module._has_any_global_hook = self._ask_for_hooks
