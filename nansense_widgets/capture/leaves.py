"""The tensors inside whatever a module takes or returns."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils.data

__all__ = ["leaves"]

_PLAIN = (
    *(str, bytes, int, float, bool, complex, range, slice, type, types.ModuleType, types.FunctionType),
    *(types.BuiltinFunctionType, types.MethodType, enum.Enum, torch.nn.Module, torch.dtype, torch.device),
    *(torch.optim.Optimizer, torch.utils.data.Dataset, torch.Generator, functools.partial),
)
"""What is not looked into: it holds no tensors, or holds them for another purpose than to pass them on."""

MAX_DEPTH = 8

MAX_ITEMS = 1000
"""Items looked at in one value: a list of a hundred thousand numbers is no output to draw."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield `(path, tensor)` for each tensor in nested tuples, lists, mappings, dataclasses and objects.

    A path continues the layer's name: `""` for a plain tensor, `[1][0]` in tuples and lists, `.logits`
    for fields, attributes and keys that are identifiers, `['a b']` for other keys. Looks at `MAX_ITEMS` items
    in all, `MAX_DEPTH` deep, and into no container twice on the way down. Properties are not called.
    """
    if isinstance(value, torch.Tensor):  # nearly always
        yield path, value
        return
    budget = itertools.count(1)
    yield from _walk(value, path, (), budget)


def _walk(
    value: Any, path: str, above: tuple[int, ...], budget: Iterator[int]
) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if len(above) >= MAX_DEPTH or id(value) in above:
        return
    for step, item in _items(value):
        if next(budget) > MAX_ITEMS:
            return
        yield from _walk(item, path + step, (*above, id(value)), budget)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a container with their steps; of anything else, none."""
    if value is None or isinstance(value, _PLAIN):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield (f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"), item
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            yield f".{field}", getattr(value, field)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif dataclasses.is_dataclass(value):
        for data_field in dataclasses.fields(value):
            yield f".{data_field.name}", getattr(value, data_field.name, None)
    else:
        for name, item in _attributes(value):
            yield f".{name}", item


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object of the user's own holds: a distribution, a cache, a record of attrs."""
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)
    yield from list(getattr(value, "__dict__", {}).items())
