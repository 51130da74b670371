"""Statistics of a layer against the epoch, as arrays: what its curves draw and what they export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nansense_widgets.stats.snapshot import TensorStatsSnapshot, WatchSnapshot

__all__ = ["DEAD", "NONFINITE", "STATISTICS", "STEPS", "Series", "layer_series"]

STATISTICS = ("mean", "std", "median", "5%", "25%", "75%", "95%", "min", "max")
"""Of every tensor."""

DEAD = "dead"
"""Channels of a layer that are dead."""

NONFINITE = "not finite"
"""Values of a tensor that are NaN or infinite."""

STEPS = ("gradient norm", "update ratio")
"""Of every parameter: means over the optimizer's steps of a phase."""

_QUANTILES = {"median": 0.5, "5%": 0.05, "25%": 0.25, "75%": 0.75, "95%": 0.95}

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One tensor in one phase, epoch by epoch.

    Attributes:
        tensor: `activations`, `gradients`, or the name of a parameter.
        phase: e.g. `train`; of weights, which are sampled once an epoch, empty.
        epochs: counted from 0, growing: int64 of shape (epochs,).
        running: which of them are not over: bool of shape (epochs,).
        batches: folded in, or steps of the optimizer: int64 of shape (epochs,). Of weights, 1.
        values: statistic to numbers, NaN where there is none: float64 of shape (epochs,).
    """

    tensor: str
    phase: str
    epochs: npt.NDArray[np.int64]
    running: npt.NDArray[np.bool_]
    batches: npt.NDArray[np.int64]
    values: Mapping[str, Values]


def layer_series(watch: WatchSnapshot, layer: str, running: tuple[str, int] | None) -> list[Series]:
    """Activations and gradients in each phase, then each parameter: its weights, and its steps in each phase.

    Args:
        watch: the statistics.
        layer: its name.
        running: phase and epoch that more batches are to come to, if there are any.
    """
    found: list[Series] = []
    phases = list(dict.fromkeys(phase for name, phase, _ in watch.stats if name == layer))
    for kind in ("activations", "gradients"):
        for phase in phases:
            history = watch.phase_history(layer, phase)
            tensors = [stats.activations if kind == "activations" else stats.gradients for stats in history]
            keep = [i for i, tensor in enumerate(tensors) if tensor.n or _nonfinite(tensor)]
            if not keep:
                continue
            tensors = [tensors[i] for i in keep]
            values = _of_tensors(tensors)
            if kind == "activations" and any(tensor.dead_channel_count is not None for tensor in tensors):
                values[DEAD] = _array([_or_nan(tensor.dead_channel_count) for tensor in tensors])
            epochs = [history[i].epoch for i in keep]
            found.append(_series(kind, phase, epochs, [history[i].batches for i in keep], values, running))
    weights = watch.weight_history(layer)
    for name, entries in watch.parameter_history(layer).items():
        sampled = weights.get(name, [])
        if sampled:
            values = _of_tensors([tensor for _, tensor in sampled])
            epochs = [epoch for epoch, _ in sampled]
            found.append(_series(name, "", epochs, [1] * len(epochs), values, running))
        for phase in dict.fromkeys(entry.phase for entry in entries):
            stepped = [entry for entry in entries if entry.phase == phase and entry.gradient_norm.steps]
            if not stepped:
                continue
            values = {
                "gradient norm": _array([entry.gradient_norm.mean for entry in stepped]),
                "update ratio": _array([entry.update_ratio.mean for entry in stepped]),
            }
            epochs = [entry.epoch for entry in stepped]
            steps = [entry.gradient_norm.steps for entry in stepped]
            found.append(_series(name, phase, epochs, steps, values, running))
    return found


def _of_tensors(tensors: Sequence[TensorStatsSnapshot]) -> dict[str, Values]:
    values = {name: _array([getattr(tensor, name) for tensor in tensors]) for name in ("mean", "std")}
    values |= {name: _array([tensor.quantile(q) for tensor in tensors]) for name, q in _QUANTILES.items()}
    values |= {name: _array([getattr(tensor, name) for tensor in tensors]) for name in ("min", "max")}
    return values | {NONFINITE: _array([_nonfinite(tensor) for tensor in tensors])}


def _nonfinite(tensor: TensorStatsSnapshot) -> int:
    return tensor.nan + tensor.posinf + tensor.neginf


def _series(
    tensor: str,
    phase: str,
    epochs: Sequence[int],
    batches: Sequence[int],
    values: dict[str, Values],
    running: tuple[str, int] | None,
) -> Series:
    goes_on = [running is not None and epoch == running[1] and phase in (running[0], "") for epoch in epochs]
    return Series(
        tensor,
        phase,
        np.array(epochs, np.int64),
        np.array(goes_on, np.bool_),
        np.array(batches, np.int64),
        values,
    )


def _array(numbers: Sequence[float]) -> Values:
    return np.array(numbers, np.float64)


def _or_nan(count: int | None) -> float:
    return np.nan if count is None else float(count)
