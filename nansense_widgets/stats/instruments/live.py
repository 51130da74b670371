"""The live tensors of one batch, kept for the instruments until its end."""

from __future__ import annotations

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
from nansense_widgets.stats.instruments.held import Held, NotHeld, Rewritten, Seen, gradient_of, is_freed

__all__ = ["FIELDS", "LiveBatch", "LiveLayer", "ModelParts"]

FIELDS = frozenset({"activation", "gradient", "weight_gradients"})
"""Of a `LayerContext`: what has to be held for it while the batch runs."""

EMPTY: Mapping[str, Any] = MappingProxyType({})

NEW = "had not been read by an instrument before and was not held; from then on it is"
REWRITTEN = "was rewritten in place before it was read; from then on copies are kept"


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

    def __init__(self, layer: str, rewritten: Rewritten) -> None:
        self.layer = layer
        self.calls = 1
        self.listens = False
        self.activation: Held | None = None
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
    """Nothing in it outlives its batch. Called under `unobserved`, on the training thread.

    Args:
        wants: those of `FIELDS` that are to be held.
    """

    def __init__(
        self, parts: ModelParts, rewritten: Rewritten, position: BatchPosition, wants: frozenset[str]
    ) -> None:
        self.position = position
        self.reads: set[str] = set()
        """Fields that have been read since somebody put another set here."""
        self._parts = parts
        self._rewritten = rewritten
        self._wants = wants
        self._layers: dict[str, LiveLayer] = {}
        self._used: dict[str, Held] = {}
        self._before: dict[str, Seen] = {}
        self._states: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] | None = None
        self._over = False
        rewritten.begin(position.phase)
        if "weight_gradients" in wants:
            found = ((name, gradient_of(parameter)) for name, parameter in parts.parameters.items())
            self._before = {name: Seen(gradient) for name, gradient in found if gradient is not None}

    # ------------------------------------------------------------ as the batch goes on

    def take(self, layer: str, tensor: torch.Tensor, *, listens: bool, again: bool) -> LiveLayer | None:
        """An output of a layer; gives who wants to know its gradient, if anybody does."""
        live = self._layers.get(layer)
        if live is None:
            if again:
                return None
            live = self._layers[layer] = LiveLayer(layer, self._rewritten)
            if "activation" in self._wants:
                live.activation = Held(tensor, ("activation", layer), self._rewritten)
        elif not again:
            live.calls += 1
            return None
        elif live.listens or live.calls > 1:  # nothing says which call is computed anew
            return None
        live.listens = listens
        return live if listens and "gradient" in self._wants else None

    def uses(self, named: Iterable[tuple[str, torch.Tensor]], optimizer: Optimizer) -> None:
        """An optimizer is about to use the gradients of these parameters."""
        if "weight_gradients" not in self._wants:
            return
        # A fused optimizer is given the scale of a GradScaler and divides by it in its own step.
        scale = getattr(optimizer, "grad_scale", None)
        for name, parameter in named:
            gradient = gradient_of(parameter)
            if gradient is not None:
                plain = gradient if scale is None else unscale(gradient, scale)
                self._used[name] = Held(plain, ("weight gradient", name), self._rewritten)

    def left_out(self, named: Iterable[tuple[str, torch.Tensor]], optimizer: Optimizer) -> None:
        """A `GradScaler` has been asked to step; it may have left the step out."""
        self.uses([(name, parameter) for name, parameter in named if name not in self._used], optimizer)

    def let_go(self) -> None:
        """The batch is over, also for contexts that somebody has kept."""
        self._over = True
        for live in self._layers.values():
            live.activation = live.gradient = None
        self._layers.clear()
        self._used.clear()
        self._before.clear()
        self._states = None

    # ------------------------------------------------------------ at its end

    def layers(self) -> list[LayerContext]:
        """All layers that ran, in the order in which they did."""
        return [LiveContext(self, live) for live in self._layers.values()]

    def weights(self) -> tuple[list[WeightContext], set[str]]:
        """All parameters of all layers, each once; and the names of those whose gradient was rewritten."""
        found: dict[str, WeightContext] = {}
        lost = set()
        for layer, names in self._parts.owned.items():
            for name in names:
                parameter = self._parts.parameters.get(name)
                if parameter is None or name in found or unreadable(parameter):
                    continue
                try:
                    gradient = self._weight_gradient(name, parameter)
                except NotHeld:
                    lost.add(name)
                    continue
                state, settings = self._state(parameter) or (EMPTY, EMPTY)
                module = self._parts.module(layer)
                found[name] = WeightContext(
                    parameter, gradient, state, _numeric(settings), layer, name, module, self.position
                )
        return list(found.values()), lost

    def module(self, layer: str) -> nn.Module | None:
        """The module of a layer."""
        return self._parts.module(layer)

    def read(self, live: LiveLayer, field: str) -> Any:
        """One field of a layer's context; raises `NotHeld` for what is not there any more."""
        if self._over:
            raise RuntimeError("the batch of this context is over: keep numbers or copies, not the context")
        if field == "activation":
            return self._activation(live)
        if field == "gradient":
            return self._gradient(live)
        names = self._parts.owned.get(live.layer, ())
        known = ((name, self._parts.parameters.get(name)) for name in names)
        weights = {name: weight for name, weight in known if weight is not None and not is_freed(weight)}
        if field == "weights":
            return weights
        if field == "weight_gradients":
            if "weight_gradients" not in self._wants:
                raise NotHeld(f"the gradient of its weights {NEW}")
            gradients = {name: self._weight_gradient(name, weight) for name, weight in weights.items()}
            return {name: gradient for name, gradient in gradients.items() if gradient is not None}
        states = {name: self._state(weight) for name, weight in weights.items()}
        return {name: state[0] for name, state in states.items() if state is not None}

    def _activation(self, live: LiveLayer) -> torch.Tensor:
        if live.activation is None:
            raise NotHeld(f"its output {NEW}")
        value = live.activation.value(("activation", live.layer), self._rewritten)
        if value is None:
            raise NotHeld(f"its output {REWRITTEN}")
        return value

    def _gradient(self, live: LiveLayer) -> torch.Tensor | None:
        if live.listens and "gradient" not in self._wants:
            raise NotHeld(f"its gradient {NEW}")
        held = live.gradient
        value = None if held is None else held.value(("gradient", live.layer), self._rewritten)
        if live.lost or (held is not None and value is None):
            raise NotHeld(f"its gradient {REWRITTEN}")
        return value

    def _weight_gradient(self, name: str, parameter: torch.Tensor) -> torch.Tensor | None:
        used = self._used.get(name)
        if used is not None:
            gradient = used.value(("weight gradient", name), self._rewritten)
            if gradient is None:
                raise NotHeld(f"the gradient of its weights {REWRITTEN}")
            return gradient
        now = gradient_of(parameter)
        before = self._before.get(name)
        # What this batch did not touch is an earlier one's.
        touched = now is not None and (before is None or not before.is_same(now))
        return now if touched and now is not None and not is_freed(now) else None

    def _state(self, parameter: torch.Tensor) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """Its optimizer's entries, and the settings of its group."""
        if self._states is None:
            self._states = {}
            for optimizer in self._parts.optimizers:
                for group in optimizer.param_groups:
                    for one in group["params"]:
                        held = optimizer.state.get(one)
                        entries = MappingProxyType(held) if isinstance(held, dict) else EMPTY
                        self._states[id(one)] = (entries, group)
        return self._states.get(id(parameter))


class LiveContext(LayerContext):
    """A context whose tensors are looked up when they are read, so that what nobody reads costs nothing."""

    def __init__(self, batch: LiveBatch, live: LiveLayer) -> None:
        held = self.__dict__
        held["layer"], held["position"], held["module"] = live.layer, batch.position, batch.module(live.layer)
        held["_batch"], held["_live"] = batch, live


def _lazy(field: str) -> property:
    key = f"_{field}"

    def read(context: LayerContext) -> Any:
        held = context.__dict__
        batch: LiveBatch = held["_batch"]
        batch.reads.add(field)
        if key not in held:
            held[key] = batch.read(held["_live"], field)
        return held[key]

    return property(read)


LiveContext.__name__ = LayerContext.__name__  # an error in the user's function is to name what he knows

for _field in ("activation", "gradient", "weights", "weight_gradients", "optimizer_state"):
    setattr(LiveContext, _field, _lazy(_field))


def _numeric(group: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for key, value in group.items():
        if isinstance(value, (bool, int, float)):
            found[key] = float(value)
        elif isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_meta:
            found[key] = float(value.detach())
    return found
