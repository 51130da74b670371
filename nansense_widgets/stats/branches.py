"""Futures that were left by going back: kept beside the run that goes another way from there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.runlog import Key, RunLogSnapshot
from nansense_widgets.stats.series import MetricSeries

__all__ = ["MOST_BRANCHES", "Branch", "Branches"]

MOST_BRANCHES = 8
"""Branches that are kept, those left last."""


@dataclass(frozen=True)
class Branch:
    """What the run had done before it went back and then another way.

    Attributes:
        number: counts the branches of a run, from 1.
        left: the last batch that it had come to.
        parted: the first batch in which the run did something else, as far as known.
        why: what made it go another way, in words.
        log: its points that are not the run's: by kind, name and phase.
    """

    number: int
    left: BatchPosition | None
    parted: BatchPosition | None
    why: str
    log: Mapping[Key, MetricSeries]


class Branches:
    """Compares a run that went back with what it did before, until it goes another way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._branches: tuple[Branch, ...] = ()
        self._count = 0
        self._future: dict[Key, MetricSeries] = {}
        """Points of batches that have not come again, or only just."""
        self._left: BatchPosition | None = None
        self._losses: dict[tuple[str, str, int, int], float] = {}
        """Name, phase, epoch and batch: those that have not come again."""

    @property
    def all(self) -> tuple[Branch, ...]:
        """The branches, oldest first."""
        return self._branches

    @property
    def is_replaying(self) -> bool:
        """Whether batches come again that have been before."""
        return bool(self._losses)

    def left(self, dropped: RunLogSnapshot, position: BatchPosition | None) -> None:
        """The run went back: these points, up to that batch, will come again or not."""
        with self._lock:
            if not self._losses:
                self._left = position
                self._future = {}
            # A future that had not all come again is continued by what was dropped before it.
            for key, series in dropped.all.items():
                known = self._future.get(key)
                self._future[key] = series if known is None else _joined(series, known)
            for (kind, name, phase), series in dropped.all.items():
                if kind == "loss":
                    places = zip(series.epochs.tolist(), series.batch_indices.tolist(), strict=True)
                    found = zip(places, series.values.tolist(), strict=True)
                    self._losses.update({(name, phase, *place): value for place, value in found})
            if not self._losses:  # nothing to compare
                self._future = {}

    def compare(self, position: BatchPosition, losses: Callable[[BatchPosition], Mapping[str, float]]) -> str:
        """A batch is over: how it differs from its first time; empty if it does not, or never was.

        `losses` gives those of a batch by name.
        """
        if not self._losses:
            return ""
        place = (position.phase, position.epoch, position.batch_idx)
        told = ""
        for name, value in losses(position).items():
            before = self._losses.pop((name, *place), None)
            if before is not None and before != value and not (np.isnan(before) and np.isnan(value)):
                told = told or f"{name} {value:.9g}, and {before:.9g} the first time"
        if not self._losses and not told:  # all of it has come again
            self._future = {}
        return told

    def part(self, position: BatchPosition | None, why: str, live: RunLogSnapshot) -> None:
        """From here on the run goes another way: what has not come again becomes a branch."""
        with self._lock:
            future, self._future, self._losses = self._future, {}, {}
            log = {}
            for key, series in future.items():
                other = live.all.get(key)
                rest = series if other is None else _without(series, other)
                if len(rest):
                    log[key] = rest
            if log:
                self._count += 1
                branch = Branch(self._count, self._left, position, why, log)
                self._branches = (*self._branches, branch)[-MOST_BRANCHES:]

    def clear(self) -> None:
        """Another run begins."""
        with self._lock:
            self._branches, self._future, self._losses, self._count = (), {}, {}, 0

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        logs = [*(branch.log for branch in self._branches), self._future]
        return sum(32 * len(series) for log in logs for series in log.values())


def _joined(one: MetricSeries, other: MetricSeries) -> MetricSeries:
    """Both, in the order of their batches; of the same batch the first one's."""
    rest = _without(other, one, values=False)
    epochs = np.concatenate([one.epochs, rest.epochs])
    batches = np.concatenate([one.batch_indices, rest.batch_indices])
    order = np.lexsort((batches, epochs))
    return MetricSeries(
        epochs[order],
        batches[order],
        np.concatenate([one.values, rest.values])[order],
        np.concatenate([one.spans, rest.spans])[order],
    )


def _without(series: MetricSeries, other: MetricSeries, *, values: bool = True) -> MetricSeries:
    """The points that the other one does not have; with `values`, or has with another value."""

    def keys(one: MetricSeries) -> list[tuple[object, ...]]:
        columns = [one.epochs.tolist(), one.batch_indices.tolist()]
        # By their bits: NaN is itself.
        return list(zip(*columns, *([one.values.view(np.int64).tolist()] if values else []), strict=True))

    known = set(keys(other))
    keep = np.array([key not in known for key in keys(series)], bool)
    return replace(
        series,
        epochs=series.epochs[keep],
        batch_indices=series.batch_indices[keep],
        values=series.values[keep],
        spans=series.spans[keep],
        breaks=(),
    )
