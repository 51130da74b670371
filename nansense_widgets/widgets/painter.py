"""One thread that makes and sends pictures, so that neither training nor the kernel's main thread waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from nansense_widgets.run.ending import before_exit

__all__ = ["Painter"]

Job = Callable[[], None]

IDLE_S = 10.0

LAST_WAIT_S = 5.0
"""How long the end of the process waits for a picture."""


@dataclass
class _Waiting:
    key: str
    job: Job
    due: float


class Painter:
    """Runs jobs one after the other on a daemon thread that lives while there are some.

    What a job raises is kept as `error`, until one goes well, and does not end the thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: list[_Waiting] = []
        self._thread: threading.Thread | None = None
        self._busy = False
        self._stopped = False
        self.error = ""
        before_exit(self, Painter.stop)

    def stop(self) -> None:
        """Drop what waits, and wait for the job that is being done."""
        with self._changed:
            self._stopped = True
            self._jobs.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(LAST_WAIT_S)

    def submit(self, job: Job) -> None:
        """Run `job` after those before it."""
        self._put("", job, 0.0)

    def submit_latest(self, key: str, job: Job, after: float = 0.0) -> None:
        """The same, but it replaces a waiting job of this key, and may wait for some seconds itself."""
        self._put(key, job, after)

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to do; for tests and for a last picture before a close."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._busy, timeout)

    def _put(self, key: str, job: Job, after: float) -> None:
        due = time.monotonic() + after
        with self._changed:
            if self._stopped:
                return
            known = next((one for one in self._jobs if key and one.key == key), None)
            if known is not None:
                known.job, known.due = job, min(due, known.due)
            else:
                self._jobs.append(_Waiting(key, job, due))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="nansense-painter", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                one = self._next()
                if one is None:
                    self._thread = None  # a session that nobody looks at keeps no thread
                    return
                self._busy = True
            try:
                one.job()
                self.error = ""
            except Exception as error:  # shown by the views as the session's notice
                self.error = f"{type(error).__name__}: {error}"
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _next(self) -> _Waiting | None:
        """The first job that is due, once there is one; None if the thread is to end. With the lock held."""
        until = time.monotonic() + IDLE_S
        while not self._stopped:
            now = time.monotonic()
            one = next((one for one in self._jobs if one.due <= now), None)
            if one is not None:
                self._jobs.remove(one)
                return one
            if not self._jobs and now >= until:
                return None
            self._changed.wait(min((one.due for one in self._jobs), default=until) - now)
        return None
