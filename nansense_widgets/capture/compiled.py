"""Compiled code calls no hooks, so it is not used while a batch is captured; all others keep it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from nansense_widgets.capture.installed import Installed

__all__ = ["EAGERLY", "may_be_compiled"]


def may_be_compiled() -> bool:
    """Whether anything in this process may have been compiled: the model, a part, or a function around it.

    The compiler is imported by the first `torch.compile`, and it takes a second or two.
    """
    return "torch._dynamo" in sys.modules


def _run_eagerly() -> Callable[[], None]:
    # A compiled module warns of every global hook, ours too; a user who makes errors of warnings would
    # get one in his forward. https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/eval_frame.py#L500
    wrappers: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (torch_module, "_has_any_global_hook", lambda _: lambda: False)
    ]
    # `torch.cond` and its like compile their branches where nothing else is compiled, and fail in the
    # backward if they may not. https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_higher_order_ops/utils.py#L273
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    if eval_frame is not None:
        wrappers.append((eval_frame, "_callback_from_stance", _except_in_operators))
    originals: list[tuple[Any, str, Any]] = []
    for module, name, wrap in wrappers:
        original = getattr(module, name, None)
        if original is not None:  # a torch that is built in another way has its own behaviour here
            setattr(module, name, wrap(original))
            originals.append((module, name, original))
    stance = torch.compiler.set_stance("force_eager")

    def use_compiled_code_again() -> None:
        stance.__exit__(None, None, None)
        for module, name, original in originals:
            setattr(module, name, original)

    return use_compiled_code_again


def _except_in_operators(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    state = getattr(sys.modules.get("torch._higher_order_ops.utils"), "_hop_compile_tls", None)

    def callback_from_stance(callback: Any) -> Any:
        return callback if getattr(state, "in_hop_compile", False) else original(callback)

    return callback_from_stance


EAGERLY = Installed(_run_eagerly)
