"""One session's run: the loop in its thread, from its first batch to its end, failure or close."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from nansense_widgets.errors import SessionStateError
from nansense_widgets.run.control import RunControl
from nansense_widgets.run.ending import before_exit
from nansense_widgets.run.foreground import Foreground
from nansense_widgets.run.loop import BatchLoop
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.observer import BatchObserver
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.run.status import RunStatus
from nansense_widgets.run.target import checked_target
from nansense_widgets.run.worker import LoopFailure, Worker

__all__ = ["Run"]

CLOSE_WAIT_S = 10.0

LAST_WAIT_S = 5.0
"""How long the end of the process waits for the batch under way."""
"""How long `close` waits for a launched loop to reach the end of its batch."""


class Run:
    """Ties the loop, its control and its thread together.

    Args:
        observer: captures the batches that are to be shown.
        on_change: called on any change, on any thread; must return at once.
        pump: publishes to the widgets, where this run keeps the main thread busy.
    """

    def __init__(
        self,
        schedule: Schedule,
        observer: BatchObserver,
        on_change: Callable[[], None],
        pump: Callable[[], None],
    ) -> None:
        self.schedule = schedule
        self.control = RunControl(on_change)
        self.loop = BatchLoop(schedule, self.control, observer, on_change)
        self.failure: LoopFailure | None = None
        self._foreground = Foreground(self.control, pump, self._loop_ended)
        self.loop.on_exhausted = self._epochs_over
        self._on_change = on_change
        self._worker: Worker | None = None
        self._launching = threading.Lock()
        self._parked = False
        self._finished = False
        self._why_closed = ""
        self.no_loop = ""
        """Why no loop can ever run here (a frozen moment is only looked at), else empty."""

    @property
    def status(self) -> RunStatus:
        """What the run is doing."""
        if self.control.closed:
            return RunStatus("closed", self._why_closed)
        if self.failure is not None:
            return RunStatus("failed", f"{self.failure.type}: {self.failure.message}")
        if self.no_loop:
            return RunStatus("paused", self.no_loop)
        if self.control.paused:
            return RunStatus("paused")
        if self._finished:
            return RunStatus("finished", "the loop has ended")
        if self.loop.position is None:
            return RunStatus("waiting", "no batch has begun yet")
        target = self.control.replaying
        return RunStatus("running", "" if target is None else f"computing batches anew, up to {target}")

    @property
    def ended(self) -> bool:
        """The loop is over, well or not."""
        return self._finished or self.failure is not None

    @property
    def notice(self) -> str:
        """A sentence on what this kernel cannot do, else empty."""
        return self._foreground.notice

    # ------------------------------------------------------------ the loop's thread

    def enter_loop(self, phase: str, epoch: int | None) -> None:
        """A loop asks for batches of a phase: find out on which thread it runs, and whether it is a new one.

        A cell may hold the whole loop or one epoch of it, so a cell after the first goes on with the same
        run, unless it asks for what has been done already.
        """
        self.check_loop()
        self.control.in_kernel = self._foreground.in_kernel
        if self._worker is not None and self._worker.thread is threading.current_thread():
            self.loop.poll = None
            return
        if self._worker is not None and self._worker.alive:
            raise SessionStateError(
                "this session's loop runs in its worker thread: another thread cannot run batches of it"
            )
        if self.ended:
            again = self.loop.has_begun(phase, epoch)
            self._begin(anew=self.failure is not None or again)
        self.loop.poll = self._foreground.enter()
        self.loop.on_unattended = self._foreground.give_up

    def launch(self, loop: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Start a worker thread that runs the loop."""
        self.check_loop()
        with self._launching:
            self._launch(loop, args, kwargs)

    def park(self) -> None:
        """Stay paused until the run is closed: on this thread, or off a kernel's main thread, in a worker."""
        with self._launching:
            if self._parked:
                return
            if (self._worker is not None and self._worker.alive) or self.loop.is_inside_batch:
                raise SessionStateError("a loop of this session has not ended yet: it holds the model itself")
            if self.control.closed:
                return
            self._parked = True
            if self._foreground.in_kernel and threading.current_thread() is threading.main_thread():
                self._launch(self._stay, (), {})
                return
        self._stay()

    def _stay(self) -> None:
        self.control.in_kernel = True  # however long it takes, somebody may come
        try:
            while not self.control.closed:
                self.control.pause(None, lambda: None, work=self.loop.jobs.between)
        finally:
            self._parked = False
            self.loop.jobs.leave()
            if self.no_loop and not self.control.closed:  # interrupted: it stands there still
                self.control.stand()

    def check_loop(self) -> None:
        """Raise `SessionStateError` where no loop can run."""
        if self.no_loop:
            raise SessionStateError(f"this session shows {self.no_loop}: start a session to train")

    def _launch(self, loop: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._worker is not None and self._worker.alive:
            raise SessionStateError(
                "a loop of this session has not ended yet: run the cell with nansense_widgets.start again "
                "for a new session (this one is then closed), or let the loop end"
            )
        if self.control.closed:
            raise SessionStateError("this session is closed: start a new one with nansense_widgets.start")
        self._begin(anew=self.ended)
        self._worker = Worker(loop, args, kwargs, self._loop_ended)
        self.loop.owner = self._worker.thread
        self.loop.on_unattended = self._foreground.give_up
        self._foreground.listen_to_interrupts()
        before_exit(self, Run.end_worker)
        self._worker.start()
        self._on_change()

    @property
    def worker(self) -> Worker:
        """The launched worker; raises `SessionStateError` if there is none."""
        if self._worker is None:
            raise SessionStateError("nothing was launched: use session.launch(loop) first")
        return self._worker

    def wait(self, timeout: float | None) -> bool:
        """Wait for the launched loop and raise what it raised; False after `timeout` seconds."""
        worker = self.worker
        try:
            ended = self._foreground.wait_for(worker.join, timeout)
        except KeyboardInterrupt:
            self.control.stop()
            raise
        if ended:
            worker.raise_error()
        return ended

    def close(self, why: str) -> bool:
        """End the run; False if it was closed before."""
        if self.control.closed:
            return False
        self._why_closed = why
        self.control.close()
        worker = self._worker
        if worker is not None and worker.thread is not threading.current_thread():
            worker.join(CLOSE_WAIT_S)
            if worker.alive:
                self._why_closed += "; its loop is still inside a batch and ends after it"
        self._foreground.close()
        self._on_change()
        return True

    def end_worker(self) -> None:
        """The process ends: a launched loop ends at its next batch, if that comes soon."""
        if self._worker is not None and self._worker.alive:
            self.control.close()
            self._worker.join(LAST_WAIT_S)

    def _begin(self, *, anew: bool) -> None:
        if anew:
            self.loop.restart()
        self.failure = None
        self._finished = False

    def _epochs_over(self) -> None:
        """`epochs()` has given its last one: the end of a loop that no worker and no cell reports."""
        if self._worker is None or self._worker.thread is not threading.current_thread():
            self._finished = True
            self._rest()

    def _loop_ended(self, error: BaseException | None) -> None:
        """The worker has returned, or the cell that ran a loop is over."""
        self.loop.abort()
        if error is None:
            self._finished = True
        else:
            self.failure = LoopFailure(error, self.loop.batch_of(error))
            if self._worker is not None and self._worker.thread is threading.current_thread():
                self._foreground.report(self.failure)
        self._rest()

    def _rest(self) -> None:
        self.control.rest()
        self.loop.jobs.leave()
        self.loop.observer.rest()

    # ------------------------------------------------------------ commands

    def go(self, mode: Mode) -> None:
        """Proceed in `mode`, from where training stands."""
        self.control.go(mode, origin=self.loop.position)

    def go_until(self, phase: str | int, epoch: int, batch_idx: int) -> None:
        """Proceed up to a batch; raises if it is not ahead."""
        self.control.go(Mode.UNTIL_POSITION, target=self.ahead(phase, epoch, batch_idx))

    def ahead(self, phase: Any, epoch: Any, batch_idx: Any) -> tuple[str | int, int, int]:
        """A batch still to come, where the way back leads that training is on; raises if it is none."""
        here, standing = self.loop.position, self.loop.standing
        if (way := self.control.replaying) is not None:
            here, standing = (None, "before") if way.batch_idx < 0 else (BatchPosition(*way), "after")
        return checked_target(phase, epoch, batch_idx, self.schedule, here, standing)

    def wait_until_paused(self, after_pauses: int, timeout: float | None) -> bool:
        """Wait until paused; see `Session.wait_until_paused`."""

        def over() -> bool:
            return self.ended or self.control.closed

        def wait(seconds: float | None) -> bool:
            return self.control.wait_until_paused(after_pauses, seconds, over) or over()

        self._foreground.wait_for(wait, timeout)
        return self.control.paused and self.control.pause_count > after_pauses
