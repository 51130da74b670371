"""The random generators that a training step draws from: torch's, numpy's, Python's, and those of loaders."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from nansense_widgets.history.pack import pack, unpack

__all__ = ["generators_of", "restore_generator", "restore_random", "take_generator", "take_random"]

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


def generators_of(loader: Any) -> Iterator[tuple[str, Generator]]:
    """Generators that a loader draws from: its own, and those that its samplers and its dataset hold."""
    seen: set[int] = set()
    for place in ("", "sampler", "batch_sampler", "batch_sampler.sampler", "dataset", "dataset.transform"):
        owner = loader
        for part in filter(None, place.split(".")):
            owner = getattr(owner, part, None)
        try:
            held = dict(vars(owner))
        except TypeError:
            continue
        for name, value in held.items():
            if isinstance(value, Generator) and id(value) not in seen:
                seen.add(id(value))
                yield ".".join(filter(None, (place, name))), value


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
