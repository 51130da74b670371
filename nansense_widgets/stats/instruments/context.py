"""What an instrument is given: the live tensors of one layer, or of one parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nansense_widgets.run.position import BatchPosition

__all__ = ["LayerContext", "WeightContext"]

State = Mapping[str, Any]

NOWHERE = BatchPosition("", 0, 0)
"""For contexts that a user makes by hand, to try a function."""


@dataclass(frozen=True, eq=False, repr=False)
class LayerContext:
    """One layer's live tensors at the end of a batch. They are on the training device: read, never write.

    Attributes:
        activation: the layer's output, the first tensor of its first call in the batch. No copy, except where
            an op in place after the layer would have rewritten it.
        gradient: of the loss with respect to `activation`; several `backward` calls add up, without the scale
            of a `GradScaler`. None where no backward reached it, as in validation.
        weights: the layer's own parameters by qualified name, as they are after the optimizer's step.
        weight_gradients: of those, as the optimizer used them (after clipping, before a later `zero_grad`);
            where none stepped, as they are at the end of the batch. Those that this batch did not reach are
            left out.
        optimizer_state: parameter name to its entries, read only; of the optimizers given to `start`.
        module: the layer's module, None for functional ops and inputs.
        layer: its name.
        position: the batch.
    """

    activation: torch.Tensor
    gradient: torch.Tensor | None = None
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)
    optimizer_state: Mapping[str, State] = field(default_factory=dict)
    module: nn.Module | None = None
    layer: str = ""
    position: BatchPosition = NOWHERE

    def __repr__(self) -> str:  # the default one would print every tensor
        shape = "x".join(map(str, self.activation.shape))
        return f"<LayerContext of {self.layer!r}, activation {shape}, {self.position}>"


@dataclass(frozen=True, eq=False, repr=False)
class WeightContext:
    """One parameter of a layer at the end of a captured batch. Its tensors are live: read, never write.

    Attributes:
        weight: the parameter, after the optimizer's step.
        gradient: as the optimizer used it, without the scale of a `GradScaler`; None where no backward
            reached it.
        optimizer_state: its entries, read only; empty without an optimizer at `start`, or before its first
            step.
        hyperparams: the numeric settings of its group (`lr`, `momentum`, …); True and False are 1.0 and 0.0.
        layer: the layer that it belongs to.
        parameter: its name, as in `model.named_parameters()`.
        module: the layer's module, None for functional ops.
        position: the batch.
    """

    weight: torch.Tensor
    gradient: torch.Tensor | None = None
    optimizer_state: State = field(default_factory=dict)
    hyperparams: Mapping[str, float] = field(default_factory=dict)
    layer: str = ""
    parameter: str = ""
    module: nn.Module | None = None
    position: BatchPosition = NOWHERE

    def __repr__(self) -> str:
        return f"<WeightContext of {self.parameter!r}, {self.position}>"
