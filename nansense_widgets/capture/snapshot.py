"""What one captured batch looked like; immutable, on the CPU, safe to read from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from nansense_widgets.run.position import BatchPosition

__all__ = ["BatchSnapshot", "Cost", "LayerCall", "LeafValue"]


@dataclass(frozen=True)
class LeafValue:
    """One output tensor of one call of a layer, and the gradient of the loss with respect to it.

    `path` continues the layer's name (`""`, `[1][0]`, `.logits`). Where a tensor is None its `…_reason`
    says why. `part` says what was left out of a very large tensor, else it is empty.
    """

    path: str
    activation: torch.Tensor | None
    activation_reason: str
    gradient: torch.Tensor | None
    gradient_reason: str
    part: str = ""


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer in the batch; calls count from 1."""

    call: int
    leaves: tuple[LeafValue, ...]


@dataclass(frozen=True)
class Cost:
    """What a snapshot cost: layers and bytes copied, and seconds spent on the training thread."""

    layers: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class BatchSnapshot:
    """Immutable view of one batch; every tensor is an independent copy on the CPU.

    Attributes:
        position: where the batch sat in the run.
        number: counts the snapshots of a session, from 0.
        layers: all calls and output tensors of each watched layer that ran.
        weights, weight_gradients: by parameter name, as in `model.named_parameters()`. Gradients are those
            the optimizer used (after clipping, before `zero_grad`). For models of more than
            32 MiB of parameters only the watched layers' ones are copied; `weights_part` then says so.
        optimizer_state: parameter name to state key to tensor; scalar entries (Adam's `step`) are 0-dim.
        optimizer_hyperparams: parameter name to the numeric settings of its group (`lr`, `momentum`, …).
        custom_activations, custom_weight_tensors: what tensor instruments gave.
        complete: False if the loop broke off or raised inside the batch.
        watched: the layers that were watched in this batch.
        missing: why a watched layer has no values here.
        cost: what taking the snapshot cost.
    """

    position: BatchPosition
    number: int = 0
    layers: Mapping[str, tuple[LayerCall, ...]] = field(default_factory=dict)
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)
    optimizer_state: Mapping[str, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    optimizer_hyperparams: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    custom_activations: Mapping[str, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    custom_weight_tensors: Mapping[str, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    weights_part: str = ""
    complete: bool = True
    watched: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    cost: Cost = Cost(0, 0, 0.0)

    @property
    def activations(self) -> dict[str, torch.Tensor]:
        """Layer name to its output: the first tensor of its first call. `layers` has the others."""
        return {name: leaf.activation for name, leaf in self._first() if leaf.activation is not None}

    @property
    def activation_gradients(self) -> dict[str, torch.Tensor]:
        """Layer name to the gradient of the loss with respect to the tensor in `activations`."""
        return {name: leaf.gradient for name, leaf in self._first() if leaf.gradient is not None}

    def _first(self) -> list[tuple[str, LeafValue]]:
        firsts = ((name, calls[0].leaves) for name, calls in self.layers.items() if calls)
        return [(name, leaves[0]) for name, leaves in firsts if leaves]
