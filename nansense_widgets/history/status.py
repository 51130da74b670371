"""What a session says of its history: what is kept, and how a batch is come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["HistoryStatus", "Way"]


@dataclass(frozen=True)
class HistoryStatus:
    """What is in memory to go back by batches.

    Attributes:
        budget_bytes: what it may take; 0: it is off.
        used_bytes: what it takes.
        phase: the phase that goes on, whose batches these are; None: none does.
        epoch: its epoch, from 0.
        first_batch: the first batch that can be gone back to, from 0; -1: before the first one of the phase.
        last_batch: the last one.
        states: batches before which a state is kept: what lies between is computed anew.
        reason: why nothing can be reached, in words; else empty.
        parted: where a run that came again did something else than the first time, in words; else empty.
    """

    budget_bytes: int
    used_bytes: int = 0
    phase: str | None = None
    epoch: int = 0
    first_batch: int = 0
    last_batch: int = -2
    states: tuple[int, ...] = ()
    reason: str = ""
    parted: str = ""


@dataclass(frozen=True)
class Way:
    """How the run comes to a batch.

    Attributes:
        action: the method that goes there: `rewind`, `step_until_position`; empty: it cannot.
        text: what will happen, or why it cannot, in words.
        batches: how many are computed on the way.
        from_epoch: the epoch whose kept state is restored; None: one in memory, or none.
    """

    action: Literal["rewind", "step_until_position", ""]
    text: str
    batches: int = 0
    from_epoch: int | None = None
