"""Runs the user's loop in a worker thread, and keeps what it returned or raised."""

from __future__ import annotations

import contextvars
import linecache
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from nansense_widgets.errors import LoopClosed, SessionStateError
from nansense_widgets.run.position import BatchPosition

__all__ = ["LoopFailure", "Worker"]


@dataclass(frozen=True)
class LoopFailure:
    """An exception that ended the loop.

    `line` is the innermost line of the user's own code, as `file:number  code`; `position` the batch it
    died on (None: outside any batch).
    """

    error: BaseException
    position: BatchPosition | None

    @property
    def type(self) -> str:
        return type(self.error).__qualname__

    @property
    def message(self) -> str:
        return str(self.error)

    @property
    def traceback(self) -> str:
        """The user's own frames and the one that raised; those of libraries between them are counted."""
        frames = [f for f in traceback.extract_tb(self.error.__traceback__) if not _is_ours(f.filename)]
        lines: list[str] = []
        skipped = 0
        for index, frame in enumerate(frames):
            if _is_library(frame.filename) and index < len(frames) - 1:
                skipped += 1
                continue
            if skipped:
                lines.append(f"  … {skipped} frames of libraries\n")
                skipped = 0
            lines += traceback.format_list([frame])
        return "".join(lines) + "".join(traceback.format_exception_only(type(self.error), self.error))

    @property
    def line(self) -> str:
        own = user_frame(self.error.__traceback__)
        if own is None:
            return ""
        filename, number = own
        return f"{_short(filename)}:{number}  {linecache.getline(filename, number).strip()}"


class Worker:
    """One loop in one thread.

    Args:
        on_end: called on the worker's thread when the loop is over, with the failure or None.
    """

    def __init__(
        self,
        loop: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._loop = loop
        self._args = args
        self._kwargs = kwargs
        self._on_end = on_end
        self._error: BaseException | None = None
        self._result: Any = None
        self._returned = False
        # Prints of the worker belong to the cell that launched it: ipykernel keeps that in context variables.
        context = contextvars.copy_context()
        settings = _ThreadSettings()
        self.thread = threading.Thread(
            target=lambda: context.run(self._run, settings), name="nansense-training", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self.thread.start()

    @property
    def alive(self) -> bool:
        """The loop still runs (or is paused)."""
        return self.thread.is_alive()

    def join(self, timeout: float | None) -> bool:
        """Wait for the end; False if `timeout` seconds passed first."""
        self.thread.join(timeout)
        return not self.thread.is_alive()

    def raise_error(self) -> None:
        """Raise what the loop raised, if it did."""
        if self._error is not None:
            raise self._error

    @property
    def result(self) -> Any:
        """What the loop returned; raises what it raised, `SessionStateError` if it has not ended."""
        if self.alive:
            raise SessionStateError("the loop is still running: call session.wait() first")
        self.raise_error()
        if not self._returned:
            raise SessionStateError("the loop was ended by closing its session and has no result")
        return self._result

    def _run(self, settings: _ThreadSettings) -> None:
        try:
            settings.apply()
            self._result = self._loop(*self._args, **self._kwargs)
            self._returned = True
        except LoopClosed:
            pass
        except BaseException as error:  # kept for `wait` and shown by the widgets; nothing is lost
            self._error = error
        # A session may be kept for its last state; the loop's data need not be.
        self._loop, self._args, self._kwargs = _ended, (), {}
        self._on_end(self._error)


def _ended() -> None:
    """Stands in for a loop that is over."""


class _ThreadSettings:
    """Torch's per-thread settings, carried over so that a loop computes in the worker what it would here."""

    def __init__(self) -> None:
        self._grad = torch.is_grad_enabled()
        self._threads = torch.get_num_threads()
        self._device = torch.get_default_device()
        self._default_device_is_set = self._device != torch.device("cpu")
        self._cuda = torch.cuda.current_device() if torch.cuda.is_initialized() else None

    def apply(self) -> None:
        torch.set_grad_enabled(self._grad)
        # Torch sets it late in a new thread: the first op would use another number, and give other digits.
        torch.set_num_threads(self._threads)
        if self._default_device_is_set:
            torch.set_default_device(self._device)
        if self._cuda is not None:
            torch.cuda.set_device(self._cuda)


def user_frame(trace: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame that is neither torch's, Python's nor this package's."""
    found = None
    for frame in traceback.extract_tb(trace):
        if not _is_ours(frame.filename) and not _is_library(frame.filename):
            found = (frame.filename, frame.lineno or 0)
    return found


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def _is_library(filename: str) -> bool:
    return (
        "site-packages" in filename
        or "dist-packages" in filename
        or filename.startswith(("<frozen", _STDLIB))
    )


def _short(filename: str) -> str:
    """A notebook cell by its kind, a file by its last two parts."""
    if "ipykernel_" in filename or filename.startswith("<ipython-input"):
        return "cell"
    return "/".join(filename.replace("\\", "/").split("/")[-2:])


_PACKAGE = __file__.replace("\\", "/").rsplit("/", 2)[0] + "/"
_STDLIB = threading.__file__.rsplit("/", 1)[0]
