"""Which torch calls are layers of their own, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

__all__ = ["OpKind", "op_detail", "op_kind"]


@dataclass(frozen=True)
class OpKind:
    """How one torch function appears: its `name`; `alias` ones only give a tensor another name."""

    name: str
    alias: bool
    returns_self: bool
    """Its result is its first argument, changed in place (`x[i] = v` returns None)."""


# Attribute reads and bookkeeping calls: they compute nothing, so they are no layers.
_TRANSPOSES = frozenset({"T", "mT", "H", "mH"})

_ALIASES = frozenset(
    {
        "data", "grad", "real", "imag", "requires_grad_", "retain_grad",
        "register_hook",
        "backward", "numpy", "cpu", "cuda", "to", "type", "pin_memory", "share_memory_", "contiguous",
        "__deepcopy__", "__reduce_ex__", "__array__", "as_subclass", "is_pinned",
        "_make_subclass", "refine_names", "rename", "rename_",
    }
)  # fmt: skip


@lru_cache(maxsize=4096)
def op_kind(func: Callable[..., Any]) -> OpKind:
    """The kind of a function as `__torch_function__` receives it."""
    name = getattr(func, "__name__", "") or type(func).__name__
    if name in ("__get__", "__set__", "__delete__"):  # a property of Tensor: its name is on the descriptor
        attribute = getattr(getattr(func, "__self__", None), "__name__", "attribute")
        return OpKind(attribute, alias=attribute not in _TRANSPOSES, returns_self=False)
    alias = name in _ALIASES
    if name == "__setitem__":
        return OpKind("setitem", alias=False, returns_self=True)
    if name.startswith("__") and name.endswith("__"):
        inner = name[2:-2]
        if inner in _IN_PLACE:
            return OpKind(_IN_PLACE[inner] + "_", alias, returns_self=False)
        return OpKind(_REFLECTED.get(inner, inner), alias, returns_self=False)
    return OpKind(name.lstrip("_"), alias, returns_self=False)


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
_IN_PLACE = {"i" + name: name.replace("truediv", "div") for name in _ARITHMETIC}
_REFLECTED = {"r" + name: name.replace("truediv", "div") for name in _ARITHMETIC} | {"truediv": "div"}


def op_detail(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The plain arguments of an op, e.g. `1, keepdim=True`; tensors are left out."""
    parts = [_plain(value) for value in args]
    parts += [f"{key}={text}" for key, value in kwargs.items() if (text := _plain(value))]
    return ", ".join(part for part in parts if part)[:120]


def _plain(value: Any) -> str:
    if isinstance(value, (bool, int, float, str, torch.dtype, torch.device, slice, type(Ellipsis))):
        return repr(value)
    if isinstance(value, (tuple, list)) and value and all(isinstance(item, int) for item in value):
        return repr(tuple(value))
    return ""
