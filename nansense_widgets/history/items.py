"""Items of a loader that may come again: kept so that the loop finds them as they were."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from nansense_widgets.capture.values import unobserved

__all__ = ["ItemTooLargeError", "KeptItem"]

PLAIN = (type(None), bool, int, float, complex, str, bytes)

DEEPEST = 12
"""Containers inside containers that are gone into; what lies deeper is served as it is."""


class ItemTooLargeError(Exception):
    """Nothing of the item is kept."""


class KeptItem:
    """One item. Its containers are copies; its tensors share their memory where that can be trusted.

    Memory that others use again (shared with a loader's worker, pinned, on an accelerator) is copied. For the
    rest it is enough to see by its version that nobody has written to it. Objects of unknown classes are
    kept themselves: whether the loop has changed one cannot be told.

    Args:
        item: what the loader gave.
        copies: copy every tensor, since the loop writes to them.
        room: bytes that it may take; of more, `ItemTooLargeError` is raised.
    """

    __slots__ = ("_room", "_shared", "_tree", "nbytes")

    def __init__(self, item: Any, *, copies: bool, room: int) -> None:
        self.nbytes = 0
        self._room = room
        self._shared: list[tuple[torch.Tensor, int]] = []
        with unobserved():
            self._tree = _mapped(item, lambda leaf: self._kept(leaf, copies))

    @property
    def is_intact(self) -> bool:
        """Whether nobody has written to its tensors."""
        return all(tensor._version == version for tensor, version in self._shared)  # noqa: SLF001

    def serve(self) -> Any:
        """It, with tensors of their own objects and without gradients."""
        with unobserved():
            return _mapped(self._tree, _served)

    def _kept(self, leaf: Any, copies: bool) -> Any:
        if isinstance(leaf, np.ndarray):
            self._count(leaf.nbytes)
            return leaf.copy()
        if type(leaf) is not torch.Tensor:
            return leaf
        self._count(leaf.numel() * leaf.element_size())
        own = True
        if leaf.device.type == "cuda":
            # Waits for nothing; work that comes later on this stream finds the copy made.
            kept = torch.empty(leaf.shape, dtype=leaf.dtype, pin_memory=True)
            kept.copy_(leaf.detach(), non_blocking=True)
        elif copies or _is_used_again(leaf):
            kept = leaf.detach().to("cpu", copy=True)
        else:
            kept, own = leaf.detach(), False
            self._shared.append((kept, kept._version))  # noqa: SLF001
        return _Tensor(kept, leaf.device, leaf.requires_grad, own)

    def _count(self, size: int) -> None:
        self.nbytes += size
        if self.nbytes > self._room:
            raise ItemTooLargeError


def _is_used_again(leaf: torch.Tensor) -> bool:
    """Whether its memory may be written to without its version telling, or must be given back soon."""
    if leaf.device.type != "cpu" or leaf.layout is not torch.strided or leaf.is_inference():
        return True
    return leaf.is_shared() or leaf.is_pinned()


class _Tensor:
    __slots__ = ("device", "is_own", "requires_grad", "values")

    def __init__(self, values: torch.Tensor, device: torch.device, requires_grad: bool, own: bool) -> None:
        self.values = values
        self.device = device
        self.requires_grad = requires_grad
        self.is_own = own


def _served(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    if not isinstance(leaf, _Tensor):
        return leaf
    if leaf.device.type == "cpu":
        # A copy of ours is not to be given away: the loop may write to it.
        tensor = leaf.values.clone() if leaf.is_own else leaf.values.detach()
    else:
        tensor = leaf.values.to(leaf.device)
    return tensor.requires_grad_() if leaf.requires_grad else tensor


def _mapped(value: Any, change: Callable[[Any], Any], depth: int = 0) -> Any:
    """The same structure with containers of its own and other leaves."""
    kind = type(value)
    if kind in PLAIN or depth > DEEPEST:
        return value

    def each(entry: Any) -> Any:
        return _mapped(entry, change, depth + 1)

    if kind is list or kind is tuple:
        return kind(map(each, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return kind(*map(each, value))
    if isinstance(value, dict):
        copied = copy.copy(value)
        for key, entry in value.items():
            copied[key] = each(entry)
        return copied
    if isinstance(value, UserDict):  # as `BatchEncoding` of transformers is
        other = copy.copy(value)
        other.data = {key: each(entry) for key, entry in value.data.items()}
        return other
    if is_dataclass(value) and not isinstance(value, type):
        twin = copy.copy(value)
        for field in fields(value):
            object.__setattr__(twin, field.name, each(getattr(value, field.name)))
        return twin
    return change(value)
