"""What happens around each batch of the user's loop, on the thread that runs it."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from nansense_widgets.errors import LoopClosed, SessionStateError, TimeTravelJump
from nansense_widgets.run.batches import Batches
from nansense_widgets.run.control import RunControl, Standing
from nansense_widgets.run.events import EventLog
from nansense_widgets.run.frequency import UpdateFrequency
from nansense_widgets.run.going_back import PhaseItems, Straight, Target
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.jobs import Jobs
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.observer import BatchFreezer, BatchObserver, EpochSource
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.progress import Pace
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.trail import Trail

__all__ = ["BatchLoop"]

Item = TypeVar("Item")

ItemsOf = Callable[[Iterator[Any], str, int, int], PhaseItems[Any]]


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
        self.jobs = Jobs(control.wake)
        self.events = EventLog()
        self.trail = Trail()
        self.frequency = UpdateFrequency()
        self.position: BatchPosition | None = None
        self.last: BatchPosition | None = None
        """The batch that is open or was last; `position` may be of one before which training is paused."""
        self.standing: Standing = "before"
        self.poll: Callable[[], None] | None = None
        """Hears the kernel's messages, for a loop on the kernel's main thread; else None."""
        self.on_unattended: Callable[[], None] = lambda: control.go(Mode.DETACH)
        self.on_exhausted: Callable[[], None] = lambda: None
        self.catches_jumps: Callable[[], bool] = lambda: False
        """Whether the loop is inside a restore point; elsewhere a jump waits."""
        self.on_loader: Callable[[str, Any], None] = lambda *_: None
        """Called with phase and loader before the loader is iterated."""
        self.items_of: ItemsOf = lambda items, *_: Straight(items)
        """Called with a loader's iterator, phase, epoch and the batch that its first item is of."""
        self.on_batch: Callable[[BatchPosition], None] = lambda _: None
        """Called before a batch, when nothing can come between any more."""
        self.on_restart: Callable[[], None] = lambda: None
        """Called when another run begins."""
        self.on_lost: Callable[[Target], None] = lambda _: None
        """Called where a way back was asked for in a phase that the loop has left."""
        self.on_batch_end: Callable[[BatchPosition], None] = lambda _: None
        """Called after a batch that was complete, before a pause."""
        self.freezer: BatchFreezer | None = None
        """Told of both ends of each batch, if a moment is to be frozen."""
        self.owner: threading.Thread | None = None
        """The worker that runs the loop, if `Session.launch` started it."""
        self._broken_at: BatchPosition | None = None
        self._left_at: tuple[int, int] | None = None
        self._paused_after_it = False
        self._on_change = on_change
        self._open: BatchPosition | None = None
        self._items: PhaseItems[Any] | None = None
        self._captures = False
        self._broke_off: tuple[str, int] | None = None
        self._epoch = 0
        self._seen_epoch: int | None = None
        self._counted: Counter[str] = Counter()

    # ------------------------------------------------------------ what the user's loop goes through

    def epochs(self, count: int, source: EpochSource) -> Iterator[int]:
        """Yield the epochs of `source` and remember them for `batches`."""
        if self.position is not None:
            self.restart()  # a second loop over epochs is a run of its own
        self.schedule.update(epochs=count)
        while True:
            for epoch in source.iter_epochs():
                self._epoch = epoch
                yield epoch
            # Run ends with a pause. Where the last batch could not be told beforehand, it is here.
            ends = self.control.mode is Mode.UNTIL_END and self.position is not None
            if not ends or self._paused_after_it:
                break
            self._pause(lambda: True)
            if (jump := self.control.take_jump()) is None:
                break
            source.go_back(jump)
        self.on_exhausted()

    def at_epoch(self, epoch: int) -> None:
        """A loop that is somebody else's begins an epoch."""
        self._epoch = epoch

    def batches(self, loader: Iterable[Item], phase: str, epoch: int | None) -> Iterator[Item]:
        """Iterate over the loader's items, each inside its batch."""
        return Batches(
            loader,
            lambda: self.on_loader(phase, loader),
            lambda items: self._batches(loader, items, phase, epoch),
        )

    def _batches(
        self, loader: Iterable[Item], items: Iterator[Item], phase: str, epoch: int | None
    ) -> Iterator[Item]:
        here = self._epoch if epoch is None else epoch
        self._learn_length()
        if isinstance(loader, Sized):
            # Of an IterableDataset's loader it raises; whatever it raises, the loop would not have asked.
            with suppress(Exception):
                self.schedule.expect(phase, len(loader))
        self._items = None
        try:
            numbered = self.items_of(items, phase, here, self.schedule.next_batch(phase, here))
            for number, item in numbered:
                held = [item]
                del item  # the loop's own variable is to be the only one that keeps a batch alive
                if self.control.closed and not self._is_ours():
                    yield held.pop()  # released by `close()`: the loop is the user's own and goes on
                    continue
                self._items = numbered
                if not self.begin(phase, here, LoaderItem(held[0], loader, number)):
                    continue  # training goes back instead
                try:
                    yield held.pop()
                except GeneratorExit:
                    # `break`, or an exception on its way through the loop's body: which of the two cannot
                    # be told here, so the pause that is due waits for the next batch, if there is one.
                    caller = inspect.currentframe()
                    caller = None if caller is None else caller.f_back
                    self._left_at = None if caller is None else (id(caller), caller.f_lineno)
                    self.end(complete=False)
                    self._broke_off = (phase, here)
                    del caller
                    raise
                except BaseException:  # thrown into the iterator
                    self.end(complete=False)
                    raise
                self.end(complete=True)
            self.schedule.record_phase_length(phase, here)
        finally:
            self._items = None
            self.observer.rest()  # nothing stays installed after the last one

    @contextmanager
    def batch(self, phase: str, epoch: int | None, item: LoaderItem | None = None) -> Iterator[None]:
        """One batch as a context manager."""
        if self.control.closed and not self._is_ours():
            yield
            return
        self._items = None
        self.begin(phase, self._epoch if epoch is None else epoch, item)
        del item  # the loop's own variable is to be the only one that keeps a batch alive
        try:
            try:
                yield
            except BaseException:
                self.end(complete=False)
                raise
            self.end(complete=True)
        finally:
            self.observer.rest()

    # ------------------------------------------------------------ the two ends of a batch

    def begin(self, phase: str, epoch: int, item: LoaderItem | None = None) -> bool:
        """Enter a batch: pause before it if a step ends here, then install what it needs.

        False if it is not entered, since training goes back to an earlier one of its phase.
        """
        self._left_at = None
        if self._open is not None:
            raise SessionStateError(
                f"a batch of phase {phase!r} begins inside the batch {self._open}: batches do not nest; "
                "leave the first one before the next begins"
            )
        self._leave()
        self._learn_length()
        self._do_jobs()
        position = self.schedule.advance(phase, epoch)
        new_epoch = self._seen_epoch != epoch
        self._seen_epoch = epoch
        self.position = position
        self.standing = "before"
        self._pause(lambda: self.control.stops_before(position) or self.control.owes_pause())
        self._hear_messages()
        if self.control.rewinds:
            if self._items is not None:
                return False
            if (lost := self.control.take_rewind()) is not None:
                self.on_lost(lost)
        self.jobs.enter()
        self.on_batch(position)
        self.trail.add(position)
        self.last = position
        self.standing = "in"
        self._on_change()
        pauses = self.control.stops_at(position, self.schedule.phase_order)
        self._captures = self._decide(position, pauses, new_epoch)
        if self.freezer is not None and self.freezer.begins(position, item):
            self._captures = True
        self._open = position
        try:
            self.observer.begin(position, captures=self._captures, pauses=pauses, item=item)
        except BaseException:  # an interrupt: the batch has not begun
            self._open = None
            self.jobs.between()
            raise
        self.pace.begin()
        return True

    def end(self, *, complete: bool) -> None:
        """Leave the batch: publish what was captured, then pause if it is due."""
        position = self._open
        if position is None:
            return
        self.pace.end()
        self._open = None
        self.schedule.finish_batch()
        self._broken_at = None if complete else position
        self._paused_after_it = False
        self.observer.end(position, complete=complete)
        if complete:
            self.on_batch_end(position)
        if self.freezer is not None:
            self.freezer.ended(position)
        self._do_jobs()
        self.standing = "after"
        self._on_change()
        if not self._captures:
            return

        def due() -> bool:
            return self.control.stops_at(position, self.schedule.phase_order)

        if complete:
            self._paused_after_it = self._pause(due)
        elif due():
            self.control.owe_pause()

    def batch_of(self, error: BaseException) -> BatchPosition | None:
        """The batch that an exception which ended the loop was raised in, if it was one.

        A generator that is left cannot tell a `break` from an exception. The line on which it was left
        can: an exception that was raised there has that line in its traceback.
        """
        if self._broken_at is None or self._left_at is None:
            return self._broken_at
        trace = error.__traceback__
        while trace is not None:
            if (id(trace.tb_frame), trace.tb_lineno) == self._left_at:
                return self._broken_at
            trace = trace.tb_next
        return None

    def has_begun(self, phase: str, epoch: int | None) -> bool:
        """Whether batches of this phase and epoch have been counted in this run."""
        return self.schedule.has_begun(phase, self._epoch if epoch is None else epoch)

    @property
    def epoch(self) -> int:
        """The epoch that `epochs()` last gave."""
        return self._epoch

    @property
    def items(self) -> PhaseItems[Any] | None:
        """The items that the loop goes through, while it does."""
        return self._items

    @property
    def is_inside_batch(self) -> bool:
        """A batch is open, and its watches with it."""
        return self._open is not None

    def abort(self) -> None:
        """The loop died: close an open batch without pausing (its generator may never be resumed)."""
        if self._open is not None:
            self.end(complete=False)

    def stand_after(self, position: BatchPosition) -> None:
        """A moment is shown: it stands after this batch, and no other will come."""
        self.position = self.last = position
        self.standing = "after"
        self._epoch = position.epoch

    def rewind_to_epoch(self, epoch: int) -> None:
        """The run stands at the beginning of an epoch again."""
        self.schedule.rewind_to_epoch(epoch)
        self.events.drop(lambda position: position.epoch >= epoch)
        self.trail.cut_epochs(epoch)
        self.position = self.last = None
        self.standing = "before"
        self._broken_at = self._left_at = self._broke_off = None
        self._seen_epoch = None
        self._epoch = epoch

    def rewind_to_batch(self, phase: str, epoch: int, batch: int) -> None:
        """The run stands before an earlier batch of the phase that goes on."""
        gone = self.trail.cut(phase, epoch, batch)
        self.last = self.schedule.rewind_to_batch(phase, epoch, batch, gone=gone, last=self.trail.last)
        self.events.drop(lambda at: (at.phase, at.epoch) == (phase, epoch) and at.batch_idx >= batch)
        self.position = self.last
        self.standing = "before" if self.last is None else "after"
        self._broken_at = self._left_at = self._broke_off = None

    def restart(self) -> None:
        """Forget where the last loop stood; a new one begins."""
        self.schedule.restart()
        self.observer.restart()
        self.on_restart()
        self.events.clear()
        self.trail.clear()
        self.position = self.last = None
        self.standing = "before"
        self._broken_at = None
        self._left_at = None
        self._broke_off = None
        self._seen_epoch = None
        self._counted.clear()
        self._epoch = 0

    # ------------------------------------------------------------ parts

    def _decide(self, position: BatchPosition, pauses: bool, new_epoch: bool) -> bool:
        """Whether this batch is captured: it pauses, a step may end with it, or an update is due."""
        phase = self.frequency.phase
        counted = self._counted.total() if phase is None else self._counted[phase]
        self._counted[position.phase] += 1
        due = self.control.mode is not Mode.DETACH and self.frequency.is_due(
            position, new_epoch=new_epoch, counted=counted
        )
        asked = self.control.take_refresh()
        length_known = self.schedule.phase_count(position.phase) is not None
        last_epoch = self.schedule.epochs is not None and position.epoch == self.schedule.epochs - 1
        may_end_run = last_epoch and not self.schedule.order_is_known
        boundary = self.control.shows_boundary(position, length_known=length_known, may_end_run=may_end_run)
        return pauses or due or asked or boundary

    def _learn_length(self) -> None:
        """The loop goes on after leaving a phase early: a `break`, which tells the phase's length."""
        if self._broke_off is not None:
            self.schedule.record_phase_length(*self._broke_off)
            self._broke_off = None

    def _pause(self, due: Callable[[], bool]) -> bool:
        """Pause if it is due; whether it was."""
        before = self.control.pause_count

        def noted() -> bool:
            if due() and not self.control.goes_back:
                self.jobs.release()
                if not self.control.goes_on:
                    self.events.add("pause", self.last, "paused")
                return True
            return False

        self.control.pause(self.poll, self.on_unattended, noted, self.jobs.between)
        self._leave()
        return self.control.pause_count > before

    def _hear_messages(self) -> None:
        if self.poll is not None:
            self.poll()
            self._leave()

    def _do_jobs(self) -> None:
        """What waits is done now; what was asked after a way back is, when the way is over."""
        if self.control.replaying is None:
            self.jobs.release()
        self.jobs.between()

    def _leave(self) -> None:
        """Leave the user's loop if the session was closed, or if the run is to go back."""
        if self.control.closed and self._is_ours():
            raise LoopClosed("the session was closed")
        if self.catches_jumps() and self.control.jumps:
            self.jobs.between()  # what was asked before the jump comes before it
            if (epoch := self.control.take_jump()) is not None:
                raise TimeTravelJump(epoch)

    def _is_ours(self) -> bool:
        return self.owner is not None and threading.current_thread() is self.owner
