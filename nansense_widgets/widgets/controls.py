"""The controls: run buttons, position, progress."""

from __future__ import annotations

from nansense_widgets.widgets._base import SessionWidget

__all__ = ["Controls"]


class Controls(SessionWidget, front_end="controls"):
    """`session.controls()`: buttons and keys to step, run and stop, with position and progress."""
