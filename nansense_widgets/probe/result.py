"""What a probe found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

from nansense_widgets.capture.snapshot import LayerCall
from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.perturbation import Perturbation
from nansense_widgets.run.position import BatchPosition

__all__ = ["Moved", "ProbeMode", "ProbeResult"]

ProbeMode = Literal["unchanged", "eval", "train"]


@dataclass(frozen=True)
class Moved:
    """How far a perturbation has changed the first output of a layer's first call.

    Attributes:
        share: of its values, in the perturbed samples, that are another than without the perturbations; from
            0 to 1.
        largest: largest magnitude of a difference; NaN if one is.
        elsewhere: whether values of other samples changed as well; looked at in watched layers only.
    """

    share: float
    largest: float
    elsewhere: bool = False


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """One forward of the kept batch, and a second one with the perturbations; all tensors on the CPU.

    Attributes:
        number: counts the probes of a session, from 0.
        batch: what was run.
        pinned: whether it is pinned; else it is the batch that was captured last.
        weights_at: the last batch before the probe: its weights are those after that batch; None: before any.
        mode: forward mode.
        training: `train`, `eval` or `mixed`: flags of the modules in the probe.
        perturbations: those that were applied.
        layers: calls of the watched layers and of the inputs, without the perturbations.
        perturbed: the same with them; empty if there are none.
        missing: layer to why it has no values.
        output: tensors that the model gave, by path, without the perturbations.
        perturbed_output: with them; empty if there are none.
        moved: layer to how far the perturbations got, in the order in which layers ran.
        notes: what else to know.
        seconds: that it took on the training thread.
        error: what went wrong, in which case there are no values; else empty.
    """

    number: int
    batch: InputBatch
    pinned: bool
    weights_at: BatchPosition | None
    mode: ProbeMode
    training: str = ""
    perturbations: tuple[Perturbation, ...] = ()
    layers: Mapping[str, tuple[LayerCall, ...]] = field(default_factory=dict)
    perturbed: Mapping[str, tuple[LayerCall, ...]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    output: Mapping[str, torch.Tensor] = field(default_factory=dict)
    perturbed_output: Mapping[str, torch.Tensor] = field(default_factory=dict)
    moved: Mapping[str, Moved] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""

    def __repr__(self) -> str:  # the default one would print every tensor
        what = self.error or f"{len(self.layers)} layers, {len(self.perturbations)} perturbations"
        return f"<ProbeResult {self.number} of {self.batch!r}: {what}>"
