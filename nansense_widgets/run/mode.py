"""How training proceeds after a resume."""

from __future__ import annotations

from enum import Enum

__all__ = ["Mode"]


class Mode(str, Enum):  # `enum.StrEnum` came with Python 3.11; 3.10 is supported
    """How training proceeds after a resume, shown as `Session.mode`.

    `STEP` pauses on every batch (Step batch; also the first mode, so that the first batch pauses).
    `UNTIL_PHASE_CHANGE` and `UNTIL_EPOCH_CHANGE` run up to the first batch of the next phase or epoch and
    pause before it, with the last batch of the finished one shown. `UNTIL_POSITION` runs to an exact
    batch, `UNTIL_END` to the last batch of the run. `DETACH` never pauses and captures nothing by itself.
    """

    STEP = "step"
    UNTIL_PHASE_CHANGE = "until_phase_change"
    UNTIL_EPOCH_CHANGE = "until_epoch_change"
    UNTIL_POSITION = "until_position"
    UNTIL_END = "until_end"
    DETACH = "detach"

    def __str__(self) -> str:
        return self.value
