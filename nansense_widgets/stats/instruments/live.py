"""The live tensors of one batch, kept for the instruments until its end."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.values import unreadable, unscale
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.instruments.context import LayerContext, WeightContext
from nansense_widgets.stats.instruments.held import Held, Rewritten, is_freed

__all__ = ["LiveBatch", "LiveLayer", "ModelParts"]

EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class ModelParts:
    """What instruments are told of the model, beside the values of the batch.

    Attributes:
        owned: layer to the names of its own parameters.
        parameters: those by name.
        optimizers: of the session.
        module: the module of a layer, None for others.
    """

    owned: Mapping[str, Sequence[str]]
    parameters: Mapping[str, torch.Tensor]
    optimizers: Sequence[Optimizer]
    module: Callable[[str], nn.Module | None]


class LiveLayer:
    """The first output of the first call of a layer."""

    __slots__ = ("_rewritten", "activation", "calls", "gradient", "layer", "listens", "lost")

    def __init__(self, layer: str, tensor: torch.Tensor, rewritten: Rewritten) -> None:
        self.layer = layer
        self.calls = 1
        self.listens = False
        self.activation = Held(tensor, ("activation", layer), rewritten)
        self.gradient: Held | None = None
        self.lost = False
        """Whether the gradient of an earlier pass was rewritten before the next one came."""
        self._rewritten = rewritten

    def add_gradient(self, gradient: torch.Tensor) -> None:
        """Hold a gradient that flows through the value; several passes add up."""
        key = ("gradient", self.layer)
        if self.gradient is not None:
            before = self.gradient.value(key, self._rewritten)
            if before is None:
                self.lost = True
                return
            gradient = before + gradient
        self.gradient = Held(gradient, key, self._rewritten)


class LiveBatch:
    """Nothing in it outlives its batch. Called under `unobserved`, on the training thread."""

    def __init__(self, parts: ModelParts, rewritten: Rewritten, position: BatchPosition) -> None:
        self.lost: dict[str, str] = {}
        """Layer to what of it was rewritten before it was read."""
        self.lost_weights: set[str] = set()
        """Parameters whose gradient was."""
        self._parts = parts
        self._rewritten = rewritten
        self._position = position
        self._layers: dict[str, LiveLayer] = {}
        self._used: dict[str, Held] = {}
        self._before = {
            name: _Seen(gradient)
            for name, parameter in parts.parameters.items()
            if (gradient := _gradient(parameter)) is not None
        }
        rewritten.begin()

    # ------------------------------------------------------------ as the batch goes on

    def take(self, layer: str, tensor: torch.Tensor, *, listens: bool, again: bool) -> LiveLayer | None:
        """An output of a layer; gives who wants to know its gradient, if anybody does."""
        live = self._layers.get(layer)
        if live is None:
            if again:
                return None
            live = self._layers[layer] = LiveLayer(layer, tensor, self._rewritten)
        elif not again:
            live.calls += 1
            return None
        elif live.listens or live.calls > 1:  # nothing says which call is computed anew
            return None
        live.listens = listens
        return live if listens else None

    def uses(self, named: Iterable[tuple[str, torch.Tensor]], optimizer: Optimizer) -> None:
        """An optimizer is about to use the gradients of these parameters."""
        # A fused optimizer is given the scale of a GradScaler and divides by it in its own step.
        scale = getattr(optimizer, "grad_scale", None)
        for name, parameter in named:
            gradient = _gradient(parameter)
            if gradient is not None:
                plain = gradient if scale is None else unscale(gradient, scale)
                self._used[name] = Held(plain, ("weight gradient", name), self._rewritten)

    def left_out(self, named: Iterable[tuple[str, torch.Tensor]], optimizer: Optimizer) -> None:
        """A `GradScaler` has been asked to step; it may have left the step out."""
        self.uses([(name, parameter) for name, parameter in named if name not in self._used], optimizer)

    def let_go(self) -> None:
        """The batch is over."""
        self._layers.clear()
        self._used.clear()
        self._before.clear()

    # ------------------------------------------------------------ at its end

    def layers(self) -> list[LayerContext]:
        """All layers that ran. Those of which something was lost are left out, and are in `lost`."""
        states = self._states()
        found = []
        for layer, live in self._layers.items():
            context = self._layer(layer, live, states)
            if context is not None:
                found.append(context)
        return found

    def weights(self) -> list[WeightContext]:
        """All parameters of all layers, each once; in `lost_weights` are those whose gradient was lost."""
        states = self._states()
        found: dict[str, WeightContext] = {}
        for layer, names in self._parts.owned.items():
            for name in names:
                parameter = self._parts.parameters.get(name)
                if parameter is None or name in found or unreadable(parameter):
                    continue
                gradients: dict[str, torch.Tensor] = {}
                if not self._add_gradient(gradients, name, parameter):
                    self.lost_weights.add(name)
                    continue
                state, settings = states.get(id(parameter), (EMPTY, EMPTY))
                found[name] = WeightContext(
                    parameter,
                    gradients.get(name),
                    state,
                    _numeric(settings),
                    layer,
                    name,
                    self._parts.module(layer),
                    self._position,
                )
        return list(found.values())

    def _layer(self, layer: str, live: LiveLayer, states: Mapping[int, Any]) -> LayerContext | None:
        activation = live.activation.value(("activation", layer), self._rewritten)
        gradient = None
        if live.gradient is not None:
            gradient = live.gradient.value(("gradient", layer), self._rewritten)
            live.lost = live.lost or gradient is None
        if activation is None or live.lost:
            self.lost[layer] = "its output" if activation is None else "its gradient"
            return None
        names = self._parts.owned.get(layer, ())
        if not names:
            return LayerContext(
                activation, gradient, EMPTY, EMPTY, EMPTY, self._parts.module(layer), layer, self._position
            )
        weights: dict[str, torch.Tensor] = {}
        gradients: dict[str, torch.Tensor] = {}
        state: dict[str, Mapping[str, Any]] = {}
        for name in names:
            parameter = self._parts.parameters.get(name)
            if parameter is None or is_freed(parameter):
                continue
            weights[name] = parameter
            if not self._add_gradient(gradients, name, parameter):
                self.lost[layer] = "the gradient of its weights"
                return None
            known = states.get(id(parameter))
            if known is not None:
                state[name] = known[0]
        return LayerContext(
            activation, gradient, weights, gradients, state, self._parts.module(layer), layer, self._position
        )

    def _add_gradient(self, into: dict[str, torch.Tensor], name: str, parameter: torch.Tensor) -> bool:
        """Put the gradient of a parameter there, if this batch has one; False if it was lost."""
        used = self._used.get(name)
        if used is not None:
            gradient = used.value(("weight gradient", name), self._rewritten)
            if gradient is None:
                return False
            into[name] = gradient
            return True
        now = _gradient(parameter)
        before = self._before.get(name)
        # What this batch did not touch is an earlier one's.
        if now is not None and (before is None or not before.is_same(now)) and not is_freed(now):
            into[name] = now
        return True

    def _states(self) -> dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """By identity of a parameter: its optimizer's entries, and the settings of its group."""
        found: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        for optimizer in self._parts.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    held = optimizer.state.get(parameter)
                    state = MappingProxyType(held) if isinstance(held, dict) else EMPTY
                    found[id(parameter)] = (state, group)
        return found


def _gradient(parameter: torch.Tensor) -> torch.Tensor | None:
    return parameter.grad if parameter.is_leaf else None  # of others torch warns


class _Seen:
    """Which gradient a parameter had, and in which version, without keeping it alive."""

    __slots__ = ("_gradient", "_version")

    def __init__(self, gradient: torch.Tensor) -> None:
        self._gradient = weakref.ref(gradient)
        self._version = 0 if gradient.is_inference() else gradient._version

    def is_same(self, gradient: torch.Tensor) -> bool:
        version = 0 if gradient.is_inference() else gradient._version
        return self._gradient() is gradient and version == self._version


def _numeric(group: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for key, value in group.items():
        if isinstance(value, (bool, int, float)):
            found[key] = float(value)
        elif isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_meta:
            found[key] = float(value.detach())
    return found
