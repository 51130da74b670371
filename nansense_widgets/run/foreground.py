"""Loops on the main thread, and whatever keeps the main thread busy while a loop is under way."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from nansense_widgets.run.control import IDLE_WAIT_S, RunControl
from nansense_widgets.run.kernel import ShellMailbox, current_kernel
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.worker import LoopFailure

__all__ = ["Foreground"]


class Foreground:
    """Keeps a notebook alive while its main thread is busy with training or with waiting for it.

    Args:
        pump: publishes what the widgets should show; for the main thread only.
        on_cell_end: called when a cell that ran a loop is over, with the exception that ended it or None.
    """

    def __init__(
        self,
        control: RunControl,
        pump: Callable[[], None],
        on_cell_end: Callable[[BaseException | None], None],
    ) -> None:
        self._control = control
        self._pump = pump
        self._on_cell_end = on_cell_end
        self._kernel = current_kernel()
        self._mailbox: ShellMailbox | None = None
        self._cell_hook: Callable[[Any], None] | None = None
        self._interrupted_at = -1
        """Number of pauses when the last interrupt came; a second one at the same number was not heeded."""
        self.notice = ""

    @property
    def in_kernel(self) -> bool:
        """A Jupyter kernel runs here, so somebody can steer."""
        return self._kernel is not None

    def enter(self) -> Callable[[], None] | None:
        """A loop begins on this thread; returns what it must call at batch boundaries and while paused."""
        if self._kernel is None or threading.current_thread() is not threading.main_thread():
            return None
        self._watch_cell()
        signal.signal(signal.SIGINT, self._interrupted)
        return self._listen()

    def wait_for(self, wait: Callable[[float | None], bool], timeout: float | None) -> bool:
        """Call `wait(seconds)` until it is True or `timeout` is over; a kernel's widgets work meanwhile."""
        if self._kernel is None or threading.current_thread() is not threading.main_thread():
            return wait(timeout)
        poll = self._listen()
        deadline = None if timeout is None else time.monotonic() + timeout
        while not wait(0.02):
            poll()
            if deadline is not None and time.monotonic() >= deadline:
                return False
        self._pump()
        return True

    def listen_to_interrupts(self) -> None:
        """Have a kernel interrupt pause the training while no cell runs.

        ipykernel ignores the signal between cells and sets Python's own handler during one; a handler set
        between cells stays in place around the following ones.
        """
        kernel = self._kernel
        if kernel is None or threading.current_thread() is not threading.main_thread():
            return

        def set_handler() -> None:
            if not self._control.closed:
                signal.signal(signal.SIGINT, self._interrupted)

        # Shortly after this cell, once ipykernel has put back the handler it had before it.
        kernel.io_loop.call_later(0.3, set_handler)

    def give_up(self) -> None:
        """Nobody steers a plain script: say so once and go on."""
        print(
            f"nansense_widgets: training was paused for {IDLE_WAIT_S:.0f} s and nothing steered it, so it "
            "goes on without pausing (session.detach()). In a notebook, show session.dashboard(); in a "
            "script, call session.detach() or steer it from a second thread.",
            file=sys.stderr,
            flush=True,
        )
        self._control.go(Mode.DETACH)

    def report(self, failure: LoopFailure) -> None:
        """Say in the launching cell (or on stderr) that its loop died: nobody may be looking at a widget."""
        print(
            f"nansense_widgets: the launched loop ended with {failure.type}: {failure.message}\n"
            f"  at {failure.line}\n  session.wait() raises it; session.failure has the traceback.",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Let go of the cell and of the interrupt handler."""
        self._forget_cell()
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and self._kernel is not None and signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _listen(self) -> Callable[[], None]:
        if self._mailbox is None:
            self._mailbox = ShellMailbox.of(self._kernel)
            if self._mailbox is None:
                self.notice = f"{_DEAF}: run the loop with session.launch instead."
        return self._poll

    def _poll(self) -> None:
        if self._mailbox is not None:
            try:
                self._mailbox.drain()
            except Exception as error:  # private names of ipykernel: never at the cost of the run
                self._mailbox = None
                reason = f"{type(error).__name__}: {error}"
                self.notice = f"{_DEAF} ({reason}): run the loop with session.launch instead."
        self._pump()

    # ------------------------------------------------------------ interrupts and failures of a cell

    def _interrupted(self, number: int, frame: Any) -> None:
        """First interrupt: pause at the next batch. One more before that, or while paused, ends the cell."""
        pauses = self._control.pause_count
        again = self._interrupted_at == pauses
        if self._control.closed or self._control.paused or again:
            if _cell_runs():
                signal.default_int_handler(number, frame)
            return
        self._interrupted_at = pauses
        self._control.stop()

    def _watch_cell(self) -> None:
        if self._cell_hook is not None or self._kernel is None:
            return

        def after_cell(result: Any) -> None:
            self._forget_cell()
            self._on_cell_end(result.error_in_exec)

        self._cell_hook = after_cell
        self._kernel.shell.events.register("post_run_cell", after_cell)

    def _forget_cell(self) -> None:
        if self._cell_hook is not None and self._kernel is not None:
            with suppress(ValueError):  # IPython was reset meanwhile
                self._kernel.shell.events.unregister("post_run_cell", self._cell_hook)
            self._cell_hook = None


_DEAF = "This kernel cannot hear clicks while a cell runs"


def _cell_runs() -> bool:
    """Whether the main thread is inside a cell (rather than idle in its event loop)."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "run_code" and f"{os.sep}IPython{os.sep}" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
