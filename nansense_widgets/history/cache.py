"""States of a run at the beginnings of its epochs, in a folder: written beside training, and bounded."""

from __future__ import annotations

import contextlib
import errno
import itertools
import queue
import re
import threading
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nansense_widgets.errors import TimeTravelError
from nansense_widgets.history.files import read_file, remove_leftovers, write_file
from nansense_widgets.run.ending import before_exit

__all__ = ["DEFAULT_CACHE_DIR", "EpochCache"]

DEFAULT_CACHE_DIR = Path("nansense_cache")

SUFFIX = ".state"

LATE = ".loaders"
"""Of the file beside it that holds what was added to a state."""

_OURS = re.compile(rf"epoch-\d{{6}}({re.escape(SUFFIX)}|{re.escape(LATE)})")

PREVIOUS = "previous"
"""Folder inside for the states of the run before: who starts anew by mistake has lost nothing yet."""

EXIT_WAIT_S = 30.0

WAITING_BYTES = 2**30
"""States that may wait for the disk, beside the one that is being written."""


_CLAIMED: weakref.WeakValueDictionary[Path, EpochCache] = weakref.WeakValueDictionary()
"""Folders of runs that go on in this process."""


class EpochCache:
    """One file an epoch. Files are written by a thread of their own, one after the other.

    Args:
        folder: made when the first state is written.
        keep: newest epochs that are kept, at least 1.
        every: of older ones, each epoch that this divides is kept too; 0: none.
    """

    def __init__(self, folder: Path, keep: int = 10, every: int = 10) -> None:
        self.folder = folder.absolute()  # the user's program may change its working directory
        self.error = ""
        """What went wrong in the last writing, which training did not wait for."""
        self._keep = keep
        self._every = every
        self._run = uuid.uuid4().hex
        self._adopted = False
        self._late: dict[int, dict[str, Any]] = {}
        self._runs: dict[int, str] = {}
        """Which run a state is of, where that is known; what is added to it says the same."""
        self._lock = threading.Lock()
        self._epochs: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._begun = False
        self._pending: dict[int, Any] = {}
        """Being written, or waiting for it."""
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue()
        self._thread: threading.Thread | None = None

    def _claim(self) -> bool:
        """Have the folder for this run alone; False if another run of this process writes into it."""
        other = _CLAIMED.get(self.folder)
        if self.folder == DEFAULT_CACHE_DIR.absolute() and other not in (None, self):
            numbers = itertools.count(2)
            while other not in (None, self):  # nobody has asked for this very one
                self.folder = DEFAULT_CACHE_DIR.absolute().with_name(f"{DEFAULT_CACHE_DIR}-{next(numbers)}")
                other = _CLAIMED.get(self.folder)
        if other not in (None, self):
            self.error = f"nothing is kept: {self.folder} is used by another session whose loop goes on"
            return False
        _CLAIMED[self.folder] = self
        return True

    def release(self) -> None:
        """Its run is over."""
        if _CLAIMED.get(self.folder) is self:
            del _CLAIMED[self.folder]

    def _put_aside(self) -> None:
        """A new run: states of an earlier one make room."""
        if not self.folder.is_dir():
            return
        remove_leftovers(self.folder)
        aside = self.folder / PREVIOUS
        for folder in (aside, self.folder):
            old = [path for path in folder.glob("epoch-*") if _OURS.fullmatch(path.name)]
            for path in old:  # and nothing that somebody else has put there
                if folder is aside:
                    path.unlink()
                else:
                    aside.mkdir(exist_ok=True)
                    path.replace(aside / path.name)

    def adopt(self) -> None:
        """Go on with what the folder holds."""
        if self.folder.is_dir():
            remove_leftovers(self.folder)
            with self._lock:
                self._begun = self._adopted = True
                found = {_epoch_of(path): path for path in self.folder.glob(f"epoch-*{SUFFIX}")}
                found.pop(-1, None)
                self._epochs = set(found)
                self._sizes = {epoch: _size_of_file(path) for epoch, path in found.items()}

    @property
    def kept(self) -> str:
        """Which epochs are kept, in words."""
        older = f", and every {self._every}th before" if self._every else ""
        return f"The newest {self._keep} are kept{older}."

    @property
    def is_foreign(self) -> bool:
        """Whether its states may be of another process."""
        return self._adopted

    @property
    def epochs(self) -> list[int]:
        """Epochs that can be gone back to, in order."""
        with self._lock:
            return sorted(self._present() | self._pending.keys())

    def _present(self) -> set[int]:
        """Of the epochs that were written, those whose files nobody has removed."""
        try:
            names = {path.name for path in self.folder.iterdir()}
        except (OSError, ValueError):  # a name that no folder can have
            return set()
        return {epoch for epoch in self._epochs if self.path(epoch).name in names}

    @property
    def nbytes(self) -> int:
        """What the files take on disk."""
        with self._lock:
            return sum(self._sizes.get(epoch, 0) for epoch in self._present())

    def path(self, epoch: int) -> Path:
        """The file of an epoch."""
        return self.folder / f"epoch-{epoch:06d}{SUFFIX}"

    def __contains__(self, epoch: int) -> bool:
        with self._lock:
            return epoch in self._epochs or epoch in self._pending

    def save(self, epoch: int, content: dict[str, Any]) -> bool:
        """Have a state written; it must not change any more. False, with an `error`, if that cannot be."""
        if not self._claim():
            return False
        size = _size(content)
        with self._lock:
            waiting = sum(map(_size, self._pending.values()))
            if waiting and waiting + size > WAITING_BYTES:
                self.error = f"epoch {epoch} was not kept: the disk is slower than the epochs before it"
                return False
            self._pending[epoch] = content = {**content, "run": self._run}
            self._late.pop(epoch, None)
            self._runs[epoch] = self._run
            begun, self._begun = self._begun, True
        if not begun:
            self._submit(self._put_aside)
        self._submit(lambda: self._write(epoch))
        return True

    def add(self, epoch: int, key: str, value: Any) -> None:
        """Add to a state that was saved: what became known of its moment only later."""
        with self._lock:
            late = self._late[epoch] = {**self._late.get(epoch, {}), key: value}
            run = self._runs.get(epoch, self._run)
        self._submit(lambda: write_file(self._late_path(epoch), {"run": run, "late": late}))

    def load(self, epoch: int) -> Any:
        """The state of an epoch; raises `TimeTravelError`."""
        with self._lock:
            pending = self._pending.get(epoch)
        if pending is not None:
            return pending
        content = read_file(self.path(epoch))
        if not isinstance(content, dict) or "state" not in content or content.get("epoch") != epoch:
            raise TimeTravelError(f"{self.path(epoch)} is no state of the beginning of epoch {epoch}")
        if not self._adopted and content.get("run") != self._run:
            raise TimeTravelError(f"{self.path(epoch)} is of another run, which writes into the same folder")
        with self._lock:
            known = epoch in self._late
            self._runs[epoch] = str(content.get("run"))
        if not known and self._late_path(epoch).exists():
            late = self._read_late(epoch, content.get("run"))
            with self._lock:
                self._late.setdefault(epoch, late)
        return content

    def late(self, epoch: int) -> dict[str, Any]:
        """What was added to the state of an epoch, which was loaded or saved before."""
        with self._lock:
            return self._late.get(epoch, {})

    def _read_late(self, epoch: int, run: Any) -> dict[str, Any]:
        path = self._late_path(epoch)
        without = "it says how loaders of this epoch go on; if it is removed, their items may be others"
        try:
            content = read_file(path)
        except TimeTravelError as error:
            raise TimeTravelError(f"{error} ({without})") from error
        late = content.get("late") if isinstance(content, dict) else None
        if not isinstance(late, dict) or not all(_is_state_of_loader(state) for state in late.values()):
            raise TimeTravelError(f"{path} holds no states of loaders ({without})")
        if content.get("run") != run:
            raise TimeTravelError(f"{path} is of another run than {self.path(epoch).name} ({without})")
        return late

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything is written; False after `timeout` seconds."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._submit(done.set)
        return done.wait(timeout)

    def _submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="nansense-states", daemon=True)
                self._thread.start()
                before_exit(self, EpochCache._end)
        self._jobs.put(job)

    def _end(self) -> None:
        self.flush(EXIT_WAIT_S)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            except Exception as error:  # noqa: BLE001  a folder that cannot be written
                self.error = f"{self.folder}: {_said(error)}"

    def _write(self, epoch: int) -> None:
        with self._lock:
            content = self._pending.get(epoch)
        if content is None:
            return
        try:
            write_file(self.path(epoch), content)
        except Exception as error:  # noqa: BLE001  a full disk, and whatever else: training goes on
            self.error = f"{self.path(epoch)} was not written: {_said(error)}"
        else:
            with contextlib.suppress(OSError):  # of an earlier state of this epoch
                self._late_path(epoch).unlink()
            size = _size_of_file(self.path(epoch))
            with self._lock:
                self._epochs.add(epoch)
                self._sizes[epoch] = size
            self.error = ""
        with self._lock:
            if self._pending.get(epoch) is content:
                del self._pending[epoch]
        self._thin()

    def _thin(self) -> None:
        with self._lock:
            known = sorted(self._epochs)
        for epoch in known[: -self._keep]:
            if not (self._every and epoch % self._every == 0):
                self._remove(epoch)

    def _remove(self, epoch: int) -> None:
        with self._lock:
            self._epochs.discard(epoch)
            self._pending.pop(epoch, None)
            self._late.pop(epoch, None)
            self._runs.pop(epoch, None)
        for path in (self.path(epoch), self._late_path(epoch)):
            with contextlib.suppress(OSError):
                path.unlink()

    def _late_path(self, epoch: int) -> Path:
        return self.path(epoch).with_suffix(LATE)


def _said(error: BaseException) -> str:
    """In words; torch hides that the disk is full behind an error of its own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"the disk is full ({cause.strerror})"
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {error}"


def _is_state_of_loader(state: Any) -> bool:
    return isinstance(state, dict) and isinstance(state.get("generators"), dict)


def _size(content: Any) -> int:
    if isinstance(content, torch.Tensor):
        return content.numel() * content.element_size()
    if isinstance(content, dict):
        return sum(map(_size, content.values()))
    return sum(map(_size, content)) if isinstance(content, (list, tuple)) else 0


def _size_of_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _epoch_of(path: Path) -> int:
    number = path.name.removeprefix("epoch-").removesuffix(SUFFIX)
    return int(number) if number.isdigit() else -1
