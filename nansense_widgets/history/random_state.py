"""The random generators that a training step draws from: torch's, numpy's, Python's, and those of loaders."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from nansense_widgets.history.pack import pack, unpack

__all__ = [
    "RandomState",
    "generator_problem",
    "generators_of",
    "random_problems",
    "restore_generator",
    "restore_random",
    "take_generator",
    "take_random",
]

DEEPEST = 6
"""Datasets inside datasets that are gone into."""

MOST_DATASETS = 256

_HOLDERS = (Dataset, Sampler, DataLoader)

_TRANSFORMS = ("transform", "transforms", "target_transform", "collate_fn")

Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random


def take_random() -> dict[str, Any]:
    """State of the global generators, in plain values. None of them moves."""
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": pack(np.random.get_state(legacy=False), "numpy"),  # noqa: NPY002  the user's code may draw from it
        "python": random.getstate(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random(state: dict[str, Any]) -> None:
    """Put the global generators where they were."""
    torch.set_rng_state(state["torch"])
    np.random.set_state(unpack(state["numpy"]))  # noqa: NPY002
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


def random_problems(state: Any) -> list[str]:
    """Why something is no state of the global generators, found out on others; empty if it is one."""
    if not isinstance(state, dict):
        return ["it has no states of the random generators"]
    kept = state.get("cuda", [])
    trials: dict[str, Callable[[], object]] = {
        "torch": lambda: torch.Generator().set_state(state["torch"]),
        "numpy": lambda: _like_numpys().set_state(unpack(state["numpy"])),
        "python": lambda: random.Random().setstate(state["python"]),  # noqa: S311
    }
    found = [
        f"the random state of {name} is none: {wrong}" for name in trials if (wrong := _tried(trials[name]))
    ]
    if not isinstance(kept, list) or not all(_is_cuda_state(one) for one in kept):
        found.append("the random state of cuda is none")
    if "mps" in state and not _is_bytes(state["mps"]):
        found.append("the random state of mps is none")
    return found


CUDA_BYTES = 16
"""Of the state of a CUDA generator: seed and offset."""

_NUMPY = {
    one.__name__: one
    for one in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}


def generator_problem(state: Any) -> str:
    """Why something is no state of a generator of any kind; empty if it is, or nobody here can tell."""
    if isinstance(state, torch.Tensor):
        return "" if _is_cuda_state(state) else _tried(lambda: torch.Generator().set_state(state))
    if isinstance(state, dict):
        made = _NUMPY.get(str(state.get("bit_generator")))
        return "" if made is None else _tried(lambda: setattr(made(0), "state", unpack(state)))
    return _tried(lambda: random.Random().setstate(state))  # noqa: S311


def _like_numpys() -> np.random.RandomState:
    """Another generator of the kind that numpy's global one is."""
    kind: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return np.random.RandomState(_NUMPY[kind["bit_generator"]](0))


def _is_bytes(state: Any) -> bool:
    return isinstance(state, torch.Tensor) and state.dtype is torch.uint8 and state.dim() == 1


def _is_cuda_state(state: Any) -> bool:
    return _is_bytes(state) and state.numel() == CUDA_BYTES


def _tried(trial: Callable[[], object]) -> str:
    try:
        trial()
    except Exception as error:  # noqa: BLE001  whatever is in it
        return f"{type(error).__name__}: {error}"
    return ""


def generators_of(loader: Any) -> Iterator[tuple[str, Generator]]:
    """Generators that a loader draws from: its own, and those that its samplers and datasets hold.

    Datasets inside datasets (`Subset`, `ConcatDataset`, `random_split`) are gone into, and what they hold as
    `transform`, `transforms`, `target_transform` or `collate_fn`.
    """
    seen: set[int] = set()
    waiting: list[tuple[str, Any, int]] = [("", loader, 0)]
    while waiting:
        place, owner, depth = waiting.pop(0)
        for name, value in _held(owner):
            path = f"{place}.{name}" if place else name
            if id(value) in seen:
                continue
            if isinstance(value, Generator):
                seen.add(id(value))
                yield path, value
            elif depth < DEEPEST and (isinstance(value, _HOLDERS) or name in _TRANSFORMS):
                seen.add(id(value))
                waiting.append((path, value, depth + 1))
            elif depth < DEEPEST and isinstance(value, (list, tuple)) and len(value) <= MOST_DATASETS:
                inner = [(f"{path}[{at}]", one) for at, one in enumerate(value) if isinstance(one, _HOLDERS)]
                waiting += [(where, one, depth + 1) for where, one in inner]


def _held(owner: Any) -> list[tuple[str, Any]]:
    """Attributes as they lie there: no property of the user's is asked."""
    held = getattr(owner, "__dict__", None)
    return list(held.items()) if isinstance(held, dict) else []


def take_generator(generator: Generator) -> Any:
    """Its state in plain values."""
    if isinstance(generator, torch.Generator):
        return generator.get_state().cpu()
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return pack(generator.bit_generator.state, "generator")
    return pack(generator.get_state(legacy=False), "generator")


def restore_generator(generator: Generator, state: Any) -> None:
    """Put it where it was."""
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = unpack(state)
    else:
        generator.set_state(unpack(state))


class RandomState:
    """The global generators at one moment, kept in memory for one batch of many."""

    __slots__ = ("cuda", "numpy", "python", "torch")

    def __init__(self, before: RandomState | None = None) -> None:
        self.torch = torch.get_rng_state()
        self.numpy = np.random.get_state()  # noqa: NPY002
        self.python = random.getstate()
        if before is not None and self.python == before.python:
            self.python = before.python  # 20 kB of numbers that hardly any loop moves
        self.cuda = _cuda_states()

    def restore(self) -> None:
        """Put the generators where they were."""
        torch.set_rng_state(self.torch)
        np.random.set_state(self.numpy)  # noqa: NPY002
        random.setstate(self.python)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about."""
        return 8_000 + 16 * len(self.cuda)


def _cuda_states() -> list[torch.Tensor]:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.get_rng_state_all()
    return []
