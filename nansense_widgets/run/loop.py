"""What happens around each batch of the user's loop, on the thread that runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from nansense_widgets.errors import LoopClosed, SessionStateError
from nansense_widgets.run.control import RunControl, Standing
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Pace
from nansense_widgets.run.schedule import Schedule

__all__ = ["BatchLoop", "BatchObserver", "Blind", "checked_epoch", "checked_phase"]

Item = TypeVar("Item")


class BatchObserver(Protocol):
    """Watches single batches; called on the training thread. What it raises is its own to report."""

    def begin(self, position: BatchPosition, *, pauses: bool) -> None:
        """Install what this batch's capture needs."""

    def end(self, position: BatchPosition, *, complete: bool) -> None:
        """Take everything down again and publish; `complete` False: the body broke off or raised."""


class Blind:
    """The observer of a disabled session: it sees nothing."""

    def begin(self, position: BatchPosition, *, pauses: bool) -> None:
        """Nothing to install."""

    def end(self, position: BatchPosition, *, complete: bool) -> None:
        """Nothing to publish."""


class BatchLoop:
    """Counts, captures and pauses around each batch.

    Args:
        observer: captures the batches that are to be shown.
        on_change: called when the position changed; must return at once.
    """

    def __init__(
        self,
        schedule: Schedule,
        control: RunControl,
        observer: BatchObserver,
        on_change: Callable[[], None],
    ) -> None:
        self.schedule = schedule
        self.control = control
        self.observer = observer
        self.pace = Pace()
        self.frequency = UpdateFrequency()
        self.position: BatchPosition | None = None
        self.standing: Standing = "before"
        self.poll: Callable[[], None] | None = None
        """Hears the kernel's messages, for a loop on the kernel's main thread; else None."""
        self.on_unattended: Callable[[], None] = lambda: control.go(Mode.DETACH)
        self.owner: threading.Thread | None = None
        """The worker that runs the loop, if `Session.launch` started it."""
        self.broken_at: BatchPosition | None = None
        """The batch that the loop last left before its end, by `break` or an exception."""
        self._on_change = on_change
        self._open: BatchPosition | None = None
        self._captures = False
        self._owes_pause = False
        self._broke_off: tuple[str, int] | None = None
        self._epoch = 0
        self._seen_epoch: int | None = None
        self._counted = 0

    # ------------------------------------------------------------ what the user's loop goes through

    def epochs(self, count: int) -> Iterator[int]:
        """Yield 0 … count - 1 and remember the epoch for `batches`."""
        self.schedule.update(epochs=count)
        for epoch in range(count):
            self._epoch = epoch
            yield epoch

    def batches(self, loader: Iterable[Item], phase: str, epoch: int | None) -> Iterator[Item]:
        """Yield the loader's items, each inside its batch."""
        here = self._epoch if epoch is None else epoch
        self._learn_length()
        if isinstance(loader, Sized):
            with suppress(TypeError):  # a DataLoader over an IterableDataset has a `__len__` that raises
                self.schedule.expect(phase, len(loader))
        for item in loader:
            if self.control.closed and not self._is_ours():
                yield item  # released by `close()`: the loop is the user's own and goes on unwatched
                continue
            self.begin(phase, here)
            try:
                yield item
            except GeneratorExit:
                # `break`, or an exception on its way through the loop's body: which of the two cannot
                # be told here, so the pause that is due waits for the next batch, if there is one.
                self.end(complete=False)
                self._broke_off = (phase, here)
                raise
            self.end(complete=True)
        self.schedule.record_phase_length(phase, here)

    @contextmanager
    def batch(self, phase: str, epoch: int | None) -> Iterator[None]:
        """One batch as a context manager."""
        if self.control.closed and not self._is_ours():
            yield
            return
        self.begin(phase, self._epoch if epoch is None else epoch)
        try:
            yield
        except BaseException:
            self.end(complete=False)
            raise
        self.end(complete=True)

    # ------------------------------------------------------------ the two ends of a batch

    def begin(self, phase: str, epoch: int) -> None:
        """Enter a batch: pause before it if a step ends here, then install what it needs."""
        if self._open is not None:
            raise SessionStateError(
                f"a batch of phase {phase!r} begins inside the batch {self._open}: batches do not nest; "
                "leave the first one before the next begins"
            )
        self._leave_if_closed()
        self._learn_length()
        position = self.schedule.advance(phase, epoch)
        new_epoch = self._seen_epoch != epoch
        self._seen_epoch = epoch
        self.position = position
        self.standing = "before"
        if self.control.stops_before(position) or self._owes_pause:
            self._owes_pause = False
            self._pause()
        self._hear_messages()
        self.standing = "in"
        self._on_change()
        pauses = self.control.stops_at(position, self.schedule.phase_order)
        self._captures = self._decide(position, pauses, new_epoch)
        self._open = position
        if self._captures:
            self.observer.begin(position, pauses=pauses)
        self.pace.begin()

    def end(self, *, complete: bool) -> None:
        """Leave the batch: publish what was captured, then pause if it is due."""
        position = self._open
        if position is None:
            return
        self.pace.end()
        self._open = None
        self.schedule.finish_batch()
        self.broken_at = None if complete else position
        if self._captures:
            self.observer.end(position, complete=complete)
        self.standing = "after"
        self._on_change()
        if self._captures and self.control.stops_at(position, self.schedule.phase_order):
            if complete:
                self._pause()
            else:
                self._owes_pause = True

    @property
    def is_inside_batch(self) -> bool:
        """A batch is open, and its watches with it."""
        return self._open is not None

    def abort(self) -> None:
        """The loop died: close an open batch without pausing (its generator may never be resumed)."""
        if self._open is not None:
            self.end(complete=False)
        self._owes_pause = False

    def restart(self) -> None:
        """Forget where the last loop stood; a new one begins."""
        self.schedule.restart()
        self.position = None
        self.standing = "before"
        self.broken_at = None
        self._broke_off = None
        self._owes_pause = False
        self._seen_epoch = None
        self._counted = 0
        self._epoch = 0

    # ------------------------------------------------------------ parts

    def _decide(self, position: BatchPosition, pauses: bool, new_epoch: bool) -> bool:
        """Whether this batch is captured: it pauses, a step may end with it, or an update is due."""
        counts = self.frequency.phase is None or position.phase == self.frequency.phase
        due = self.control.mode is not Mode.DETACH and self.frequency.is_due(
            position, new_epoch=new_epoch, counted=self._counted
        )
        self._counted += counts
        asked = self.control.take_refresh()
        length_known = self.schedule.phase_count(position.phase) is not None
        boundary = self.control.shows_boundary(position, length_known)
        return pauses or due or asked or boundary

    def _learn_length(self) -> None:
        """The loop goes on after leaving a phase early: a `break`, which tells the phase's length."""
        if self._broke_off is not None:
            self.schedule.record_phase_length(*self._broke_off)
            self._broke_off = None

    def _pause(self) -> None:
        self.control.pause(self.poll, self.on_unattended)
        self._leave_if_closed()

    def _hear_messages(self) -> None:
        if self.poll is not None:
            self.poll()
            self._leave_if_closed()

    def _leave_if_closed(self) -> None:
        if self.control.closed and self._is_ours():
            raise LoopClosed("the session was closed")

    def _is_ours(self) -> bool:
        return self.owner is not None and threading.current_thread() is self.owner


def checked_phase(phase: Any) -> str:
    """`phase` of a public call; raises `TypeError` or `ValueError`."""
    if not isinstance(phase, str):
        raise TypeError(f"phase={phase!r} must be a string, e.g. 'train'")
    if not phase:
        raise ValueError("phase='' must not be empty")
    return phase


def checked_epoch(epoch: Any) -> int | None:
    """`epoch` of a public call; raises `TypeError` or `ValueError`."""
    if epoch is None:
        return None
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise TypeError(f"epoch={epoch!r} must be an int or None")
    if epoch < 0:
        raise ValueError(f"epoch={epoch!r} must not be negative")
    return epoch
