"""How far the run is and how long it still takes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nansense_widgets.run.schedule import Schedule

__all__ = ["Pace", "Progress"]


@dataclass(frozen=True)
class Progress:
    """How far the run is.

    Attributes:
        epoch_done: batches finished in the current epoch, all phases together.
        epoch_total: batches of an epoch; None while a phase or its length is not known.
        epoch_left_s: seconds left of the epoch at the present pace; None if not known.
        run_done: batches finished in the run.
        run_total: batches of the run; None if not known.
        run_left_s: seconds left of the run; None if not known.
        batch_s: seconds a batch, averaged over about the last twenty; pauses do not count.
    """

    epoch_done: int
    epoch_total: int | None
    epoch_left_s: float | None
    run_done: int
    run_total: int | None
    run_left_s: float | None
    batch_s: float | None


class Pace:
    """Seconds a batch takes, as a moving average over about the last twenty; pauses do not count.

    The first batch warms torch up and can take ten times as long as any other: the second takes its place.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._average: float | None = None
        self._batches = 0

    def begin(self) -> None:
        """A batch begins, or goes on after a pause."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """The batch ends."""
        if self._began is None:
            return
        self.count(time.perf_counter() - self._began)
        self._began = None

    @property
    def batch_s(self) -> float | None:
        """Seconds a batch; None before the second."""
        return self._average

    def show(self, batch_s: float | None) -> None:
        """Begin from another run's pace."""
        self._average = batch_s

    def count(self, took: float) -> None:
        """Count a batch that took so many seconds."""
        share = max(0.05, 1 / max(1, self._batches))
        self._batches += 1
        self._average = took if self._average is None else (1 - share) * self._average + share * took

    def progress(self, schedule: Schedule) -> Progress:
        """Progress now; the time left assumes that batches go on at this pace, whatever their phase."""
        epoch_total = schedule.epoch_batches
        run_total = None
        if epoch_total is not None and schedule.epochs is not None:
            run_total = epoch_total * schedule.epochs
        pace = self._average

        def left(done: int, total: int | None) -> float | None:
            return None if pace is None or total is None else max(0, total - done) * pace

        return Progress(
            epoch_done=schedule.epoch_batches_done,
            epoch_total=epoch_total,
            epoch_left_s=left(schedule.epoch_batches_done, epoch_total),
            run_done=schedule.batches_done,
            run_total=run_total,
            run_left_s=left(schedule.batches_done, run_total),
            batch_s=pace,
        )
