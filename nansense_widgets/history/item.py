"""What a loader gave for one batch, as plain values for a file, and back on the device of a model."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import torch

from nansense_widgets.history.pack import pack, unpack

__all__ = ["pack_item", "unpack_item"]

_NAMED = "nansense:fields of "
"""Begins the key of a value that has fields: no class of somebody's is in the file."""


_GRADIENT = "nansense:requires_grad"
"""Key of a tensor that does."""


def pack_item(item: Any) -> Any:
    """An independent copy, tensors on the CPU. Named tuples and dataclasses are kept by their fields.

    Raises:
        UnstorableError: naming what cannot be stored.
    """
    return pack(_plain(item), "the loader's item")


def unpack_item(packed: Any, device: torch.device) -> Any:
    """The item, with its tensors on a device. What had fields is a named tuple with the same ones."""
    return _given(unpack(packed), device)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return {_GRADIENT: value} if value.requires_grad and value.is_leaf else value
    names = _fields_of(value)
    if names is not None:
        return {f"{_NAMED}{type(value).__name__}": [[name, _plain(getattr(value, name))] for name in names]}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def _fields_of(value: Any) -> list[str] | None:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(value._fields)
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, torch.Tensor)):
        return [field.name for field in dataclasses.fields(value)]
    return None


def _given(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        if value.keys() == {_GRADIENT}:
            tensor: torch.Tensor = value[_GRADIENT].to(device)
            return tensor.requires_grad_()
        if len(value) == 1 and isinstance(key := next(iter(value)), str) and key.startswith(_NAMED):
            fields = {str(name): _given(entry, device) for name, entry in value[key]}
            return namedtuple(key.removeprefix(_NAMED), fields)(**fields)
        return {name: _given(entry, device) for name, entry in value.items()}
    return type(value)(_given(entry, device) for entry in value) if type(value) in (list, tuple) else value
