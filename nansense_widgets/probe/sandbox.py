"""Lets a model run once more without a trace in it.

A forward may write to anything that its modules hold: BatchNorm to its buffers, spectral norm to its vectors
and its weight, a user's module to a list, a counter or its own parameters. So for the length of a probe every
module has another `__dict__`, with copies of all that. What was there is never touched (no value, no version
of a tensor, no order of a dictionary), and to put it back is one assignment a module, whatever happens.
Modules stay the same objects, since hooks, closures and our own tables know them.
"""

from __future__ import annotations

import array
import copy
import dataclasses
import io
import random
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.utils import parametrize

from nansense_widgets.capture.values import unobserved
from nansense_widgets.history.random_state import restore_generator, take_generator
from nansense_widgets.probe.copies import like, with_gradient
from nansense_widgets.probe.footprint import MOST_ENTRIES, Footprint, copied_iterator

__all__ = ["Sandbox"]

DEEPEST = 8
"""Containers inside containers that are copied."""

MOST_DEEP = 1000
"""Entries of a longer container are not gone into: it may be a whole dataset."""

MOST_HOLDERS = 10_000
"""Modules and objects that are followed."""

_CONTAINERS = (list, dict, set, OrderedDict, defaultdict, deque, Counter)
_PLAIN = (list, dict, set, OrderedDict)
_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


_ONE_AT_A_TIME = threading.RLock()
"""Models of two sessions may share a module."""


class Sandbox:
    """A context in which a model may do what it likes to itself.

    Not undone is what lies outside: class attributes, files, other processes, and objects of classes that
    come from elsewhere than the model's own, but for what its forwards and hooks name (`Footprint`).
    """

    def __init__(
        self, model: nn.Module, others: Iterable[nn.Module] = (), classes: Iterable[type] = ()
    ) -> None:
        self._model = model
        self._others = tuple(others)
        self._classes = frozenset(classes) - {torch.Tensor, nn.Parameter}
        """Of the tensors that the model is given."""
        self._holders: list[tuple[Any, dict[str, Any], type]] = []
        """Objects with the `__dict__` and class that they get back."""
        self._tables: list[tuple[Any, list[tuple[Any, Any]]]] = []
        """Tables of hooks with what is in them: a handle knows the table itself, and may remove its hook."""
        self._flags: list[tuple[torch.jit.ScriptModule, bool]] = []
        self._written: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        """Tensors that cannot be replaced, with copies and versions."""
        self._generators: list[tuple[Any, Any]] = []
        self._known: dict[int, Any] = {}
        self._storages: dict[tuple[int, int], torch.UntypedStorage] = {}
        self._parametrized: tuple[int, Any] | None = None
        self._footprint = Footprint()
        self._own_modules = {type(module).__module__ for module in model.modules()}

    def __enter__(self) -> None:
        _ONE_AT_A_TIME.acquire()
        with unobserved():
            try:
                self._enter()
            except BaseException:
                self._leave()
                _ONE_AT_A_TIME.release()
                raise

    def __exit__(self, *_: object) -> None:
        try:
            with unobserved():
                self._leave()
        finally:
            _ONE_AT_A_TIME.release()

    def _enter(self) -> None:
        self._parametrized = (parametrize._cache_enabled, parametrize._cache)
        parametrize._cache_enabled, parametrize._cache = 0, {}
        self._footprint.of_all_modules()
        for kind in self._classes:
            self._footprint.of_class(kind)
        waiting: list[Any] = [module for root in (self._model, *self._others) for module in root.modules()]
        waiting = list({id(module): module for module in waiting}.values())
        seen = {id(holder) for holder in waiting}
        while waiting and len(self._holders) < MOST_HOLDERS:
            holder = waiting.pop(0)
            if isinstance(holder, torch.jit.ScriptModule):
                self._remember(holder)
                continue
            original = holder.__dict__
            found: list[Any] = []
            copied = {key: self._copy(value, 0, found) for key, value in original.items()}
            if isinstance(holder, nn.Module):
                found += self._footprint.of_module(holder)
                tables = (
                    value for key, value in original.items() if "hooks" in key and isinstance(value, dict)
                )
                self._tables += [(table, list(table.items())) for table in tables]
            self._holders.append((holder, original, type(holder)))
            object.__setattr__(holder, "__dict__", copied)
            for one in found:
                if id(one) not in seen:
                    seen.add(id(one))
                    waiting.append(one)

    def _leave(self) -> None:
        for holder, original, kind in self._holders:
            if type(holder) is not kind:  # a lazy module that has found its sizes
                object.__setattr__(holder, "__class__", kind)
            object.__setattr__(holder, "__dict__", original)
        for table, entries in self._tables:
            if list(table.items()) != entries:
                table.clear()
                table.update(entries)
        for module, flag in self._flags:
            if module.training != flag:
                module.training = flag
        for tensor, value, version in self._written:
            if tensor._version != version or not _same(tensor, value):
                with torch.no_grad():
                    tensor.copy_(value)
        for generator, state in self._generators:
            restore_generator(generator, state)
        self._footprint.restore()
        if self._parametrized is not None:
            parametrize._cache_enabled, parametrize._cache = self._parametrized
        for kept in (self._holders, self._tables, self._flags, self._written, self._generators):
            kept.clear()
        self._parametrized = None
        self._known, self._storages = {}, {}

    def _remember(self, module: torch.jit.ScriptModule) -> None:
        """TorchScript holds its tensors outside of Python: what it has written to is copied back."""
        own: Iterable[torch.Tensor] = (*module.parameters(recurse=False), *module.buffers(recurse=False))
        self._flags.append((module, module.training))
        self._written += [(tensor, tensor.detach().clone(), tensor._version) for tensor in own]

    def _copy(self, value: Any, depth: int, found: list[Any]) -> Any:
        kind = type(value)
        if kind in (str, int, float, bool, type(None)):  # nearly always
            return value
        known = self._known.get(id(value))
        if known is not None:
            return known
        if isinstance(value, torch.Tensor):
            made: Any = self._tensor(value)
        elif isinstance(value, nn.Module):
            found.append(value)
            return value
        elif isinstance(value, _GENERATORS):
            self._generators.append((value, take_generator(value)))
            return value
        elif kind is np.ndarray:
            made = value.copy()
        elif depth >= DEEPEST:
            return value
        elif isinstance(value, (bytearray, array.array)):
            made = copy.copy(value)
        elif kind in _CONTAINERS or (isinstance(value, list) and self._is_own(kind)):
            return self._container(value, depth, found)
        elif kind is types.SimpleNamespace:
            made = types.SimpleNamespace(
                **{k: self._copy(v, depth + 1, found) for k, v in vars(value).items()}
            )
        elif kind is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
            entries = tuple(self._copy(entry, depth + 1, found) for entry in value)
            if all(a is b for a, b in zip(entries, value, strict=True)):
                return value
            return entries if kind is tuple else kind(*entries)
        elif isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            made = copied_iterator(value)
        elif self._holds_state(value):
            found.append(value)
            return value
        else:
            return value
        self._known[id(value)] = made
        return made

    def _container(self, value: Any, depth: int, found: list[Any]) -> Any:
        if len(value) > MOST_ENTRIES:
            return value
        # A module has a dozen tables, mostly empty: `copy.copy` takes ten times as long for those.
        made = type(value)() if not value and type(value) in _PLAIN else copy.copy(value)
        self._known[id(value)] = made
        if len(value) > MOST_DEEP:
            return made
        if isinstance(value, dict):
            for key, entry in value.items():
                dict.__setitem__(made, key, self._copy(entry, depth + 1, found))
        elif isinstance(value, (list, deque)):
            for at, entry in enumerate(value):
                made[at] = self._copy(entry, depth + 1, found)
        return made

    def _holds_state(self, value: Any) -> bool:
        """Whether it is an object of the user's own that a module may change."""
        if isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)):
            return False
        own = self._is_own(type(value)) or dataclasses.is_dataclass(value)
        return own and type(getattr(value, "__dict__", None)) is dict

    def _is_own(self, kind: type) -> bool:
        """Whether a class is the user's, as the model's own are."""
        return kind.__module__ == "__main__" or (
            kind.__module__ in self._own_modules and not kind.__module__.startswith("torch.")
        )

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        kind = type(tensor)
        if isinstance(tensor, (UninitializedBuffer, UninitializedParameter)):
            return copy.deepcopy(tensor)
        if kind not in (torch.Tensor, nn.Parameter):
            values = like(tensor, tensor.detach().clone())
            return values.requires_grad_() if tensor.requires_grad else values
        plain = tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_meta)
        if plain and not (tensor.is_conj() or tensor.is_neg()):
            # What shares memory shares it in the copy: views, tied weights, flattened ones of cuDNN.
            storage = tensor.untyped_storage()
            place = (storage.data_ptr(), storage.nbytes())
            own = self._storages.get(place)
            if own is None:
                own = self._storages[place] = storage.clone()
            made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            made = made.set_(own, tensor.storage_offset(), tensor.size(), tensor.stride())
        else:
            made = tensor.detach().clone()
        made = nn.Parameter(made, tensor.requires_grad) if kind is nn.Parameter else made
        if kind is torch.Tensor and tensor.requires_grad:
            made = with_gradient(tensor, made)
        made.__dict__.update(tensor.__dict__)
        return made


def _same(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Bit for bit, as far as values go: NaN is itself."""
    return torch.equal(tensor, value) or bool(torch.allclose(tensor, value, rtol=0, atol=0, equal_nan=True))
