"""The exceptions of the package: one tree, rooted at `NansenseError`.

Wrong arguments raise the built-in `ValueError` or `TypeError`; these here are for wrong moments.
"""

from __future__ import annotations

__all__ = ["LoopClosed", "NansenseError", "SessionStateError"]


class NansenseError(Exception):
    """Base of the errors that this package raises."""


class SessionStateError(NansenseError, RuntimeError):
    """A call that does not fit the state of the session, e.g. two loops at once."""


class LoopClosed(BaseException):
    """Ends a loop that `Session.launch` runs, when its session is closed.

    A `BaseException` on purpose: it has to travel through the user's training code, which may hold a
    broad `except Exception`, up to the worker that catches it.
    """
