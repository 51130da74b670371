"""The tensors inside whatever a module takes or returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch

__all__ = ["leaves"]

MAX_DEPTH = 8


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield `(path, tensor)` for each tensor in nested tuples, lists, mappings and dataclasses.

    A path continues the layer's name: `""` for a plain tensor, `[1][0]` in tuples and lists, `.logits`
    for fields and for keys that are identifiers, `['a b']` for other keys.
    """
    if isinstance(value, torch.Tensor):
        yield path, value
    elif value is None or isinstance(value, (str, bytes, int, float, bool, complex)) or depth >= MAX_DEPTH:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
            yield from leaves(item, path + step, depth + 1)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            yield from leaves(getattr(value, field), f"{path}.{field}", depth + 1)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for data_field in dataclasses.fields(value):
            yield from leaves(getattr(value, data_field.name, None), f"{path}.{data_field.name}", depth + 1)
