"""Torch's global hooks, one for all captures of the process.

Other threads run modules and optimizers meanwhile, and walk through torch's tables of hooks: adding to a
table would end them with "OrderedDict mutated during iteration". So a copy of the table takes its place, and
the table itself comes back at the end.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

__all__ = ["MODULE_HOOKS", "OPTIMIZER_HOOKS", "StepListener"]

Listener = TypeVar("Listener")

_KEY = -1
"""Torch counts its own from 0."""


class StepListener(Protocol):
    """Is told of every step of every torch optimizer, on whichever thread it is taken."""

    def before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A step begins, with these arguments; the first of `args` is the optimizer."""

    def after_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """It is over, and did not raise."""


class SharedHooks(Generic[Listener]):
    """Listeners may come and go on any thread; torch's tables change with the first and the last of them.

    Args:
        tables: the module of torch that has them, their names, and what stands for us in each.
    """

    def __init__(self, tables: list[tuple[Any, str, Any]]) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self._tables = tables
        self._lock = threading.Lock()
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def add(self, listener: Listener) -> None:
        """Be told from here on."""
        with self._lock:
            first = not self.listeners
            self.listeners = (*self.listeners, listener)
            if first:
                for owner, name, value in self._tables:
                    original = getattr(owner, name)
                    copy = _Copy(original)
                    copy[_KEY] = value
                    self._replaced.append((owner, name, original, copy))
                    setattr(owner, name, copy)

    def remove(self, listener: Listener) -> None:
        """Be told no more; may be called twice."""
        with self._lock:
            self.listeners = tuple(other for other in self.listeners if other is not listener)
            while not self.listeners and self._replaced:
                owner, name, original, copy = self._replaced[-1]
                new = copy.keys() - original.keys() - {_KEY} - copy.at_first
                if new:  # the user has registered hooks meanwhile: their handles know the copy
                    original.update({key: copy[key] for key in copy if key in new})
                    _ADOPTED.append(copy)
                setattr(owner, name, original)
                self._replaced.pop()


class _Copy(OrderedDict[int, Any]):
    """What is taken out of it is taken out of the original too."""

    def __init__(self, original: dict[int, Any]) -> None:
        super().__init__(original)
        self.original = original
        self.at_first = frozenset(original)

    def __delitem__(self, key: int) -> None:
        super().__delitem__(key)
        self.original.pop(key, None)


_ADOPTED: list[_Copy] = []
"""Copies that handles of the user's own still know."""


def _enter(module: Any, args: tuple[Any, ...]) -> None:
    if torch.compiler.is_compiling():  # Dynamo traces what it finds, these hooks too
        return
    for watch in MODULE_HOOKS.listeners:
        watch.enter(module, args, sys._getframe(1))


def _leave(module: Any, args: tuple[Any, ...], *rest: Any) -> None:
    if torch.compiler.is_compiling():
        return
    for watch in MODULE_HOOKS.listeners:
        watch.leave(module, args, *rest)


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if torch.compiler.is_compiling():
        return
    for listener in OPTIMIZER_HOOKS.listeners:
        listener.before_step(optimizer, args, kwargs)


def _after_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if torch.compiler.is_compiling():
        return
    for listener in OPTIMIZER_HOOKS.listeners:
        listener.after_step(optimizer, args, kwargs)


MODULE_HOOKS: SharedHooks[Any] = SharedHooks(
    [
        (torch_module, "_global_forward_pre_hooks", _enter),
        (torch_module, "_global_forward_hooks_with_kwargs", True),
        (torch_module, "_global_forward_hooks_always_called", True),
        (torch_module, "_global_forward_hooks", _leave),
    ]
)
"""Listeners have `enter(module, args, frame)`, with the frame that calls the hook, and `leave(module, …)`."""

OPTIMIZER_HOOKS: SharedHooks[StepListener] = SharedHooks(
    [
        (torch_optimizer, "_global_optimizer_pre_hooks", _before_step),
        (torch_optimizer, "_global_optimizer_post_hooks", _after_step),
    ]
)
