"""Running the user's function in the middle of training, which goes on as if it had not run."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch.utils._python_dispatch import _pop_mode

from nansense_widgets.capture.values import unobserved

__all__ = ["undisturbed"]


class undisturbed:  # noqa: N801  read as a statement, like torch.no_grad
    """`unobserved`, and afterwards random numbers, autocast, grad mode and default dtype are as before.

    Torch's generators (of the processor and of CUDA devices in use), Python's and numpy's global ones are
    read before and put back where they moved. Generators of the user's own are not known here.
    """

    def __enter__(self) -> undisturbed:
        self._autocast = _autocast()
        self._dtype = torch.get_default_dtype()
        self._functions = torch._C._len_torch_function_stack()
        self._dispatches = torch._C._len_torch_dispatch_stack()
        self._generators = [(one, one.get_state()) for one in _generators()]
        self._python = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002  the global one is what a user's function may draw from
        self._unobserved = unobserved()
        self._unobserved.__enter__()
        return self

    def reset(self) -> None:
        """The next function begins as the first one did."""
        torch._C._set_grad_enabled(False)

    def __exit__(self, *_: object) -> None:
        self._unobserved.__exit__()
        while torch._C._len_torch_function_stack() > self._functions:
            torch.overrides._pop_mode()
        while torch._C._len_torch_dispatch_stack() > self._dispatches:
            _pop_mode()
        if torch.get_default_dtype() is not self._dtype:
            torch.set_default_dtype(self._dtype)
        if _autocast() != self._autocast:
            _set_autocast(self._autocast)
        for generator, state in self._generators:
            if not torch.equal(generator.get_state(), state):
                generator.set_state(state)
        if random.getstate() != self._python:
            random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002


_Autocast = tuple[bool, int, list[tuple[str, bool, torch.dtype]]]


def _devices() -> list[str]:
    return ["cpu", "cuda"] if torch.cuda.is_initialized() else ["cpu"]


def _autocast() -> _Autocast:
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    kinds = [(name, torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _devices()]
    return torch.is_autocast_cache_enabled(), depth, kinds


def _set_autocast(before: _Autocast) -> None:
    cache, depth, kinds = before
    for name, enabled, dtype in kinds:
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)
    torch.set_autocast_cache_enabled(cache)
    now = torch.autocast_increment_nesting()
    for _ in range(now - depth):
        torch.autocast_decrement_nesting()


def _generators() -> list[torch.Generator]:
    found = [torch.default_generator]
    if torch.cuda.is_initialized():
        found += torch.cuda.default_generators
    return found
