"""What users hold: one object with a side for the loop, one for whoever steers, one for the eyes."""

from nansense_widgets.session.session import Session

__all__ = ["Session"]
