"""Where values of layers first were NaN or infinite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from nansense_widgets.stats.snapshot import LayerStatsSnapshot

__all__ = ["KINDS", "FirstNonFinite", "first_of"]


Kind = Literal["activations", "gradients"]

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class FirstNonFinite:
    """Where one layer's values first were not finite, as far as statistics saw them on the CPU.

    Attributes:
        layer: its name.
        kind: which of its values.
        phase: of the loop.
        epoch: index of the epoch.
        batch_idx: index of the batch in the phase.
    """

    layer: str
    kind: Kind
    phase: str
    epoch: int
    batch_idx: int


def first_of(stats: LayerStatsSnapshot) -> tuple[int | None, int | None]:
    """Batches in which activations and gradients of one layer and epoch first were not finite."""
    return stats.activations.first_nonfinite, stats.gradients.first_nonfinite
