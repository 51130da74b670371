"""Numbers batch by batch: what a session logs and what custom metrics give, kept for curves."""

from __future__ import annotations

import threading
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
"""Values that may wait before they are sorted in, all at once; those on an accelerator are fetched then."""

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
        self._places = np.zeros((0, 2), np.int32)  # epoch, batch
        self._values = np.zeros(0, np.float64)
        self._count = 0
        self._breaks: list[int] = []
        self._left_out = 0
        self._waiting: list[tuple[int, int, Number]] = []

    def add(self, epoch: int, batch: int | None, value: Number) -> None:
        """Add a point, or give the last one another value if it is of the same batch.

        A tensor of one element on an accelerator is fetched later; it must not be changed meanwhile.
        """
        if isinstance(value, torch.Tensor) and value.device.type == "cpu":
            value = float(value)
        with self._lock:
            self._waiting.append((epoch, NO_BATCH if batch is None else batch, value))
            if len(self._waiting) >= WAITING:
                self._fetch()

    def end_here(self) -> None:
        """What comes from now on is of another definition."""
        with self._lock:
            self._fetch()
            if self._count and (not self._breaks or self._breaks[-1] < self._count):
                self._breaks.append(self._count)

    def drop_from(self, epoch: int, batch: int = 0) -> None:
        """Forget the points of this batch and of all after it; those of whole epochs if theirs is not over.

        A point of a whole epoch is there when the epoch is over, so that of `epoch` itself goes too.
        """
        with self._lock:
            self._fetch()
            places = self._places[: self._count]
            whole = places[:, 1] == NO_BATCH
            later = (places[:, 0] > epoch) | ((places[:, 0] == epoch) & (whole | (places[:, 1] >= batch)))
            self._keep(~later)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._places.nbytes + self._values.nbytes + 120 * len(self._waiting)

    def snapshot(self, expected: int | None = None) -> MetricSeries:
        """What is known now.

        Args:
            expected: batches of the phase in an epoch, where known: an epoch that goes on spans as many.
        """
        with self._lock:
            self._fetch()
            places = self._places[: self._count].astype(np.int64)
            values = self._values[: self._count].copy()
            breaks, left_out = tuple(self._breaks), self._left_out
        return MetricSeries(places[:, 0], places[:, 1], values, _spans(places, expected), breaks, left_out)

    def _fetch(self) -> None:
        """Sort in what waits: numpy takes as long for one point as for all of them."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        values = fetched([value for *_, value in waiting])
        broken = bool(self._breaks) and self._breaks[-1] == self._count
        last = None if broken or not self._count else tuple(self._places[self._count - 1].tolist())
        new: list[tuple[tuple[int, int], float]] = []
        for (epoch, batch, _), value in zip(waiting, values, strict=True):
            place = (epoch, batch)
            if place != last:
                new.append((place, value))
            elif new:
                new[-1] = (place, value)
            else:
                self._values[self._count - 1] = value
            last = place
        # Between two times of thinning out there is room for some of them.
        step = max(1, MOST_POINTS // 4)
        for at in range(0, len(new), step):
            self._append(new[at : at + step])

    def _append(self, new: list[tuple[tuple[int, int], float]]) -> None:
        if self._count + len(new) > MOST_POINTS:
            self._thin()
        at, end = self._count, self._count + len(new)
        if end > len(self._values):
            room = max(64, 2 * end)
            self._places = np.resize(self._places, (room, 2))
            self._values = np.resize(self._values, room)
        self._places[at:end] = [place for place, _ in new]
        self._values[at:end] = [value for _, value in new]
        self._count = end

    def _thin(self) -> None:
        keep = np.ones(self._count, bool)
        keep[1 : self._count // 2 : 2] = False
        self._left_out += int((~keep).sum())
        self._keep(keep)

    def _keep(self, keep: npt.NDArray[np.bool_]) -> None:
        before = np.concatenate([[0], np.cumsum(keep)])
        self._breaks = sorted({int(before[at]) for at in self._breaks} - {0})
        self._places = self._places[: self._count][keep]
        self._values = self._values[: self._count][keep]
        self._count = len(self._values)


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
