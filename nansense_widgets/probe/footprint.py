"""What forwards and hooks write to outside of their modules: lists, numbers that they count."""

from __future__ import annotations

import copy
import functools
import itertools
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.modules import module

__all__ = ["MOST_ENTRIES", "Footprint", "SandboxError", "copied_iterator"]

MOST_ENTRIES = 10_000
"""Containers beyond this are left alone: to copy them would take longer than the forward."""

_CONTAINERS = (list, dict, set, OrderedDict, defaultdict, deque, Counter)
_NUMBERS = (int, float, complex, bool, str, type(None))

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
        self._seen: set[int] = set()

    def of_module(self, owner: nn.Module) -> list[Any]:
        """Remember what its forward and hooks reach; returns objects that they are methods of."""
        objects: list[Any] = []
        if not type(owner).__module__.startswith("torch."):
            self._function(getattr(type(owner), "forward", None), objects)
        for table in _HOOKS:
            for hook in list(owner.__dict__.get(table, {}).values()):
                self._function(hook, objects)
        return objects

    def of_all_modules(self) -> None:
        """Remember what torch's global hooks reach, those of the user's among them."""
        for table in (module._global_forward_hooks, module._global_forward_pre_hooks):
            for hook in list(table.values()):
                self._function(hook, [])

    def restore(self) -> None:
        """Put back what was changed."""
        for container, before in self._containers.values():
            if not _is_unchanged(container, before):
                _refill(container, before)
        for cell, value in self._cells:
            if not _is_empty(cell) and cell.cell_contents is not value:
                cell.cell_contents = value
        for names, name, value in self._globals:
            if names.get(name) is not value:
                names[name] = value
        for kept in (self._containers, self._cells, self._globals, self._seen):
            kept.clear()

    def _function(self, function: Any, objects: list[Any]) -> None:
        if isinstance(function, functools.partial):
            for value in (*function.args, *function.keywords.values()):
                self._value(value)
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
            if isinstance(value, _NUMBERS):
                self._cells.append((cell, value))
            self._value(value)
            if isinstance(value, types.FunctionType):  # what a decorator has wrapped
                self._function(value, objects)
            elif isinstance(value, type) and value.__module__ == function.__module__:
                for method in vars(value).values():
                    self._function(method, objects)
        for value in function.__defaults__ or ():
            self._value(value)
        for name in function.__code__.co_names:
            if name in function.__globals__:
                value = function.__globals__[name]
                if isinstance(value, _NUMBERS):
                    self._globals.append((function.__globals__, name, value))
                self._value(value)

    def _value(self, value: Any) -> None:
        if isinstance(value, types.GeneratorType):
            copied_iterator(value)
        if type(value) in _CONTAINERS and len(value) <= MOST_ENTRIES and id(value) not in self._containers:
            self._containers[id(value)] = (value, value.copy())

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
