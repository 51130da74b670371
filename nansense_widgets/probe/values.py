"""Values of layers in a probe: all of the watched ones; of every layer, how much a perturbation has moved."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import torch

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.attention import MAPS
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.snapshot import LayerCall, LeafValue
from nansense_widgets.capture.values import Budget, Kept, keep, size_of, to_cpu, unobserved, unreadable
from nansense_widgets.probe.result import Moved

__all__ = ["Baseline", "LayerValues"]

MAX_CALLS = 64

BASELINE_BYTES = 2**29

NO_GRADIENT = "not computed: a probe is a forward only"

Key = tuple[str, int, str]
"""Layer, call, path of the output."""


class Baseline:
    """Values of all layers without the perturbations, of the samples that these are in.

    Args:
        samples: indices in the batch; None: all.
        size: of the batch; None: there is no batch axis.
    """

    def __init__(self, architecture: Architecture, samples: Collection[int] | None, size: int | None) -> None:
        self.values: dict[Key, torch.Tensor] = {}
        self.left_out: set[str] = set()
        """Layers for which there was no room."""
        self._architecture = architecture
        self._samples = None if samples is None else sorted(samples)
        self._size = size
        self._room = BASELINE_BYTES

    def part(self, layer: str, path: str, tensor: torch.Tensor) -> torch.Tensor:
        """The perturbed samples of an output, as a view where it can be."""
        axes = self._architecture.axes(layer, path, tensor.ndim)
        axis = 0 if axes is None else axes.batch
        if self._samples is None or axis is None or tensor.ndim <= axis or tensor.shape[axis] != self._size:
            return tensor.detach()
        found = tensor.detach()
        if len(self._samples) == 1:
            return found.select(axis, self._samples[0])
        return found.index_select(axis, torch.tensor(self._samples, device=tensor.device))

    def take(self, layer: str, call: int, value: Any) -> None:
        """Remember a value."""
        for path, given in leaves(value):
            tensor = _comparable(given)
            if tensor is None:
                continue
            part = self.part(layer, path, tensor)
            size = size_of(part)
            if size > self._room:
                self.left_out.add(layer)
                continue
            self._room -= size
            self.values[layer, call, path] = part.clone()

    @property
    def nbytes(self) -> int:
        return BASELINE_BYTES - self._room


class LayerValues:
    """What a watch hands values to; see `Taker`.

    Args:
        watched: layers whose values are kept whole.
        baseline: is filled with this run's values, if given.
        against: is compared with this run's values, if given.
    """

    def __init__(
        self, watched: Collection[str], baseline: Baseline | None = None, against: Baseline | None = None
    ) -> None:
        self._watched = frozenset(watched)
        self._baseline = baseline
        self._against = against
        self._budget = Budget()
        self._calls: dict[str, list[tuple[int, list[LeafValue]]]] = {}
        self._seen: dict[str, int] = {}
        """Layer to its calls so far."""
        self._moved: dict[str, list[float]] = {}
        """Layer to values changed, values compared, largest difference."""

    def take(self, layer: str, call: int, value: Any) -> None:
        """Keep what is wanted of a value, now."""
        with unobserved():
            if self._baseline is not None:
                self._baseline.take(layer, call, value)
            if self._against is not None:
                self._compare(self._against, layer, call, value)
        if layer not in self._watched:
            return
        calls = self._calls.setdefault(layer, [])
        self._seen[layer] = call
        if len(calls) < MAX_CALLS:
            found = [_leaf(path, keep(tensor, self._budget)) for path, tensor in leaves(value)]
            if calls and calls[-1][0] == call:  # its attention weights came first
                calls[-1][1][:0] = found
            else:
                calls.append((call, found))

    def add_maps(self, layer: str, call: int, maps: Kept) -> None:
        """Attention weights that were formed beside a call."""
        calls = self._calls.setdefault(layer, [])
        leaf = _leaf(MAPS, maps)
        if calls and calls[-1][0] == call:
            calls[-1][1].append(leaf)
        elif len(calls) < MAX_CALLS:
            calls.append((call, [leaf]))

    def recomputed(self, layer: str, value: Any) -> None:
        """Nothing is differentiated, so nothing is computed a second time."""

    @property
    def layers(self) -> Mapping[str, tuple[LayerCall, ...]]:
        """Calls of the watched layers, on the CPU."""
        return {
            name: tuple(LayerCall(call, tuple(map(_on_cpu, items))) for call, items in calls if items)
            for name, calls in self._calls.items()
            if any(items for _, items in calls)
        }

    @property
    def dropped(self) -> Mapping[str, str]:
        """Layer to how many of its calls were kept, where not all were."""
        return {
            name: f"first {MAX_CALLS} of {count} calls kept"
            for name, count in self._seen.items()
            if count > MAX_CALLS
        }

    @property
    def moved(self) -> Mapping[str, Moved]:
        """How far each layer's values were moved, in the order in which layers gave some."""
        return {
            name: Moved(changed / count if count else 0.0, largest)
            for name, (changed, count, largest) in self._moved.items()
        }

    def _compare(self, baseline: Baseline, layer: str, call: int, value: Any) -> None:
        for path, given in leaves(value):
            before = baseline.values.get((layer, call, path))
            tensor = _comparable(given)
            if before is None or tensor is None:
                continue
            after = baseline.part(layer, path, tensor)
            told = self._moved.setdefault(layer, [0.0, 0.0, 0.0])
            told[1] += before.numel()
            if after.shape != before.shape:
                told[0] += before.numel()
                continue
            changed, gap = _moved(after, before)
            told[0] += changed
            told[2] = gap if math.isnan(gap) else max(told[2], gap)


def _comparable(tensor: torch.Tensor) -> torch.Tensor | None:
    """Its values as a plain tensor; None: it has none."""
    if unreadable(tensor):
        return None
    if tensor.is_quantized:
        return tensor.int_repr()
    return tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()


def _moved(after: torch.Tensor, before: torch.Tensor) -> tuple[int, float]:
    """How many values differ, and the largest difference; NaN is equal to itself."""
    if not after.numel():
        return 0, 0.0
    gaps = _difference(after, before).abs()
    largest = float(gaps.max())
    if not math.isnan(largest):  # then there is no NaN in either, and no infinity in the same place
        return int((after != before).sum()), largest
    differs = (after != before) & ~(after.isnan() & before.isnan())
    changed = int(differs.sum())
    return changed, float(gaps[differs].max()) if changed else 0.0


def _difference(after: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    if after.dtype.is_complex:
        return after - before
    return after.double() - before.double()


def _leaf(path: str, kept: Kept) -> LeafValue:
    return LeafValue(
        path=path,
        activation=kept.tensor,
        activation_reason=kept.reason,
        gradient=None,
        gradient_reason=NO_GRADIENT,
        activation_note="formed beside the forward, before dropout" if path == MAPS else "",
        part=kept.part,
    )


def _on_cpu(leaf: LeafValue) -> LeafValue:
    kept = to_cpu(Kept(leaf.activation, leaf.activation_reason, leaf.part))
    return LeafValue(
        leaf.path, kept.tensor, kept.reason, None, NO_GRADIENT, leaf.activation_note, part=kept.part
    )
