"""One series of a metric as it grows: a point a batch, or the values of each epoch folded into one."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nansense_widgets.stats.instruments.numbers import as_number
from nansense_widgets.stats.instruments.registry import Reduce
from nansense_widgets.stats.norms import Number
from nansense_widgets.stats.series import NO_BATCH, MetricSeries, PointSeries, fetched

__all__ = ["MOST_VALUES", "StillTrack", "Track"]

MOST_VALUES = 2**17
"""Values of one epoch that are kept one by one. Of more, the older half goes: sums, extremes and counts know
of it still, but a function gets the later values only."""

WAITING = 64
"""Values that may wait on an accelerator before they are fetched, all at once."""

EPOCHS = 2
"""Epochs whose values are kept: of the one that goes on, and of that before, which one may step back into."""


class Track:
    """Values come on the training thread, snapshots are taken on any.

    Args:
        reduce: how the values of an epoch become one; None: each batch has a point of its own.
    """

    def __init__(self, reduce: Reduce | None) -> None:
        self._lock = threading.RLock()  # a function of the user's may ask for a snapshot
        self._points = PointSeries()
        self._fold = None if reduce is None else _EpochFold(reduce)

    def add(self, epoch: int, batch: int, value: Number) -> None:
        """One more value. With the first one of an epoch the epoch before is over, which may raise what a
        function given as `reduce` raises."""
        if self._fold is None:
            self._points.add(epoch, batch, value)
            return
        with self._lock:
            over = self._fold.add(epoch, batch, value)
            if over is not None:
                self._end(self._fold, over)

    def settle(self) -> None:
        """Let a function given as `reduce` fold what is there of the epoch that goes on (training thread)."""
        if self._fold is not None and callable(self._fold.reduce):
            with self._lock:
                self._fold.settle()

    def redefine(self, reduce: Reduce | None) -> None:
        """What comes from now on is of another definition."""
        with self._lock:
            if self._fold is not None and (running := self._fold.running) is not None:
                self._end(self._fold, running)
            self._points.end_here()
            self._fold = None if reduce is None else _EpochFold(reduce)

    def drop_from(self, epoch: int, batch: int = 0) -> None:
        """Forget the values of this batch and of all after it.

        The values of the last two epochs are there one by one; of an epoch further back, rewound into its
        middle, only those that come again count.
        """
        with self._lock:
            self._points.drop_from(epoch, batch)
            if self._fold is not None:
                self._fold.drop_from(epoch, batch)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._points.nbytes + (0 if self._fold is None else self._fold.nbytes)

    def snapshot(self, expected: int | None = None) -> MetricSeries:
        """What is known now; of the epoch that goes on, what its values give so far.

        Args:
            expected: batches of the phase in an epoch, where known.
        """
        with self._lock:
            if self._fold is None:
                return self._points.snapshot(expected)
            points, running = self._points.snapshot(), self._fold.running
            value = None if running is None else self._fold.known(running)
        if running is None or value is None:
            return points
        return replace(
            points,
            epochs=np.append(points.epochs, running.epoch),
            batch_indices=np.append(points.batch_indices, NO_BATCH),
            values=np.append(points.values, value),
            spans=np.append(points.spans, 1),
        )

    def _end(self, fold: _EpochFold, epoch: _Values) -> None:
        epoch.is_over = True
        self._points.add(epoch.epoch, None, fold.folded(epoch))


class StillTrack(Track):
    """A series of another run, to which nothing is added."""

    def __init__(self, series: MetricSeries) -> None:
        super().__init__(None)
        self._series = series

    def snapshot(self, expected: int | None = None) -> MetricSeries:  # noqa: ARG002  it knows
        """As it was."""
        return self._series

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return 32 * len(self._series)


class _Values:
    """The values of one epoch, batch by batch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_over = False
        self.batches = array("q")
        self.values = array("d")
        self.early = np.zeros(0, np.float64)
        """Of older values that are not kept: their number, sum, least and largest."""
        self.settled: tuple[int, float] | None = None
        """What a function gave, of how many values."""

    def add(self, batch: int, value: float) -> None:
        if self.batches and self.batches[-1] == batch:
            self.values[-1] = value
            self.settled = None
            return
        if len(self.values) >= MOST_VALUES:
            half = MOST_VALUES // 2
            gone = np.array(self.values[:half])
            count, total, low, high = self.early if len(self.early) else (0, 0, np.inf, -np.inf)
            ends = np.minimum(low, gone.min()), np.maximum(high, gone.max())
            self.early = np.array([count + half, total + gone.sum(), *ends])
            del self.values[:half], self.batches[:half]
        self.batches.append(batch)
        self.values.append(value)

    def cut(self, batch: int) -> None:
        keep = sum(1 for one in self.batches if one < batch)
        if not keep:  # into what is not kept one by one, or into nothing
            self.early = np.zeros(0, np.float64)
        del self.values[keep:], self.batches[keep:]
        self.settled = None

    def array(self) -> npt.NDArray[np.float64]:
        return np.array(self.values, np.float64)


class _EpochFold:
    def __init__(self, reduce: Reduce) -> None:
        self.reduce = reduce
        self._epochs: deque[_Values] = deque(maxlen=EPOCHS)
        self._waiting: list[tuple[_Values, int, Number]] = []

    def add(self, epoch: int, batch: int, value: Number) -> _Values | None:
        """Add a value; the epoch before, if it is over with this."""
        over = None
        last = self.running
        if last is None or last.epoch != epoch:
            over = last
            if last is not None:
                self._fetch()
            self._epochs.append(_Values(epoch))
        into = self._epochs[-1]
        self._waiting.append((into, batch, value))
        if len(self._waiting) >= WAITING:
            self._fetch()
        return over

    @property
    def running(self) -> _Values | None:
        """The epoch that goes on."""
        return self._epochs[-1] if self._epochs and not self._epochs[-1].is_over else None

    def settle(self) -> None:
        self._fetch()
        running = self.running
        if running is not None and len(running.values):
            running.settled = (len(running.values), self.folded(running))

    def known(self, epoch: _Values) -> float | None:
        """What its values give, without calling a function of the user's: on this thread it may not run."""
        self._fetch()
        if not callable(self.reduce):
            return self.folded(epoch)
        return epoch.settled[1] if epoch.settled and epoch.settled[0] == len(epoch.values) else None

    def folded(self, epoch: _Values) -> float:
        self._fetch()
        if callable(self.reduce):
            number = as_number(self.reduce(list(epoch.values)), "reduce returns a number")
            return float(number)
        if self.reduce == "last":
            return epoch.values[-1]
        values, early = epoch.array(), epoch.early
        rest = len(early) > 0
        if self.reduce in ("mean", "sum"):
            total = values.sum() + (early[1] if rest else 0.0)
            return float(total if self.reduce == "sum" else total / (len(values) + (early[0] if rest else 0)))
        ends = np.append(values, early[2:] if rest else [])
        return float(ends.min() if self.reduce == "min" else ends.max())

    def drop_from(self, epoch: int, batch: int) -> None:
        self._fetch()
        while self._epochs and self._epochs[-1].epoch > epoch:
            self._epochs.pop()
        if self._epochs and self._epochs[-1].epoch == epoch:
            last = self._epochs[-1]
            last.cut(batch)
            last.is_over = False
            if not last.values:
                self._epochs.pop()

    @property
    def nbytes(self) -> int:
        return sum(16 * len(epoch.values) for epoch in self._epochs)

    def _fetch(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            values = fetched([value for *_, value in waiting])
            for (into, batch, _), value in zip(waiting, values, strict=True):
                into.add(batch, value)
