"""A PyTorch training debugger that lives in the notebook."""

from nansense_widgets.capture.architecture import Architecture, ArchitectureNode
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.errors import LoopClosed, NansenseError, SessionStateError
from nansense_widgets.run.mode import Mode
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.run.schedule import Schedule
from nansense_widgets.session import Session
from nansense_widgets.start import start

__all__ = [
    "Architecture",
    "ArchitectureNode",
    "BatchPosition",
    "BatchSnapshot",
    "LoopClosed",
    "Mode",
    "NansenseError",
    "Schedule",
    "Session",
    "SessionStateError",
    "start",
]
