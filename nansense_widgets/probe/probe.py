"""The probe of a session: which batch, in which mode, with what perturbed, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from nansense_widgets.probe.answers import Answers
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.probe.result import ProbeMode, ProbeResult
from nansense_widgets.run.position import BatchPosition

__all__ = ["PinUpdate", "Probe"]


@dataclass(frozen=True)
class PinUpdate:
    """What the model said of the pinned batch at one update.

    Attributes:
        at: the last batch before.
        losses: of each sample, float64 of shape (samples,); None: not known.
    """

    at: BatchPosition | None
    losses: torch.Tensor | None


class Probe:
    """Everything that can be read is safe to read from any thread."""

    mode: ProbeMode = "unchanged"
    batch: InputBatch | None = None
    """The pinned batch; without one, that which was captured last."""
    why_none: str = ""
    """Why there is no batch."""
    answers: Answers | None = None
    """What the model said in `batch` itself, as it ran."""
    is_pinned: bool = False
    updates: tuple[PinUpdate, ...] = ()
    """Since the batch was pinned."""
    perturbations: tuple[Perturbation, ...] = ()
    result: ProbeResult | None = None
    """Of the last probe; None: there is nothing to probe, as nothing is pinned or perturbed."""
    computing: bool = False

    def inputs(self, *, original: bool = False) -> Mapping[str, torch.Tensor]:
        """Inputs of `batch` with the perturbations (that are of inputs), without them if `original`."""
        raise NotImplementedError
