"""What one captured batch looked like; immutable, on the CPU, safe to read from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from nansense_widgets.run.position import BatchPosition

__all__ = [
    "BatchSnapshot",
    "Cost",
    "LayerCall",
    "LeafValue",
    "ParameterInfo",
    "ParameterOptimizer",
    "Setting",
]

Setting = float | tuple[float, ...]
"""Of an optimizer's group; a bool stays one."""


@dataclass(frozen=True)
class LeafValue:
    """One output tensor of one call of a layer, and the gradient of the loss with respect to it.

    Several `backward` calls in one batch add up. Passes of `torch.autograd.grad` (a gradient penalty) are
    counted only where no `backward` reached the value.

    Attributes:
        path: continues the layer's name (`""`, `[1][0]`, `.logits`).
        activation: a copy from the moment when the value existed; later ops in place do not show in it.
        activation_reason: why `activation` is None, else empty.
        activation_note: what else to know of it, e.g. that it was formed beside the forward; else empty.
        gradient: in the shape of the activation, and its dtype; float32 where a half-precision one was
            divided by the scale of a `GradScaler`.
        gradient_reason: why `gradient` is None, else empty.
        gradient_note: what else to know of it, e.g. `sum of 2 passes`; else empty.
        part: what was kept of a tensor above 64 MiB, e.g. `first 8 of 32 samples`; else empty.
    """

    path: str
    activation: torch.Tensor | None
    activation_reason: str
    gradient: torch.Tensor | None
    gradient_reason: str
    activation_note: str = ""
    gradient_note: str = ""
    part: str = ""


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer in the batch; calls count from 1."""

    call: int
    leaves: tuple[LeafValue, ...]


@dataclass(frozen=True)
class ParameterOptimizer:
    """What one optimizer of the session holds for a parameter.

    Attributes:
        label: its class and, if there are several, which of them, from 1: `Adam`, `SGD 2`.
        optimizer: its index among those that `start` was given.
        group: index of the group that has the parameter.
        settings: hyperparameters of the group that are numbers, bools or a few numbers (Adam's `betas`).
        state: state key to tensor; scalar entries (Adam's `step`) are 0-dim.
    """

    label: str
    optimizer: int
    group: int
    settings: Mapping[str, Setting] = field(default_factory=dict)
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class ParameterInfo:
    """What else is known of a parameter.

    Attributes:
        names: all its names, if it is tied and has several; else empty.
        trainable: its `requires_grad`.
        optimizers: the session's optimizers that have it; empty if none does.
    """

    names: tuple[str, ...] = ()
    trainable: bool = True
    optimizers: tuple[ParameterOptimizer, ...] = ()


@dataclass(frozen=True)
class Cost:
    """What a snapshot cost.

    Attributes:
        layers: watched layers that gave values.
        bytes: size of all tensors of the snapshot.
        seconds: spent on the training thread before and after the batch; the copies that hooks make during
            forward and backward are not in it.
    """

    layers: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class BatchSnapshot:
    """Immutable view of one batch; every tensor is an independent copy on the CPU.

    Activations and their gradients have the shape and dtype of the layer's output. Weights, their gradients
    and tensors of optimizer state have those of the parameter or state entry. Do not write to them: the
    widgets draw the same tensors.

    Attributes:
        position: where the batch sat in the run.
        number: counts the snapshots of a session, from 0.
        layers: all calls (up to 64) and output tensors of each watched layer that ran.
        weights: values at the end of the batch, so after `optimizer.step()`, by parameter name as in
            `model.named_parameters()`.
        weight_gradients: by parameter name. Those that a torch optimizer used (after clipping, before a
            later `zero_grad`); where none stepped, as backward accumulated them. Without the scale of a
            `GradScaler`. A gradient left over from an earlier batch is not among them.
        weight_updates: what the optimizer steps of this batch did: value after minus value before, added up
            over the steps; float32 for narrower floats. Of parameters of watched layers only.
        weight_update_reasons: by parameter name, why there is none or not all of it, e.g.
            `no update: no optimizer stepped with it in this batch`.
        buffers: values at the end of the batch by buffer name, e.g. BatchNorm's `running_mean`.
        buffer_reasons: the same as `weight_reasons`, for buffers.
        parameters: parameter name to what else is known: other names, optimizers, whether it is trained.
        tied: each further name of a tied parameter or buffer to the one that it stands under here.
        weight_reasons: by parameter name, why its value is not here or not all of it, e.g.
            `uninitialised until its first forward`, `first 512 of 30000 rows`.
        weight_gradient_reasons: the same for gradients, e.g. `frozen: requires_grad is False`.
        optimizer_state: parameter name to state key to tensor; scalar entries (Adam's `step`) are 0-dim.
        optimizer_hyperparams: parameter name to the numeric settings of its group (`lr`, `momentum`, …);
            True and False are 1.0 and 0.0.
        custom_activations: layer to instrument to what a layer-tensor instrument gave, in the shape of
            the layer's output in `activations`.
        custom_activation_reasons: layer to instrument to why there is none, or not all of it.
        custom_weight_tensors: parameter to instrument to what a weight-tensor instrument gave, of its shape.
        custom_weight_reasons: parameter to instrument to why there is none, or not all of it.
        weights_part: empty if all parameters are here. In a model of more than 32 MiB of parameters only
            those that belong to watched layers directly are copied, and this says so.
        complete: False if the loop broke off or raised inside the batch.
        watched: the layers that were watched in this batch.
        missing: layer name to why it has no values here, or not of all calls.
        notes: what else happened in the batch, e.g. a step that a `GradScaler` skipped.
        cost: what taking the snapshot cost.
    """

    position: BatchPosition
    number: int = 0
    layers: Mapping[str, tuple[LayerCall, ...]] = field(default_factory=dict)
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_gradients: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_reasons: Mapping[str, str] = field(default_factory=dict)
    weight_gradient_reasons: Mapping[str, str] = field(default_factory=dict)
    optimizer_state: Mapping[str, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    optimizer_hyperparams: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    custom_activations: Mapping[str, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    custom_activation_reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    custom_weight_tensors: Mapping[str, Mapping[str, torch.Tensor]] = field(default_factory=dict)
    custom_weight_reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    weight_updates: Mapping[str, torch.Tensor] = field(default_factory=dict)
    weight_update_reasons: Mapping[str, str] = field(default_factory=dict)
    buffers: Mapping[str, torch.Tensor] = field(default_factory=dict)
    buffer_reasons: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, ParameterInfo] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    weights_part: str = ""
    complete: bool = True
    watched: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cost: Cost = Cost(0, 0, 0.0)

    @property
    def activations(self) -> dict[str, torch.Tensor]:
        """Layer name to its output: the first tensor of its first call. `layers` has the others.

        Layers without values are left out; `missing` and `layers` say why.
        """
        return {name: leaf.activation for name, leaf in self._first() if leaf.activation is not None}

    @property
    def activation_gradients(self) -> dict[str, torch.Tensor]:
        """Layer name to the gradient of the loss with respect to the tensor in `activations`."""
        return {name: leaf.gradient for name, leaf in self._first() if leaf.gradient is not None}

    def __repr__(self) -> str:  # the default one would print every tensor
        part = "" if self.complete else ", broken off"
        return (
            f"<BatchSnapshot {self.number} of {self.position}{part}: {len(self.layers)} layers, "
            f"{len(self.weights)} weights, {self.cost.bytes / 1e6:.1f} MB>"
        )

    def _first(self) -> list[tuple[str, LeafValue]]:
        firsts = ((name, calls[0].leaves) for name, calls in self.layers.items() if calls)
        return [(name, leaves[0]) for name, leaves in firsts if leaves]
