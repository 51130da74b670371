"""What forwards and hooks write to outside of their modules: lists, numbers that they count."""

from __future__ import annotations

import copy
import functools
import itertools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module

from nansense_widgets.capture.values import unreadable

__all__ = ["MOST_ENTRIES", "Footprint", "SandboxError", "copied_iterator"]

MOST_ENTRIES = 100_000
"""Containers beyond this are left alone: to copy them would take longer than the forward."""

_CONTAINERS = (list, dict, set, OrderedDict, defaultdict, deque, Counter)
_REBOUND = (int, float, complex, bool, str, type(None), torch.Tensor, np.ndarray)
"""What a name may be bound to anew: `total = total + 1`."""

MOST_VALUES = 2**20
"""Of a tensor or array that a function names: data are larger, and nobody counts in them."""

DEEPEST = 3

_COUNTERS: tuple[type, ...] = (itertools.count, itertools.repeat, type(iter([])), type(iter(range(0))))

_NOT_THEIRS = ("torch.", "nansense_widgets.")

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class SandboxError(Exception):
    """A model cannot be run without a trace, and why."""


class Footprint:
    """Remembers what functions can reach by their own names, and puts it back where it was changed.

    A hook of the user's (`lambda m, i, o: seen.append(o)`) belongs to the model: pruning and spectral norm
    are hooks too. So it runs in a probe, and what it has noted there is taken back. Reached is what the
    function names: globals, variables of an enclosing function, and the object that it is a method of.
    """

    def __init__(self) -> None:
        self._containers: dict[int, tuple[Any, Any]] = {}
        self._cells: list[tuple[types.CellType, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._arrays: list[tuple[Any, Any]] = []
        self._caches: list[tuple[Any, int]] = []
        self._seen: set[int] = set()

    def of_module(self, owner: nn.Module) -> list[Any]:
        """Remember what its forward and hooks reach; returns objects that they are methods of."""
        objects: list[Any] = []
        if not type(owner).__module__.startswith("torch."):
            self._function(getattr(type(owner), "forward", None), objects)
            for base in type(owner).__mro__:
                for method in vars(base).values():
                    self._cache(method)
        self._function(owner.__dict__.get("forward"), objects)
        for table in _HOOKS:
            for hook in list(owner.__dict__.get(table, {}).values()):
                self._function(hook, objects)
        return objects

    def of_all_modules(self) -> None:
        """Remember what torch's global hooks reach, those of the user's among them."""
        for table in (module._global_forward_hooks, module._global_forward_pre_hooks):
            for hook in list(table.values()):
                self._function(hook, [])

    def of_class(self, kind: type) -> None:
        """Remember what the methods of a tensor's class reach."""
        for method in vars(kind).values():
            self._function(getattr(method, "__func__", method), [])

    def restore(self) -> None:
        """Put back what was changed."""
        for container, before in self._containers.values():
            if not _is_unchanged(container, before):
                _refill(container, before)
        for tensor, before in self._tensors:
            if not torch.equal(tensor, before):
                with torch.no_grad():
                    tensor.copy_(before)
        for array, before in self._arrays:
            if not np.array_equal(array, before, equal_nan=array.dtype.kind in "fc"):
                array[...] = before
        for cache, misses in self._caches:
            if cache.cache_info().misses != misses:  # it holds something of the probe's
                cache.cache_clear()
        for cell, value in self._cells:
            if not _is_empty(cell) and cell.cell_contents is not value:
                cell.cell_contents = value
        for names, name, value in self._globals:
            if names.get(name) is not value:
                names[name] = value
        for kept in (
            *(self._containers, self._cells, self._globals, self._tensors),
            *(self._arrays, self._caches, self._seen),
        ):
            kept.clear()

    def _function(self, function: Any, objects: list[Any]) -> None:
        if isinstance(function, functools.partial):
            for value in (*function.args, *function.keywords.values()):
                self._value(value, objects)
            function = function.func
        if isinstance(function, types.MethodType):
            self._object(function.__self__, objects)
            function = function.__func__
        if not isinstance(function, types.FunctionType):
            if callable(function):
                self._object(function, objects)
            return
        if id(function) in self._seen or (function.__module__ or "").startswith(_NOT_THEIRS):
            return
        self._seen.add(id(function))
        for cell in function.__closure__ or ():
            if _is_empty(cell):
                continue
            value = cell.cell_contents
            if isinstance(value, _REBOUND):
                self._cells.append((cell, value))
            self._value(value, objects)
            if isinstance(value, types.FunctionType):  # what a decorator has wrapped
                self._function(value, objects)
            elif isinstance(value, type) and value.__module__ == function.__module__:
                for method in vars(value).values():
                    self._function(method, objects)
        for value in function.__defaults__ or ():
            self._value(value, objects)
        for name in function.__code__.co_names:
            if name in function.__globals__:
                value = function.__globals__[name]
                if isinstance(value, _REBOUND):
                    self._globals.append((function.__globals__, name, value))
                self._value(value, objects)

    def _value(self, value: Any, objects: list[Any], depth: int = 0) -> None:
        kind = type(value)
        if kind is types.GeneratorType:
            copied_iterator(value)
        elif isinstance(value, nn.Module):
            objects += value.modules()
        elif isinstance(value, torch.Tensor):
            if value.layout is torch.strided and value.numel() <= MOST_VALUES and not unreadable(value):
                self._tensors.append((value, value.detach().clone()))
        elif isinstance(value, np.ndarray):
            if value.size <= MOST_VALUES:
                self._arrays.append((value, value.copy()))
        elif kind in _CONTAINERS:
            if len(value) > MOST_ENTRIES or id(value) in self._containers:
                return
            self._containers[id(value)] = (value, value.copy())
            if depth < DEEPEST:
                for entry in value.values() if isinstance(value, dict) else value:
                    if type(entry) in _CONTAINERS:
                        self._value(entry, objects, depth + 1)
        elif kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            self._object(value, objects)
        self._cache(value)

    def _cache(self, value: Any) -> None:
        if isinstance(value, functools._lru_cache_wrapper):
            self._caches.append((value, value.cache_info().misses))

    def _object(self, value: Any, objects: list[Any]) -> None:
        if isinstance(value, (nn.Module, type)) or type(value).__module__.startswith(_NOT_THEIRS):
            return
        if type(getattr(value, "__dict__", None)) is dict:
            objects.append(value)


def copied_iterator(value: Iterator[Any]) -> Iterator[Any]:
    """An iterator that goes on from the same place by itself.

    Raises:
        SandboxError: if there can be none.
    """
    if type(value) in _COUNTERS:
        return copy.copy(value)
    raise SandboxError(
        f"the model reads from a {type(value).__name__}, which cannot be put back where it is: a probe would "
        "change the run"
    )


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises if it has none
    except ValueError:
        return True
    return False


def _is_unchanged(container: Any, before: Any) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        pairs = zip(container.items(), before.items(), strict=True)
        return all(a is c and b is d for (a, b), (c, d) in pairs)
    if isinstance(container, set):
        return bool(container == before)
    return all(a is b for a, b in zip(container, before, strict=True))


def _refill(container: Any, before: Any) -> None:
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(before)
    else:
        container.extend(before)
