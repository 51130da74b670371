"""The exceptions of the package: one tree, rooted at `NansenseError`.

Wrong arguments raise the built-in `ValueError` or `TypeError`; these here are for wrong moments.
"""

from __future__ import annotations

__all__ = [
    "LoopClosed",
    "MomentError",
    "NansenseError",
    "SessionStateError",
    "TimeTravelError",
    "TimeTravelJump",
]


class NansenseError(Exception):
    """Base of the errors that this package raises."""


class SessionStateError(NansenseError, RuntimeError):
    """A call that does not fit the state of the session, e.g. two loops at once."""


class TimeTravelError(NansenseError, RuntimeError):
    """A jump that cannot be made, or a file of a state that cannot be used; it says what is wrong."""


class MomentError(NansenseError, RuntimeError):
    """A file of a frozen moment that cannot be read or does not fit the model; it names the file."""


class TimeTravelJump(BaseException):
    """Raised inside a batch loop to unwind to the `restore_point` around it, which catches it.

    A `BaseException` on purpose: it travels through the user's training code, which may hold a broad
    `except Exception`.

    Attributes:
        epoch: where the run goes on, from 0.
    """

    def __init__(self, epoch: int) -> None:
        super().__init__(f"going back to epoch {epoch} (counted from 0)")
        self.epoch = epoch


class LoopClosed(BaseException):
    """Ends a loop that `Session.launch` runs, when its session is closed.

    A `BaseException` on purpose: it has to travel through the user's training code, which may hold a
    broad `except Exception`, up to the worker that catches it.
    """
