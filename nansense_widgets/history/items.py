"""Items of a loader that may come again: kept so that the loop finds them as they were."""

from __future__ import annotations

import copy
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from nansense_widgets.capture.values import unobserved
from nansense_widgets.history.layout import kept_apart, kept_bytes, with_own_memory

__all__ = ["ItemNotKeptError", "KeptItem"]

COPIED = 2**20
"""Items of so many bytes are copied; of larger ones tensors are shared until the loop writes to them."""

PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device)

SMALL = 40
"""Bytes of a Python object, at least."""


class ItemNotKeptError(Exception):
    """Nothing of the item is kept, and why."""


class KeptItem:
    """One item, of known containers, tensors, arrays and plain values; others are not kept.

    An object of another class may be changed without a trace, hold memory that nobody counts, or files that
    run out. Tensors are copied, but for those of large items: there it is enough to see by its version that
    nobody has written to one, unless its memory is used again by others (shared with a loader's worker,
    pinned, on an accelerator, of a numpy array, a small part of something larger). Who asks for it as a numpy
    array can write to it past its version: it counts as written to.

    Args:
        item: what the loader gave.
        copies: copy every tensor, since the loop writes to them.
        room: bytes that it may take.

    Raises:
        ItemNotKeptError: if it takes more, or holds something unknown.
    """

    __slots__ = ("_copies", "_room", "_shared", "_storages", "_tree", "nbytes")

    def __init__(self, item: Any, *, copies: bool, room: int) -> None:
        self.nbytes = 0
        self._room = room
        self._shared: list[tuple[torch.Tensor, int]] = []
        self._storages: set[int] = set()
        with unobserved():
            self._copies = copies or not _is_large(item)
            self._tree = _Mapped(self._kept).of(item)

    @property
    def is_intact(self) -> bool:
        """Whether nobody has written to its tensors, could have through numpy, or taken their memory away."""
        return all(
            tensor._version == version and (not tensor.numel() or _is_ours(tensor.untyped_storage()))  # noqa: SLF001
            for tensor, version in self._shared
        )

    def serve(self) -> Any:
        """It, with containers and tensors of their own, without gradients."""
        with unobserved():
            return _Mapped(_served).of(self._tree)

    def _kept(self, leaf: Any) -> Any:
        kind = type(leaf)
        if kind in PLAIN or isinstance(leaf, np.generic):
            self._count(SMALL + (len(leaf) if kind in (str, bytes) else 0))
            return leaf
        if kind in (set, frozenset) and all(type(entry) in PLAIN for entry in leaf):
            self._count(SMALL * (1 + len(leaf)))
            return _Copied(leaf)
        if kind is np.ndarray and not leaf.dtype.hasobject:
            self._count(leaf.nbytes)
            return _Copied(leaf.copy(order="K"))
        if kind is torch.Tensor:
            return self._tensor(leaf)
        raise ItemNotKeptError(f"an item holds a {kind.__module__}.{kind.__qualname__}, which cannot be kept")

    def _tensor(self, leaf: torch.Tensor) -> _Tensor:
        if leaf.grad_fn is not None:
            raise ItemNotKeptError("an item holds a tensor that was computed with a graph")
        own = self._copies or _is_used_again(leaf)
        self._count(kept_bytes(leaf) if own else leaf.numel() * leaf.element_size())
        if own:
            kept = kept_apart(leaf)
        else:
            kept = leaf.detach()
            self._shared.append((kept, kept._version))  # noqa: SLF001
        if own and leaf.layout is torch.strided and leaf.numel():
            storage = leaf.untyped_storage().data_ptr()
            if storage in self._storages:
                raise ItemNotKeptError("tensors of an item lie in the same memory")
            self._storages.add(storage)
        return _Tensor(kept, leaf.device, leaf.requires_grad, own)

    def _count(self, size: int) -> None:
        self.nbytes += size
        if self.nbytes > self._room:
            raise ItemNotKeptError("an item takes more than half of the history's memory (set_history)")


def _is_large(item: Any) -> bool:
    """Whether some tensor of it is, at a glance."""
    inside = item.values() if isinstance(item, dict) else item
    entries = inside if isinstance(item, (dict, list, tuple)) else (item,)
    tensors = [entry for entry in entries if type(entry) is torch.Tensor]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors) > COPIED


def _is_used_again(leaf: torch.Tensor) -> bool:
    """Whether its memory may be written to without its version telling, or must be given back soon."""
    if leaf.device.type != "cpu" or leaf.layout is not torch.strided or leaf.is_inference():
        return True
    size, storage = leaf.numel() * leaf.element_size(), leaf.untyped_storage()
    return leaf.is_shared() or leaf.is_pinned() or storage.nbytes() > 2 * size or not storage.resizable()


def _is_ours(storage: torch.UntypedStorage) -> bool:
    """Whether it still has memory, and torch alone: what numpy sees too cannot be resized any more."""
    return storage.nbytes() > 0 and storage.resizable()


class _Copied:
    """What is given as a copy each time."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Tensor:
    __slots__ = ("device", "is_own", "requires_grad", "values")

    def __init__(self, values: torch.Tensor, device: torch.device, requires_grad: bool, own: bool) -> None:
        self.values = values
        self.device = device
        self.requires_grad = requires_grad
        self.is_own = own


def _served(leaf: Any) -> Any:
    if type(leaf) is _Copied:
        return leaf.value.copy(order="K") if isinstance(leaf.value, np.ndarray) else leaf.value.copy()
    if type(leaf) is not _Tensor:
        return leaf
    # A copy of ours is not to be given away: the loop may write to it.
    tensor = with_own_memory(leaf.values, leaf.device) if leaf.is_own else leaf.values.detach()
    return tensor.requires_grad_() if leaf.requires_grad else tensor


def _attributes(value: Any) -> set[str]:
    held = getattr(value, "__dict__", None)
    return set(held) if isinstance(held, dict) else set()


class _Mapped:
    """Makes the same structure with containers of its own and other leaves; what is one object stays one."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known: dict[int, Any] = {}
        self._alive: list[Any] = []
        """What has an entry in `_known`: ids of others would come again."""

    def of(self, value: Any) -> Any:
        found = self._known.get(id(value))
        if found is not None:
            return found
        kind = type(value)
        if kind in PLAIN:
            return self._change(value)
        if kind is list or kind is deque:
            made: Any = [] if kind is list else deque(maxlen=value.maxlen)
            self._know(value, made)
            made.extend(map(self.of, value))
        elif kind in (dict, OrderedDict, defaultdict):
            made = self._know(value, copy.copy(value))
            for key, entry in value.items():
                made[key] = self.of(entry)
        elif kind is tuple:
            made = tuple(map(self.of, value))
        elif isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
            made = kind(*map(self.of, value))
        elif isinstance(value, UserDict) and type(value.data) is dict:  # as transformers' `BatchEncoding` is
            made = self._know(value, copy.copy(value))
            made.data = {key: self.of(entry) for key, entry in value.data.items()}
        elif is_dataclass(value) and not isinstance(value, (type, dict)):
            made = self._know(value, copy.copy(value))
            # Those that are no fields, too (set in `__post_init__`): the loop may change them.
            names = {field.name for field in fields(value) if hasattr(value, field.name)} | _attributes(value)
            for name in names:
                object.__setattr__(made, name, self.of(getattr(value, name)))
        else:
            made = self._change(value)
        return self._know(value, made)

    def _know(self, value: Any, made: Any) -> Any:
        self._known[id(value)] = made
        self._alive.append(value)
        return made
