"""How the model's inputs are shown: means, deviations and transforms, one for all or one an input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["InputConfig", "InputTransform", "MeanStd"]

MeanStd = float | Sequence[float]
"""One number for all channels, or one a channel."""

InputTransform = Callable[[torch.Tensor], Any]
"""Maps one sample of an input to what can be shown: a tensor of shape (C, H, W) to 1 or 3 channels, or token
ids of shape (T,) to their text, as one string (`tokenizer.decode`) or as a list of T strings."""


@dataclass(frozen=True)
class InputConfig:
    """The `input_*` arguments of `start`, checked; each a single value or a dict by input name."""

    mean: MeanStd | Mapping[str, MeanStd] | None = None
    std: MeanStd | Mapping[str, MeanStd] | None = None
    transform: InputTransform | Mapping[str, InputTransform] | None = None

    def checked_names(self, known: Sequence[str] | None) -> InputConfig:
        """The same; raises `ValueError` if a dict names an input that the model cannot have."""
        if known is None:
            return self
        for argument, value in (("mean", self.mean), ("std", self.std), ("transform", self.transform)):
            for name in value if isinstance(value, Mapping) else ():
                if name not in known:
                    inputs = ", ".join(repr(one) for one in known if not one.endswith("_input"))
                    raise ValueError(f"input_{argument} names {name!r}, but the model's inputs are {inputs}")
        return self

    @property
    def named(self) -> frozenset[str]:
        """Inputs that have a transform given by their name."""
        return frozenset(self.transform) if isinstance(self.transform, Mapping) else frozenset()

    def names(self, name: str) -> bool:
        """Whether the transforms are given by input name, this one among them."""
        return name in self.named

    def numbers(
        self, which: Literal["mean", "std"], name: str, channels: int
    ) -> npt.NDArray[np.float64] | None:
        """The means or deviations of an input's channels; None if there are none, or not as many."""
        given = self.mean if which == "mean" else self.std
        found = given.get(name) if isinstance(given, Mapping) else given
        if found is None:
            return None
        values = np.asarray(found, np.float64).reshape(-1)
        if len(values) not in (1, channels):
            return None
        return np.broadcast_to(values, channels)

    def is_given(self, which: Literal["mean", "std"], name: str) -> bool:
        """Whether the user gave means or deviations for an input."""
        given = self.mean if which == "mean" else self.std
        return (given.get(name) if isinstance(given, Mapping) else given) is not None

    def transform_for(self, name: str) -> InputTransform | None:
        """The transform of one input."""
        found = self.transform.get(name) if isinstance(self.transform, Mapping) else self.transform
        return found if callable(found) else None

    def __post_init__(self) -> None:
        for name, value in (("input_mean", self.mean), ("input_std", self.std)):
            for one in _each(value):
                if not _is_mean_std(one):
                    raise TypeError(
                        f"{name}={value!r} must be a finite number, one a channel, or a dict of these"
                    )
        for one in _each(self.std):
            if any(part <= 0 for part in ([one] if isinstance(one, (int, float)) else one)):
                raise ValueError(f"input_std={self.std!r} must be positive")
        for one in _each(self.transform):
            if not callable(one):
                raise TypeError(f"input_transform={self.transform!r} must be a function, or a dict of them")


def _each(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, Mapping) else [value]


def _is_mean_std(value: Any) -> bool:
    """A finite number, or a flat sequence of at least one."""
    if isinstance(value, (bool, str)):
        return False
    if isinstance(value, (int, float)):
        return math.isfinite(value)
    if isinstance(value, torch.Tensor):
        return value.ndim == 1 and value.numel() > 0 and bool(value.isfinite().all())
    return (
        isinstance(value, Sequence)
        and len(value) > 0
        and all(isinstance(part, (int, float)) and math.isfinite(part) for part in value)
    )
