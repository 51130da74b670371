"""The switchboard between whoever steers (any thread) and the training thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from nansense_widgets.run.going_back import Target
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition

__all__ = ["RunControl", "Standing"]

Standing = Literal["before", "in", "after"]

IDLE_WAIT_S = 30.0
"""How long a plain script waits at its first pause for somebody to steer it."""


class RunControl:
    """Modes, pauses and resumes. One condition variable; commands never run work, they only set the mode.

    Args:
        on_change: called after every change, on whichever thread made it; must return at once.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._changed = threading.Condition()
        self._on_change = on_change
        self._mode = Mode.STEP
        self._mode_before_stop: Mode | None = None
        self._target: tuple[str | int, int, int] | None = None
        self._origin: tuple[str, int] | None = None
        self._resume = False
        self._paused = False
        self._pause_count = 0
        self._closed = False
        self._refresh = False
        self._owes_pause = False
        self._has_work = False
        self._jump: int | None = None
        self._pauses_after_jump = False
        self._rewind: Target | None = None
        self._replaying: Target | None = None
        self._then: tuple[Mode, tuple[str | int, int, int] | None] | None = None
        """How to proceed when the batch that was gone back to is reached."""
        self.in_kernel = False
        """A Jupyter kernel runs here, so somebody may always come and steer."""
        self._steered_from: set[int] = set()
        """Threads that gave commands or wait for pauses; the training thread itself is nobody."""

    # ------------------------------------------------------------ what the steering side calls

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def pause_count(self) -> int:
        return self._pause_count

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending(self) -> list[str]:
        """Commands given and not yet carried out: `stop`, `refresh`, `request_time_travel`, `rewind`."""
        with self._changed:
            waiting = []
            if self._mode_before_stop is not None and not self._paused:
                waiting.append("stop")
            if self._refresh:
                waiting.append("refresh")
            if self._jump is not None:
                waiting.append("request_time_travel")
            if self._rewind is not None:
                waiting.append("rewind")
            return waiting

    def go(
        self,
        mode: Mode,
        *,
        origin: BatchPosition | None = None,
        target: tuple[str | int, int, int] | None = None,
    ) -> None:
        """Proceed in `mode`; `origin` is where a phase or epoch step starts, `target` the batch to reach.

        On the way to a batch that was gone back to, it is put off until that is reached.
        """
        with self._changed:
            self._steered_from.add(threading.get_ident())
            if self._replaying is not None:
                self._then = (mode, target)
                return
            self._mode = mode
            self._owes_pause = False
            self._mode_before_stop = None
            self._origin = None if origin is None else (origin.phase, origin.epoch)
            self._target = target
            # Only a pause takes a resume: a command given while training runs just changes the mode, and
            # must not carry it over the next pause. From here on training is not paused, although its
            # thread has yet to wake: who waits for a pause now waits for the one this command leads to.
            self._resume = self._resume or self._paused
            self._paused = False
            self._changed.notify_all()
        self._on_change()

    def stop(self) -> None:
        """Pause at the next batch; no effect while paused."""
        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._replaying = self._then = None
            if not self._paused and self._mode is not Mode.STEP:
                self._mode_before_stop = self._mode
                self._mode = Mode.STEP
            self._changed.notify_all()
        self._on_change()

    def cancel(self) -> None:
        """Withdraw a stop or a refresh that still waits."""
        with self._changed:
            if self._mode_before_stop is not None and not self._paused:
                self._mode = self._mode_before_stop
            self._mode_before_stop = None
            self._refresh = False
        self._on_change()

    def request_refresh(self) -> None:
        """Have the next batch publish a snapshot without pausing."""
        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._refresh = True
        self._on_change()

    def jump(self, epoch: int) -> None:
        """Have the loop go back to the beginning of an epoch, at its next boundary between batches."""
        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._jump = epoch
            self._replaying = self._then = None
            self._pauses_after_jump = self._paused
            self._resume = self._resume or self._paused
            self._paused = False
            self._changed.notify_all()
        self._on_change()

    def jump_and_replay(self, epoch: int, target: Target) -> None:
        """Have the loop go back to the beginning of an epoch, and run from there up to a batch."""
        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._jump = epoch
            self._pauses_after_jump = target.batch_idx < 0
            self._replay(target)
            self._resume = self._resume or self._paused
            self._paused = False
            self._changed.notify_all()
        self._on_change()

    def rewind(self, target: Target) -> None:
        """Have the loop go back to a batch of the phase that goes on, at its next boundary."""
        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._rewind = target
            self._replay(target)
            self._owes_pause = target.batch_idx < 0
            self._resume = self._resume or self._paused
            self._paused = False
            self._changed.notify_all()
        self._on_change()

    def take_rewind(self) -> Target | None:
        """The batch to go back to, if there is one; the caller goes."""
        with self._changed:
            target, self._rewind = self._rewind, None
            return target

    def stay(self) -> None:
        """Training does not go back after all: it pauses where it is, before the next batch."""
        with self._changed:
            self._mode = Mode.STEP
            self._target = self._replaying = self._then = None
            self._owes_pause = True

    def _replay(self, target: Target) -> None:
        self._replaying, self._then = target, None
        self._mode_before_stop = None
        self._origin = None
        self._owes_pause = False
        if target.batch_idx < 0:
            self._mode = Mode.STEP
        else:
            self._mode = Mode.UNTIL_POSITION
            self._target = (target.phase, target.epoch, target.batch_idx)

    @property
    def jumps(self) -> bool:
        """Whether the loop is to go back to the beginning of an epoch, as soon as it can."""
        return self._jump is not None

    @property
    def rewinds(self) -> bool:
        """Whether the loop is to go back within its phase, as soon as it can."""
        return self._rewind is not None

    @property
    def goes_on(self) -> bool:
        """Whether a command waits for the batch that was gone back to: there is no pause then."""
        return self._then is not None

    @property
    def replaying(self) -> Target | None:
        """The batch that was gone back to, until it is reached."""
        return self._replaying

    @property
    def goes_back(self) -> bool:
        """Whether the loop is to go back, as soon as it can."""
        return self._jump is not None or self._rewind is not None

    def take_jump(self) -> int | None:
        """Where the loop is to go back to, if it is; the caller makes it go."""
        with self._changed:
            epoch, self._jump = self._jump, None
            # Who was paused stands before the first batch then, and may change something for it.
            self._owes_pause = self._owes_pause or (epoch is not None and self._pauses_after_jump)
            return epoch

    def stand(self) -> None:
        """Paused, with no loop that could go on: a frozen moment, or one that was asked to run."""
        with self._changed:
            self._paused = True
            self._pause_count += 1
            self._changed.notify_all()
        self._on_change()

    def close(self) -> None:
        """Let go of everything that waits; no pause any more."""
        with self._changed:
            self._closed = True
            self._refresh = False
            self._jump = self._rewind = self._replaying = self._then = None
            self._mode_before_stop = None
            self._changed.notify_all()
        self._on_change()

    def wait_until_paused(self, after_pauses: int, timeout: float | None, ended: Callable[[], bool]) -> bool:
        """Wait until paused with more than `after_pauses` pauses; False on time-out or if the run ended."""

        def reached() -> bool:
            return self._paused and self._pause_count > after_pauses

        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._changed.notify_all()
            self._changed.wait_for(lambda: reached() or self._closed or ended(), timeout)
            return reached()

    # ------------------------------------------------------------ what the training thread calls

    def rest(self) -> None:
        """The loop has ended: the first batch of a next one pauses again, unless this one was detached."""
        with self._changed:
            if self._mode is not Mode.DETACH:
                self._mode = Mode.STEP
            self._owes_pause = False
            self._mode_before_stop = None
            self._origin = None
            self._jump = self._rewind = self._replaying = self._then = None
            self._refresh = False
            self._changed.notify_all()
        self._on_change()

    def stops_before(self, position: BatchPosition) -> bool:
        """Whether a phase or epoch step ends before the batch at `position`."""
        with self._changed:
            if self._origin is None:  # the step was asked for before the first batch
                self._origin = (position.phase, position.epoch)
            phase, epoch = self._origin
            if self._mode is Mode.UNTIL_PHASE_CHANGE:
                return (position.phase, position.epoch) != (phase, epoch)
            return self._mode is Mode.UNTIL_EPOCH_CHANGE and position.epoch != epoch

    def stops_at(self, position: BatchPosition, phase_order: list[str]) -> bool:
        """Whether training pauses after the batch at `position`."""
        with self._changed:
            if self._mode is Mode.STEP:
                return True
            if self._mode is Mode.UNTIL_END:
                return position.is_last_overall
            if self._mode is Mode.UNTIL_POSITION and self._target is not None:
                phase, epoch, batch_idx = self._target
                if isinstance(phase, int):
                    here: str | int = phase_order.index(position.phase)
                else:
                    here = position.phase
                return (phase, epoch, batch_idx) == (here, position.epoch, position.batch_idx)
            return False

    def shows_boundary(self, position: BatchPosition, *, length_known: bool, may_end_run: bool) -> bool:
        """Whether a phase, an epoch or the run may end with this batch, so that it must be captured.

        Where a phase's length is not known, every batch may be its last one. `may_end_run`: it is the last
        epoch, and its phases are not known.
        """
        with self._changed:
            steps = self._mode in (Mode.UNTIL_PHASE_CHANGE, Mode.UNTIL_EPOCH_CHANGE)
            ends = self._mode is Mode.UNTIL_END and may_end_run
            return (steps or ends) and (position.is_last_in_phase or not length_known)

    def _is_attended(self) -> bool:
        return self.in_kernel or bool(self._steered_from - {threading.get_ident()})

    def take_refresh(self) -> bool:
        """Whether a refresh was asked for; the caller serves it."""
        with self._changed:
            asked, self._refresh = self._refresh, False
            return asked

    def wake(self) -> None:
        """There is work for the training thread: a pause does it at once."""
        with self._changed:
            self._steered_from.add(threading.get_ident())
            self._has_work = True
            self._changed.notify_all()
        self._on_change()

    def owe_pause(self) -> None:
        """A pause was due and could not be held: it comes before the next batch, unless a command does."""
        with self._changed:
            self._owes_pause = True

    def owes_pause(self) -> bool:
        """Whether a pause is owed."""
        with self._changed:
            return self._owes_pause

    def pause(
        self,
        poll: Callable[[], None] | None,
        on_unattended: Callable[[], None],
        still_due: Callable[[], bool] = lambda: True,
        work: Callable[[], None] = lambda: None,
    ) -> None:
        """Hold the training thread until a command resumes it or the session closes.

        Args:
            poll: called about every 20 ms while waiting, without the lock (a loop on the main thread
                has to hear its kernel's messages itself).
            still_due: asked under the lock: a command may have come since the pause was decided.
            on_unattended: called if nobody has steered within `IDLE_WAIT_S`; it sets a mode that goes on.
            work: called, without the lock, whenever something was given to do (`wake`).
        """
        deadline = time.monotonic() + IDLE_WAIT_S
        with self._changed:
            if self._closed or not still_due():
                return
            then, self._then, self._replaying = self._then, None, None
            if then is not None:
                self._mode, self._target = then
                self._owes_pause, self._origin = False, None
        if then is not None:
            work()
            return
        with self._changed:
            self._paused = True
            self._owes_pause = False
            self._resume = False
            self._mode = Mode.STEP
            self._mode_before_stop = None
            self._origin = None
            self._pause_count += 1
            self._changed.notify_all()
        self._on_change()
        try:
            while True:
                work()
                with self._changed:
                    wait = 0.02 if poll is not None else None
                    if not self._is_attended():
                        left = max(0.0, deadline - time.monotonic())
                        wait = left if wait is None else min(wait, left)
                    self._changed.wait_for(lambda: self._resume or self._closed or self._has_work, wait)
                    if self._resume or self._closed:
                        break
                    self._has_work = False
                    alone = not self._is_attended() and time.monotonic() >= deadline
                if alone:
                    on_unattended()
                elif poll is not None:
                    poll()
        finally:
            with self._changed:
                self._paused = False
                self._resume = False
                self._changed.notify_all()
            self._on_change()
