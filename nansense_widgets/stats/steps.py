"""What optimizer steps do to parameters: gradient norms, update-to-weight ratios; weights once an epoch."""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from nansense_widgets.capture.hooks import OPTIMIZER_HOOKS
from nansense_widgets.capture.values import is_plain, memoryless, size_of, unobserved, unreadable
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.accumulate import TensorStats
from nansense_widgets.stats.epochs import Epochs
from nansense_widgets.stats.norms import Number, Pair, norms
from nansense_widgets.stats.snapshot import ParameterStatsSnapshot, StepSeries, TensorStatsSnapshot

__all__ = ["ParameterBucket", "StepWatch"]

RECENT = 1024
"""Steps of an epoch whose values are kept one by one, those taken last."""

WAITING = 64
"""Values that may wait on an accelerator before they are fetched, all at once."""

ROOM = 256 * 2**20
"""Bytes of weights that are kept while an optimizer steps."""

TOO_LARGE = "update ratio not measured: only 256 MiB of weights are kept for it at a time"


class _Series:
    """Adds up one number a step."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._count = 0
        self._total = 0.0
        self._low, self._high = float("inf"), float("-inf")
        self._nonfinite = 0
        self._waiting: list[tuple[int, torch.Tensor]] = []

    def add(self, batch: int, value: Number) -> None:
        if isinstance(value, torch.Tensor):
            self._waiting.append((batch, value))
            if len(self._waiting) >= WAITING:
                self._fetch()
        else:
            self._add(batch, value)

    def _add(self, batch: int, value: float) -> None:
        self._recent.append((batch, value))
        if not np.isfinite(value):
            self._nonfinite += 1
            return
        self._count += 1
        self._total += value
        self._low, self._high = min(self._low, value), max(self._high, value)

    def _fetch(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            values = torch.stack([value.double() for _, value in waiting]).tolist()
            for (batch, _), value in zip(waiting, values, strict=True):
                self._add(batch, value)

    def snapshot(self) -> StepSeries:
        self._fetch()
        return StepSeries(
            steps=self._count + self._nonfinite,
            mean=self._total / self._count if self._count else float("nan"),
            min=self._low if self._count else float("nan"),
            max=self._high if self._count else float("nan"),
            nonfinite=self._nonfinite,
            batches=np.array([batch for batch, _ in self._recent], np.int64),
            values=np.array([value for _, value in self._recent], np.float64),
        )

    def copy(self) -> _Series:
        other = copy.copy(self)
        other._recent = self._recent.copy()
        other._waiting = list(self._waiting)
        return other

    @property
    def nbytes(self) -> int:
        return 100 * len(self._recent)  # a tuple of two numbers


class ParameterBucket:
    """One parameter in one phase of one epoch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gradient, self._update = _Series(), _Series()
        self._weight = TensorStatsSnapshot()
        self._sampled: BatchPosition | None = None
        self.stepped_at: BatchPosition | None = None
        """The batch of the last step."""
        self._note = ""

    def sample(self, parameter: torch.Tensor, position: BatchPosition) -> None:
        """Take the weights as they are now."""
        if why := unreadable(parameter) or memoryless(parameter):
            self._note = why
            return
        stats = TensorStats(None)
        stats.fold(parameter.cpu())
        with self._lock:
            self._weight, self._sampled = stats.snapshot(), position

    def stepped(self, position: BatchPosition, gradient: Number | None, update: Number | None) -> None:
        with self._lock:
            self.stepped_at = position
            if gradient is not None:
                self._gradient.add(position.batch_idx, gradient)
            if update is not None:
                self._update.add(position.batch_idx, update)

    def note(self, why: str) -> None:
        self._note = why

    @property
    def nbytes(self) -> int:
        hist = self._weight.hist
        return self._gradient.nbytes + self._update.nbytes + (0 if hist is None else hist.nbytes)

    def snapshot(self, name: str, phase: str, epoch: int) -> ParameterStatsSnapshot:
        with self._lock:
            return ParameterStatsSnapshot(
                name,
                phase,
                epoch,
                weight=self._weight,
                sampled=self._sampled,
                gradient_norm=self._gradient.snapshot(),
                update_ratio=self._update.snapshot(),
                note=self._note,
            )

    def copy(self) -> ParameterBucket:
        """An independent copy."""
        with self._lock:
            other = copy.copy(self)
            other._lock = threading.Lock()
            other._gradient, other._update = self._gradient.copy(), self._update.copy()
        return other

    def collapsed(self, name: str, phase: str, epoch: int) -> ParameterStatsSnapshot:
        """Sums over the steps, and the weights without their histogram."""
        return self.snapshot(name, phase, epoch).collapsed()


Named = list[tuple[str, torch.Tensor]]
"""Parameters with their names."""


class StepWatch:
    """Listens to the optimizer steps of one batch.

    Args:
        parameters: those to look at, by name.
        epochs: where they add up.
        position: of the batch.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        epochs: Epochs[ParameterBucket, ParameterStatsSnapshot],
        position: BatchPosition,
    ) -> None:
        self._parameters = parameters
        self._names: dict[int, list[str]] = {}
        """A tied parameter has several."""
        for name, parameter in parameters.items():
            self._names.setdefault(id(parameter), []).append(name)
        self._epochs = epochs
        self._position = position
        self._thread = threading.get_ident()
        self._before: dict[str, torch.Tensor | None] = {}
        self._room = ROOM
        self._gradients: dict[str, Number] = {}
        self.on_use: Callable[[Named, Optimizer], None] | None = None
        """Told of the parameters whose gradients an optimizer uses, while they are as it uses them."""

    def install(self) -> None:
        """Begin to listen; sample weights that this epoch has not seen yet."""
        with unobserved():
            for name, parameter in self._parameters.items():
                # One phase of an epoch tells its weights: others, as validation, do not change them.
                if not self._epochs.has_epoch(name, self._position.epoch):
                    self._end_last_epoch(name, parameter)
                    self._sample(name, parameter)
        OPTIMIZER_HOOKS.add(self)

    def remove(self) -> None:
        """Stop listening."""
        OPTIMIZER_HOOKS.remove(self)
        self._before.clear()

    def finish(self, *, sample: bool) -> None:
        """The batch is over; `sample` the weights once more."""
        if sample or self._position.is_last_in_phase:
            with unobserved():
                for name, parameter in self._parameters.items():
                    if self._epochs.find(name, self._position.phase, self._position.epoch) is not None:
                        self._sample(name, parameter)

    def _end_last_epoch(self, name: str, parameter: torch.Tensor) -> None:
        """Its last batch may not have been known as such: what the weights are now they were at its end."""
        last = self._epochs.newest(name)
        if last is not None and last.stepped_at is not None:
            try:
                last.sample(parameter.detach(), last.stepped_at)
            except Exception as error:
                last.note(f"not sampled: {type(error).__name__}: {error}")

    def _bucket(self, name: str) -> ParameterBucket:
        phase, epoch = self._position.phase, self._position.epoch
        known = self._epochs.find(name, phase, epoch)
        return known or self._epochs.begin(name, phase, epoch, ParameterBucket)

    def before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the weights that a step is about to change, and the norms of the gradients it uses."""
        if threading.get_ident() != self._thread:
            return
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        with unobserved():
            found = [
                (name, parameter)
                for name, parameter in self.of(optimizer)
                if closure is not None or parameter.grad is not None
            ]
            for name, parameter in found:
                self._keep(name, parameter)
            if closure is None:  # a closure computes the gradients inside the step
                self._read_gradients(found, optimizer)

    def after_step(self, optimizer: Optimizer, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        """Compare."""
        if threading.get_ident() != self._thread:
            return
        with unobserved():
            found = [(name, parameter) for name, parameter in self.of(optimizer) if name in self._before]
            self._read_gradients([entry for entry in found if entry[0] not in self._gradients], optimizer)
            updates = self._updates(found)
            for name, _ in found:
                gradient, update = self._gradients.pop(name, None), updates.get(name)
                self._bucket(name).stepped(self._position, gradient, update)

    def of(self, optimizer: Optimizer) -> Named:
        """Its parameters that are looked at; none of an optimizer that is only a shell around others."""
        found = []
        try:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        except Exception:
            return []
        for parameter in parameters:
            names = self._names.get(id(parameter), ())
            if names and (is_plain(parameter) or not (unreadable(parameter) or memoryless(parameter))):
                found += [(name, parameter) for name in names]
        return found

    def _read_gradients(self, found: Named, optimizer: Optimizer) -> None:
        if self.on_use is not None:
            self.on_use(found, optimizer)
        gradients = {name: p.grad.detach() for name, p in found if p.grad is not None}
        # A fused optimizer is given the scale of a GradScaler and divides by it in its own step.
        scale = getattr(optimizer, "grad_scale", None)
        for name, size in self._measured({name: (tensor, None) for name, tensor in gradients.items()}):
            factor = None if scale is None else scale.to(gradients[name].device).squeeze()
            self._gradients[name] = size if factor is None else size / factor

    def _updates(self, found: Named) -> dict[str, Number]:
        """How far each parameter went, measured by its norm before."""
        pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for name, parameter in found:
            before = self._before.pop(name)
            if before is not None:
                self._room += size_of(before)
                pairs[name] = (parameter.detach(), before)
        sizes = dict(self._measured({name: (before, None) for name, (_, before) in pairs.items()}))
        changes = self._measured({name: pair for name, pair in pairs.items() if name in sizes})
        # Of weights that are all zero, as biases often are at first, there is no ratio.
        return {
            name: change / size if isinstance(size, torch.Tensor) or size else float("nan")
            for name, change in changes
            for size in (sizes[name],)
        }

    def _measured(self, pairs: Mapping[str, Pair]) -> list[tuple[str, Number]]:
        """Norms by name; what went wrong becomes a note."""
        found = []
        for name, size in zip(pairs, norms(list(pairs.values())), strict=True):
            if isinstance(size, Exception):
                self._failed(name, size)
            else:
                found.append((name, size))
        return found

    def _failed(self, name: str, error: Exception) -> None:
        self._bucket(name).note(f"not measured: {type(error).__name__}: {error}")

    def _keep(self, name: str, parameter: torch.Tensor) -> None:
        """The weights before a step, if there is room for them."""
        try:
            weights = parameter.detach()
            self._before[name] = None
            if size_of(weights) > self._room:
                self._bucket(name).note(TOO_LARGE)
            else:
                self._before[name] = weights.clone()
                self._room -= size_of(weights)
        except Exception as error:  # an instrument must not end the run
            self._failed(name, error)

    def _sample(self, name: str, parameter: torch.Tensor) -> None:
        try:
            self._bucket(name).sample(parameter.detach(), self._position)
        except Exception as error:
            self._bucket(name).note(f"not sampled: {type(error).__name__}: {error}")
