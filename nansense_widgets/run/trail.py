"""Which batches the run has gone through, in their order: a segment for each phase of each epoch."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from nansense_widgets.run.going_back import Target
from nansense_widgets.run.position import BatchPosition

__all__ = ["Segment", "Trail"]


@dataclass(frozen=True)
class Segment:
    """Batches of one phase in one epoch that came one after another.

    Attributes:
        phase: its name.
        epoch: counted from 0.
        first: the batch that it begins with.
        count: batches that have begun.
    """

    phase: str
    epoch: int
    first: int
    count: int

    @property
    def end(self) -> int:
        """The batch behind the last one."""
        return self.first + self.count


class Trail:
    """Grows on the training thread, is read on any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: list[Segment] = []

    def add(self, position: BatchPosition) -> None:
        """A batch begins."""
        phase, epoch, batch = position.phase, position.epoch, position.batch_idx
        with self._lock:
            last = self._segments[-1] if self._segments else None
            if last is not None and (last.phase, last.epoch, last.end) == (phase, epoch, batch):
                self._segments[-1] = replace(last, count=last.count + 1)
            else:
                self._segments.append(Segment(phase, epoch, batch, 1))

    def segments(self) -> tuple[Segment, ...]:
        """All of them, in the order of the run."""
        with self._lock:
            return tuple(self._segments)

    @property
    def count(self) -> int:
        """All batches together."""
        return sum(one.count for one in self.segments())

    def ordinal(self, phase: str, epoch: int, batch: int) -> int | None:
        """How many batches came before this one; None if it has not been."""
        before = 0
        for one in self.segments():
            if (one.phase, one.epoch) == (phase, epoch) and one.first <= batch < one.end:
                return before + batch - one.first
            before += one.count
        return None

    def has(self, phase: str, epoch: int, batch: int) -> bool:
        """Whether that batch has begun."""
        return self.ordinal(phase, epoch, batch) is not None

    def before(self, position: BatchPosition | Target, count: int) -> tuple[str, int, int] | None:
        """The batch so many before this one: phase, epoch and its number; None: before all of them."""
        segments = self.segments()
        at = len(segments) - 1
        while at >= 0 and (segments[at].phase, segments[at].epoch) != (position.phase, position.epoch):
            at -= 1
        batch = position.batch_idx - count
        while at >= 0:
            one = segments[at]
            if batch >= one.first:
                return one.phase, one.epoch, batch
            short = one.first - batch
            at -= 1
            batch = segments[at].end - short
        return None

    @property
    def last(self) -> tuple[str, int, int] | None:
        """The batch that began last: phase, epoch and its number."""
        segments = self.segments()
        return (segments[-1].phase, segments[-1].epoch, segments[-1].end - 1) if segments else None

    def cut(self, phase: str, epoch: int, batch: int) -> int:
        """Forget that batch of the phase that goes on, and those after it; how many they were."""
        gone = 0
        with self._lock:
            while self._segments and (self._segments[-1].phase, self._segments[-1].epoch) == (phase, epoch):
                last = self._segments[-1]
                if last.end <= batch:
                    break
                gone += last.end - max(last.first, batch)
                self._segments.pop()
                if last.first < batch:
                    self._segments.append(replace(last, count=batch - last.first))
        return gone

    def cut_epochs(self, epoch: int) -> None:
        """Forget this epoch and those after it."""
        with self._lock:
            self._segments = [one for one in self._segments if one.epoch < epoch]

    def clear(self) -> None:
        """Another run begins."""
        with self._lock:
            self._segments = []
