"""Numbers of the whole run: what the loop logs, the loss as `backward()` saw it, and learning rates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch.optim import Optimizer

from nansense_widgets.run.hyperparameters import hyperparameters
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.norms import Number
from nansense_widgets.stats.series import MetricSeries, PointSeries

__all__ = ["MOST_RATES", "Key", "RunKind", "RunLog", "RunLogSnapshot"]

RunKind = Literal["logged", "loss", "rate"]
"""`logged`: by `session.log`; `loss`: seen in `backward()`; `rate`: a learning rate, read when it was."""

MOST_RATES = 8
"""Parameter groups whose learning rates are kept, the first ones."""

Key: TypeAlias = tuple[RunKind, str, str]
"""Kind, name and phase."""


@dataclass(frozen=True)
class RunLogSnapshot:
    """Every series of the run at one moment, immutable.

    Attributes:
        all: by kind (`logged`, `loss` or `rate`), name and phase.
        notes: what is not there, in words.
    """

    all: Mapping[Key, MetricSeries]
    notes: tuple[str, ...] = ()

    def series(self, name: str) -> dict[str, MetricSeries]:
        """Phase to series of one name: what was logged, else what was seen. Empty for an unknown name."""
        kinds: tuple[RunKind, ...] = ("logged", "loss", "rate")
        for kind in kinds:
            found = {
                phase: one for (of, known, phase), one in self.all.items() if (of, known) == (kind, name)
            }
            if found:
                return found
        return {}

    @property
    def names(self) -> list[str]:
        """Names in the order in which they came."""
        return list(dict.fromkeys(name for _, name, _ in self.all))


class RunLog:
    """The series as they grow. Points come on the training thread, or from wherever the user logs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[Key, PointSeries] = {}
        self._position: BatchPosition | None = None
        self._optimizers: Sequence[Optimizer] = ()
        self._notes: dict[str, None] = {}
        self._rates: tuple[int, Sequence[str]] = (0, ())
        """Names of the learning rates of so many groups."""

    def log(self, name: str, value: Number, position: BatchPosition | None, epoch: int) -> None:
        """A number of the user's, at the batch that is open or was last; before the first, at its epoch."""
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            value = value.detach().clone()  # it is fetched later
        if position is None:
            self._find("logged", name, "").add(epoch, None, value)
        else:
            self._find("logged", name, position.phase).add(position.epoch, position.batch_idx, value)

    # ------------------------------------------------------------ what the capture tells

    def begin(self, position: BatchPosition, optimizers: Sequence[Optimizer]) -> None:
        """A batch begins."""
        self._position, self._optimizers = position, optimizers

    def end(self) -> None:
        """It is over; the optimizers are not kept alive."""
        self._position, self._optimizers = None, ()

    def loss(self, number: int, loss: Number) -> None:
        """A backward pass of the open batch begins from `loss`; passes of a batch are counted from 0."""
        if self._position is None:
            return
        name = "loss" if not number else f"loss {number + 1}"
        position = self._position
        self._find("loss", name, position.phase).add(position.epoch, position.batch_idx, loss)
        if not number:  # as the step that follows will use them
            self._sample_rates(position)

    def _sample_rates(self, position: BatchPosition) -> None:
        groups = [(optimizer, group) for optimizer in self._optimizers for group in optimizer.param_groups]
        if len(groups) > MOST_RATES:
            self._notes[f"learning rates of the first {MOST_RATES} of {len(groups)} parameter groups"] = None
        names = self._rate_names(len(groups))
        for name, (_, group) in zip(names, groups, strict=False):
            rate = group.get("lr")
            if isinstance(rate, torch.Tensor):
                if rate.device.type != "cpu" or rate.numel() != 1:
                    continue  # reading it would wait for the device
                rate = float(rate)
            if isinstance(rate, (int, float)):
                self._find("rate", name, position.phase).add(position.epoch, position.batch_idx, float(rate))

    def _rate_names(self, count: int) -> Sequence[str]:
        if count <= 1:
            return ["lr"]
        if self._rates[0] != count:
            found = [one for one in hyperparameters(self._optimizers) if one.name == "lr"][:MOST_RATES]
            labels = [", ".join(filter(None, (one.label, one.group_label))) for one in found]
            self._rates = (count, [f"lr ({label})" for label in labels])
        return self._rates[1]

    # ------------------------------------------------------------ reading, and going back

    def snapshot(self, expected: Callable[[str], int | None] = lambda _: None) -> RunLogSnapshot:
        """What is known now; `expected`: batches of a phase in an epoch, if they are known."""
        with self._lock:
            series = dict(self._series)
        found = {key: one.snapshot(expected(key[2])) for key, one in series.items()}
        notes = [
            f"{name}: {one.left_out:,} older points left out"
            for (_, name, _), one in found.items()
            if one.left_out
        ]
        return RunLogSnapshot({key: one for key, one in found.items() if len(one)}, (*self._notes, *notes))

    def show(self, snapshot: RunLogSnapshot) -> None:
        """Hold the series of another run."""
        with self._lock:
            self._series = {key: PointSeries.of(one) for key, one in snapshot.all.items()}
            self._notes = dict.fromkeys(snapshot.notes)

    def sizes(self) -> Iterator[tuple[str, str, int]]:
        """What is held: kind, name, bytes."""
        with self._lock:
            series = dict(self._series)
        for (_, name, _), one in series.items():
            yield "run log", name, one.nbytes

    def rewind_to_epoch(self, epoch: int, *, gap: bool = False) -> None:
        """Forget this epoch and those after it; with a `gap`, what comes does not follow what is there."""
        with self._lock:
            for series in self._series.values():
                series.drop_from(epoch)
                if gap:
                    series.end_here()

    def after(self, epoch: int, batch: int = 0, phase: str | None = None) -> RunLogSnapshot:
        """The points of this batch and of those after it, of one phase or of all."""
        found = {key: one.after(epoch, batch) for key, one in self._items() if phase in (None, key[2])}
        return RunLogSnapshot({key: one for key, one in found.items() if len(one)})

    def losses_of(self, position: BatchPosition) -> dict[str, float]:
        """Losses that were seen in a batch that is just over, by name."""
        found = {}
        for (kind, name, phase), series in self._items():
            if kind == "loss" and phase == position.phase and (last := series.last) is not None:
                epoch, batch, value = last
                if (epoch, batch) == (position.epoch, position.batch_idx):
                    found[name] = value
        return found

    def rewind_to_batch(self, phase: str, epoch: int, batch: int) -> None:
        """Forget this batch of the phase that goes on, and those after it."""
        for key, series in self._items():
            if key[2] == phase:
                series.drop_from(epoch, batch)

    def restart(self) -> None:
        """Another run begins."""
        with self._lock:
            self._series = {}
            self._notes = {}

    def _items(self) -> list[tuple[Key, PointSeries]]:
        with self._lock:
            return list(self._series.items())

    def _find(self, kind: RunKind, name: str, phase: str) -> PointSeries:
        known = self._series.get((kind, name, phase))
        if known is None:
            with self._lock:
                known = self._series.setdefault((kind, name, phase), PointSeries())
        return known
