"""Work for the training thread between batches: what is asked on other threads and touches the model."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Jobs"]

Job = Callable[[], None]


class Jobs:
    """Jobs wait until no batch is open: until then nothing of the model may change.

    Args:
        on_new: called when one waits; must return at once.
    """

    def __init__(self, on_new: Callable[[], None]) -> None:
        self._on_new = on_new
        self._lock = threading.RLock()
        self._waiting: deque[tuple[str, Job]] = deque()
        self._held: deque[tuple[str, Job]] | None = None
        """Jobs that wait for something else first; None: there is nothing to wait for."""
        self._home: int | None = None
        """The thread that goes through the batches, while it does."""
        self._inside = False
        self.error = ""
        """What went wrong in the last job."""

    @property
    def waiting(self) -> list[str]:
        """Names of jobs that wait."""
        with self._lock:
            return [name for name, _ in (*self._waiting, *(self._held or ()))]

    def submit(self, name: str, job: Job) -> None:
        """Run `job` between two batches; at once where no loop goes on. What it raises is kept as `error`."""
        with self._lock:
            here = self._home == threading.get_ident() and not self._inside and self._held is None
            if self._home is None or here:
                self._run(name, job)  # under the lock, so that no batch begins meanwhile
                return
            (self._waiting if self._held is None else self._held).append((name, job))
        self._on_new()

    def hold(self) -> None:
        """What is submitted from now on waits until `release`."""
        with self._lock:
            if self._home is not None:
                self._held = self._held or deque()

    def release(self) -> None:
        """What was held waits no longer."""
        with self._lock:
            held, self._held = self._held, None
            self._waiting.extend(held or ())

    # ------------------------------------------------------------ the training thread

    def between(self) -> None:
        """No batch is open: run what waits now. What is asked meanwhile waits for the next time."""
        self._home, self._inside = threading.get_ident(), False
        for _ in range(len(self._waiting)):
            with self._lock:
                if not self._waiting:
                    return
                name, job = self._waiting.popleft()
            self._run(name, job)

    def enter(self) -> None:
        """A batch begins: run what waits, and nothing from here on."""
        with self._lock:
            self.between()
            self._inside = True

    def leave(self) -> None:
        """The loop is over."""
        with self._lock:
            self.release()
            self.between()
            self._home = None

    def _run(self, name: str, job: Job) -> None:
        try:
            job()
            self.error = ""
        except Exception as error:  # noqa: BLE001  never an error in the user's loop
            self.error = f"{name} failed: {type(error).__name__}: {error}"
