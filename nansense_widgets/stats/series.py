"""Numbers batch by batch: what a session logs and what custom metrics give, kept for curves."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.stats.norms import Number

__all__ = ["MOST_POINTS", "NO_BATCH", "MetricSeries", "PointSeries", "fetched"]

MOST_POINTS = 2**17
"""Points of one series that are kept; of more, every other one of its older half goes."""

WAITING = 64
"""Values that may wait on an accelerator before they are fetched, all at once."""

NO_BATCH = -1


@dataclass(frozen=True)
class MetricSeries:
    """One plot trace: points ordered by (epoch, batch).

    Attributes:
        epochs: counted from 0: int64 of shape (points,).
        batch_indices: counted from 0, -1 for a point of a whole epoch: int64 of shape (points,).
        values: as they were given, NaN and infinities too: float64 of shape (points,).
        spans: batches that an epoch spans on the axis: int64 of shape (points,).
        breaks: indices of points with which another definition of the metric begins.
        left_out: older points that were left out to bound memory.
    """

    epochs: npt.NDArray[np.int64]
    batch_indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    spans: npt.NDArray[np.int64]
    breaks: tuple[int, ...] = ()
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def batches(self) -> list[int | None]:
        """The batch of each point, None for a point of a whole epoch."""
        return [None if batch == NO_BATCH else batch for batch in self.batch_indices.tolist()]

    @property
    def xs(self) -> npt.NDArray[np.float64]:
        """Where each point lies on an axis of epochs: float64 of shape (points,).

        A point of a whole epoch lies at its epoch, counted from 0; one of a batch at `epoch + batch / span`.
        """
        return np.asarray(self.epochs + np.maximum(self.batch_indices, 0) / self.spans, np.float64)


class PointSeries:
    """One series as it grows. Points come on the training thread, snapshots are taken on any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Of Python, not of numpy: appending to them takes a twentieth of the time.
        self._epochs, self._batches, self._values = array("q"), array("q"), array("d")
        self._breaks: list[int] = []
        self._left_out = 0
        self._waiting: list[tuple[int, int, torch.Tensor]] = []

    @staticmethod
    def of(series: MetricSeries) -> PointSeries:
        """One that goes on from the points of a snapshot."""
        found = PointSeries()
        found._epochs = array("q", series.epochs.tolist())
        found._batches = array("q", series.batch_indices.tolist())
        found._values = array("d", series.values.tolist())
        found._breaks, found._left_out = list(series.breaks), series.left_out
        return found

    def add(self, epoch: int, batch: int | None, value: Number) -> None:
        """Add a point, or give the last one another value if it is of the same batch.

        A tensor of one element on an accelerator is fetched later; it must not be changed meanwhile.
        """
        place = NO_BATCH if batch is None else batch
        with self._lock:
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                self._waiting.append((epoch, place, value))
                if len(self._waiting) >= WAITING:
                    self._fetch()
                return
            if self._waiting:
                self._fetch()
            self._add(epoch, place, float(value))

    def end_here(self) -> None:
        """What comes from now on is of another definition."""
        with self._lock:
            self._fetch()
            count = len(self._values)
            if count and (not self._breaks or self._breaks[-1] < count):
                self._breaks.append(count)

    def drop_from(self, epoch: int, batch: int = 0) -> None:
        """Forget the points of this batch and of all after it; those of whole epochs if theirs is not over.

        A point of a whole epoch is there when the epoch is over, so that of `epoch` itself goes too.
        """
        with self._lock:
            self._fetch()
            places = self._places()
            whole = places[:, 1] == NO_BATCH
            later = (places[:, 0] > epoch) | ((places[:, 0] == epoch) & (whole | (places[:, 1] >= batch)))
            self._keep(~later)

    @property
    def last(self) -> tuple[int, int, float] | None:
        """Epoch, batch and value of the last point; a value on an accelerator is fetched."""
        with self._lock:
            self._fetch()
            return (self._epochs[-1], self._batches[-1], self._values[-1]) if self._values else None

    def after(self, epoch: int, batch: int = 0) -> MetricSeries:
        """The points that `drop_from` would forget."""
        everything = self.snapshot()
        epochs, batches = everything.epochs, everything.batch_indices
        keep = (epochs > epoch) | ((epochs == epoch) & ((batches >= batch) | (batches == NO_BATCH)))
        columns = (epochs, batches, everything.values, everything.spans)
        return MetricSeries(*(column[keep] for column in columns))

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return 24 * len(self._values)

    def snapshot(self, expected: int | None = None) -> MetricSeries:
        """What is known now.

        Args:
            expected: batches of the phase in an epoch, where known: an epoch that goes on spans as many.
        """
        with self._lock:
            self._fetch()
            places = self._places()
            values = np.array(self._values, np.float64)
            breaks, left_out = tuple(self._breaks), self._left_out
        return MetricSeries(places[:, 0], places[:, 1], values, _spans(places, expected), breaks, left_out)

    def _add(self, epoch: int, batch: int, value: float) -> None:
        count = len(self._values)
        broken = bool(self._breaks) and self._breaks[-1] == count
        if count and not broken and self._batches[-1] == batch and self._epochs[-1] == epoch:
            self._values[-1] = value
            return
        if count >= MOST_POINTS:
            self._thin()
        self._epochs.append(epoch)
        self._batches.append(batch)
        self._values.append(value)

    def _places(self) -> npt.NDArray[np.int64]:
        """Epoch and batch of each point."""
        return np.stack([np.array(self._epochs, np.int64), np.array(self._batches, np.int64)], 1)

    def _fetch(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            values = fetched([value for *_, value in waiting])
            for (epoch, batch, _), value in zip(waiting, values, strict=True):
                self._add(epoch, batch, value)

    def _thin(self) -> None:
        keep = np.ones(len(self._values), bool)
        keep[1 : len(keep) // 2 : 2] = False
        self._left_out += int((~keep).sum())
        self._keep(keep)

    def _keep(self, keep: npt.NDArray[np.bool_]) -> None:
        before = np.concatenate([[0], np.cumsum(keep)])
        self._breaks = sorted({int(before[at]) for at in self._breaks} - {0})
        self._epochs, self._batches = (array("q", column) for column in self._places()[keep].T.tolist())
        self._values = array("d", np.array(self._values)[keep].tolist())


def fetched(values: Sequence[Number]) -> list[float]:
    """Numbers; those of tensors on an accelerator are fetched at once."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not tensors:
        return [float(value) for value in values]
    found = iter(torch.stack([tensor.detach().double().reshape(()) for tensor in tensors]).tolist())
    return [next(found) if isinstance(value, torch.Tensor) else value for value in values]


def _spans(places: npt.NDArray[np.int64], expected: int | None) -> npt.NDArray[np.int64]:
    """The batches that were seen of each point's epoch; of the last one, as many as are expected."""
    if not len(places):
        return np.zeros(0, np.int64)
    epochs, which = np.unique(places[:, 0], return_inverse=True)
    seen = np.ones(len(epochs), np.int64)
    np.maximum.at(seen, which, places[:, 1] + 1)
    seen[-1] = max(seen[-1], expected or 0)
    spans: npt.NDArray[np.int64] = seen[which]
    return spans
