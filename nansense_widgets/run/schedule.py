"""Bookkeeping of batches, phases and epochs: declared up front, or learned as the loop runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from nansense_widgets.run.position import BatchPosition

__all__ = ["Schedule", "ScheduleState"]


NO_EPOCH = sys.maxsize


@dataclass(frozen=True)
class ScheduleState:
    """What is known of a schedule after a batch: enough to show it, not to count on from it."""

    epochs: int | None
    declared: bool
    counts: Mapping[str, int | None]
    position: BatchPosition | None
    done: int
    epoch_done: int
    first_epoch: int


class Schedule:
    """Which batch comes where in the run; safe to use from any thread.

    With `phases` None (lazy) the names and lengths of phases are learned: a length from `len(loader)`
    when there is one (`expect`), else when the phase ends for the first time. A declared dict fixes both,
    and then an unknown phase or more batches than declared raise `ValueError`.
    """

    def __init__(self, *, epochs: int | None = None, phases: Mapping[str, int] | None = None) -> None:
        self._lock = threading.Lock()
        self._epochs = _checked_epochs(epochs)
        self._declared = phases is not None
        self._counts: dict[str, int | None] = dict(_checked_phases(phases)) if phases is not None else {}
        self._position: BatchPosition | None = None
        self._done = 0
        self._epoch_done = 0
        self._next: dict[tuple[str, int], int] = {}
        self._expected: dict[str, int] = {}
        self._first_epoch = NO_EPOCH
        self._done_before: dict[int, int] = {}
        """Batches done before each epoch began."""

    @property
    def epochs(self) -> int | None:
        """Total epochs, or None until `session.epochs(n)` or `set_schedule(epochs=)` says."""
        return self._epochs

    @property
    def phases(self) -> dict[str, int]:
        """Phases whose number of batches an epoch is known, in the order first seen."""
        with self._lock:
            return {name: count for name, count in self._counts.items() if count is not None}

    @property
    def phase_order(self) -> list[str]:
        """All phases seen or declared so far, in order, those of unknown length included."""
        with self._lock:
            return list(self._counts)

    def phase_count(self, phase: str) -> int | None:
        """Batches an epoch of `phase`, or None if not known yet."""
        with self._lock:
            return self._counts.get(phase)

    @property
    def batches_done(self) -> int:
        """Batches finished in this run."""
        return self._done

    @property
    def epoch_batches_done(self) -> int:
        """Batches finished in the current epoch, all phases together."""
        return self._epoch_done

    @property
    def epoch_batches(self) -> int | None:
        """Batches of one epoch over all phases; None unless every phase's length is known.

        In a lazy first epoch the phases still to come are not known, so it is None until that epoch ends.
        """
        with self._lock:
            return self._epoch_batches()

    @property
    def order_is_known(self) -> bool:
        """Whether all phases of an epoch are known: they are declared, or an epoch has gone by."""
        with self._lock:
            return self._order_is_known()

    def _epoch_batches(self) -> int | None:
        if not self._order_is_known():
            return None
        total = 0
        for count in self._counts.values():
            if count is None:
                return None
            total += count
        return total

    def _order_is_known(self) -> bool:
        return bool(self._counts) and (
            self._declared or (self._position is not None and self._position.epoch > self._first_epoch)
        )

    def update(self, *, epochs: int | None = None, phases: Mapping[str, int] | None = None) -> None:
        """Declare anew; None leaves a part as it is. Batch counters are kept."""
        checked = _checked_phases(phases) if phases is not None else None
        total = _checked_epochs(epochs)
        with self._lock:
            if total is not None:
                self._epochs = total
            if checked is not None:
                self._declared = True
                self._counts = dict(checked)

    def state(self) -> ScheduleState:
        """All of it that is shown, as it is now."""
        with self._lock:
            return ScheduleState(
                self._epochs,
                self._declared,
                dict(self._counts),
                self._position,
                self._done,
                self._epoch_done,
                self._first_epoch,
            )

    def show(self, state: ScheduleState) -> None:
        """Stand where another schedule stood."""
        with self._lock:
            self._epochs, self._declared = state.epochs, state.declared
            self._counts, self._position = dict(state.counts), state.position
            self._done, self._epoch_done = state.done, state.epoch_done
            self._first_epoch = state.first_epoch

    def expect(self, phase: str, count: int) -> None:
        """Learn the length of a lazy phase beforehand, from `len(loader)`.

        What an earlier epoch showed (a loop that always breaks early) holds, unless the loader changed.
        """
        with self._lock:
            if not self._declared and self._expected.get(phase) != count:
                self._expected[phase] = self._counts[phase] = count

    def advance(self, phase: str, epoch: int) -> BatchPosition:
        """Count one more batch of `phase` in `epoch` and return its position."""
        with self._lock:
            if self._declared and phase not in self._counts:
                known = ", ".join(repr(name) for name in self._counts)
                raise ValueError(f"phase={phase!r} is not in the declared schedule ({known})")
            index = self._next.get((phase, epoch), 0)
            count = self._counts.setdefault(phase, None)
            if count is not None and index >= count:
                if self._declared:
                    raise ValueError(
                        f"phase={phase!r} of epoch {epoch} has more than its declared {count} batches"
                    )
                # `len(loader)` or an earlier epoch said less than there is: the length is not known.
                self._counts[phase] = count = None
            if (self._position is None or epoch != self._position.epoch) and index == 0:
                self._done_before.setdefault(epoch, self._done)
            if self._position is None:
                self._first_epoch = min(self._first_epoch, epoch)
            elif epoch != self._position.epoch:
                self._epoch_done = 0
                self._next = {key: value for key, value in self._next.items() if key[1] == epoch}
            self._next[(phase, epoch)] = index + 1
            self._position = BatchPosition(phase, epoch, index)
            self._position = self._with_flags(self._position)
            return self._position

    def _with_flags(self, position: BatchPosition) -> BatchPosition:
        count = self._counts.get(position.phase)
        last_in_phase = count is not None and position.batch_idx == count - 1
        last_in_epoch = last_in_phase and self._order_is_known() and position.phase == list(self._counts)[-1]
        last_overall = last_in_epoch and self._epochs is not None and position.epoch == self._epochs - 1
        return BatchPosition(
            position.phase, position.epoch, position.batch_idx, last_in_phase, last_in_epoch, last_overall
        )

    def has_begun(self, phase: str, epoch: int) -> bool:
        """Whether a batch of `phase` in `epoch`, the current one, has been counted."""
        with self._lock:
            return (phase, epoch) in self._next

    def finish_batch(self) -> None:
        """Count the batch of the last `advance` as done."""
        with self._lock:
            self._done += 1
            self._epoch_done += 1

    def record_phase_length(self, phase: str, epoch: int) -> None:
        """Learn a lazy phase's length when its loader ran out, or its loop broke off, in `epoch`."""
        with self._lock:
            if not self._declared and phase in self._counts:
                self._counts[phase] = self._next.get((phase, epoch), 0)

    def rewind_to_epoch(self, epoch: int) -> None:
        """Count on from the beginning of an epoch; lengths that were learned are kept."""
        with self._lock:
            self._position = None
            self._next = {}
            self._epoch_done = 0
            self._done = self._done_before.get(epoch, 0)
            self._done_before = {at: done for at, done in self._done_before.items() if at < epoch}

    def rewind_to_batch(
        self, phase: str, epoch: int, batch: int, *, gone: int, last: tuple[str, int, int] | None
    ) -> BatchPosition | None:
        """Count on from a batch of the phase that goes on, `gone` batches earlier; where `last` is then."""
        with self._lock:
            self._next[(phase, epoch)] = batch
            self._done -= gone
            self._epoch_done -= gone
            self._position = None if last is None else self._with_flags(BatchPosition(*last))
            return self._position

    def next_batch(self, phase: str, epoch: int) -> int:
        """The number of the next batch of `phase` in `epoch`."""
        with self._lock:
            return self._next.get((phase, epoch), 0)

    def restart(self) -> None:
        """Begin counting anew, for a new loop on the same session; a declared schedule is kept."""
        with self._lock:
            self._position = None
            self._done = self._epoch_done = 0
            self._done_before = {}
            self._first_epoch = NO_EPOCH
            self._next = {}
            if not self._declared:
                self._counts = {}
                self._expected = {}


def _checked_epochs(epochs: int | None) -> int | None:
    if epochs is None:
        return None
    if isinstance(epochs, bool) or not isinstance(epochs, int):
        raise TypeError(f"epochs={epochs!r} must be an int or None")
    if epochs < 0:
        raise ValueError(f"epochs={epochs!r} must not be negative")
    return epochs


def _checked_phases(phases: Mapping[str, int]) -> dict[str, int]:
    if not isinstance(phases, Mapping):
        raise TypeError(f"phases={phases!r} must be a dict of phase name to batches, e.g. {{'train': 100}}")
    names: list[object] = list(phases)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"phases={dict(phases)!r}: the phase name {name!r} must be a non-empty string")
    for name, count in phases.items():
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"phases={dict(phases)!r}: the batches of {name!r} must be an int")
        if count < 1:
            raise ValueError(f"phases={dict(phases)!r}: the batches of {name!r} must be at least 1")
    if not phases:
        raise ValueError("phases={} must name at least one phase")
    return dict(phases)
