"""How often the views refresh while training runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nansense_widgets.run.position import BatchPosition

__all__ = ["UpdateFrequency"]


@dataclass(frozen=True)
class UpdateFrequency:
    """`unit="epoch"`: first batch of every `n`-th epoch; `"batch"`: every `n`-th batch (of `phase`)."""

    unit: Literal["epoch", "batch"] = "epoch"
    n: int = 1
    phase: str | None = None

    @staticmethod
    def checked(unit: str, n: int, phase: str | None, known_phases: list[str]) -> UpdateFrequency:
        """Build one from a user's arguments; raises `ValueError` or `TypeError` naming the wrong one."""
        if unit not in ("epoch", "batch"):
            raise ValueError(f"unit={unit!r} must be 'epoch' or 'batch'")
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n={n!r} must be an int")
        if n < 1:
            raise ValueError(f"n={n!r} must be at least 1")
        if phase is not None:
            if unit == "epoch":
                raise ValueError(f"phase={phase!r} only goes with unit='batch'")
            if not isinstance(phase, str):
                raise TypeError(f"phase={phase!r} must be a phase's name or None")
            if known_phases and phase not in known_phases:
                raise ValueError(f"phase={phase!r} is not a known phase; known: {', '.join(known_phases)}")
        return UpdateFrequency("epoch" if unit == "epoch" else "batch", n, phase)

    def is_due(self, position: BatchPosition, *, new_epoch: bool, counted: int) -> bool:
        """Whether the batch at `position` refreshes the views.

        `new_epoch`: it is the first batch of its epoch. `counted`: batches before it in the run, those of
        `phase` only if one is set.
        """
        if self.unit == "epoch":
            return new_epoch and position.epoch % self.n == 0
        return (self.phase is None or position.phase == self.phase) and counted % self.n == 0
