"""How the model has done on a pinned batch, update by update."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nansense_widgets.run.position import BatchPosition

__all__ = ["PinUpdate", "PinUpdates"]

MOST_BYTES = 8 * 2**20


@dataclass(frozen=True, eq=False)
class PinUpdate:
    """What the model said of the pinned batch at one update.

    Attributes:
        at: the last batch before it; None: there was none yet.
        losses: of each sample, float64 of shape (samples,); None: not known.
    """

    at: BatchPosition | None
    losses: torch.Tensor | None


class PinUpdates:
    """The updates of one pinned batch, in the order of the run: going back drops what comes after.

    Beyond 8 MiB every second one of those before is dropped.
    """

    def __init__(self) -> None:
        self._all: list[tuple[int, PinUpdate]] = []

    @property
    def all(self) -> tuple[PinUpdate, ...]:
        return tuple(update for _, update in self._all)

    @property
    def nbytes(self) -> int:
        last = self._all[-1][1].losses if self._all else None
        return len(self._all) * (100 + (0 if last is None else 8 * last.numel()))

    def add(self, update: PinUpdate, count: int) -> None:
        """Add one, after so many batches of the run."""
        kept = [(at, one) for at, one in self._all if at < count]
        if self.nbytes > MOST_BYTES:
            kept = kept[::2]
        self._all = [*kept, (count, update)]

    def clear(self) -> None:
        """Another batch is pinned, or none."""
        self._all = []
