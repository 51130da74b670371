"""Where a batch sits in the run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BatchPosition"]


@dataclass(frozen=True)
class BatchPosition:
    """Where a batch sits in the run: the phase's name, and `epoch` and `batch_idx` counted from 0.

    The `is_last_*` flags mark boundaries: the last batch of the phase in this epoch, of the epoch, and
    of the whole run. They are a forecast: with a lazy schedule they stay False until the phase's length
    is known (from `len(loader)`, or learned at the end of the first epoch), and a loop that breaks early
    ends before them.
    """

    phase: str
    epoch: int
    batch_idx: int
    is_last_in_phase: bool = False
    is_last_in_epoch: bool = False
    is_last_overall: bool = False

    @property
    def key(self) -> tuple[str, int, int]:
        """`(phase, epoch, batch_idx)`: what makes two positions the same batch."""
        return (self.phase, self.epoch, self.batch_idx)

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.phase}, batch {self.batch_idx} (counted from 0)"
