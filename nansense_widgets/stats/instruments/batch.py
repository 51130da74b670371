"""The instruments of one batch: what they need is held while it runs, and they are evaluated at its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import torch
from torch.optim import Optimizer

from nansense_widgets.capture.custom import CustomTensors
from nansense_widgets.capture.values import Budget, keep, to_cpu, unobserved
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.instruments.context import LayerContext, WeightContext
from nansense_widgets.stats.instruments.guard import undisturbed
from nansense_widgets.stats.instruments.held import NotHeld, Rewritten
from nansense_widgets.stats.instruments.live import FIELDS, REWRITTEN, LiveBatch, LiveLayer, ModelParts
from nansense_widgets.stats.instruments.registry import Instrument, Registry, described
from nansense_widgets.stats.instruments.store import MetricStore

__all__ = ["InstrumentBatch"]

Context = TypeVar("Context", LayerContext, WeightContext)


class InstrumentBatch:
    """Made for each batch that statistics are collected for; holds nothing until `install` finds work.

    Args:
        notes: layer to batches that were left out, and why.
    """

    def __init__(
        self,
        registry: Registry,
        store: MetricStore,
        rewritten: Rewritten,
        notes: dict[str, str],
        parts: ModelParts,
        position: BatchPosition,
    ) -> None:
        self._registry = registry
        self._store = store
        self._rewritten = rewritten
        self._notes = notes
        self._parts = parts
        self._position = position
        self._captured = False
        self._live: LiveBatch | None = None
        self._layers: list[LayerContext] | None = None

    def install(self, *, captured: bool) -> bool:
        """Begin to hold values; False if no instrument is evaluated in this batch."""
        active = self._registry.active
        metrics = active("metric")
        tensors = captured and (active("layer tensor") or active("weight tensor"))
        if not (metrics or tensors):
            return False
        self._captured = captured
        # Whatever is held cannot be freed in the backward already: of what nobody reads nothing is held.
        wants = FIELDS if tensors else frozenset[str]()
        for metric in metrics:
            wants |= metric.may_read(self._position.phase, FIELDS)
        with unobserved():
            self._live = LiveBatch(self._parts, self._rewritten, self._position, wants)
        return True

    def take(self, layer: str, tensor: torch.Tensor, *, listens: bool, again: bool) -> LiveLayer | None:
        """An output of a layer, under `unobserved`; gives who wants to know its gradient."""
        return None if self._live is None else self._live.take(layer, tensor, listens=listens, again=again)

    def uses(self, named: Iterable[tuple[str, torch.Tensor]], optimizer: Optimizer) -> None:
        """An optimizer is about to use these parameters' gradients."""
        if self._live is not None:
            self._live.uses(named, optimizer)

    def left_out(self, named: Iterable[tuple[str, torch.Tensor]], optimizer: Optimizer) -> None:
        """A `GradScaler` was asked to step."""
        if self._live is not None:
            self._live.left_out(named, optimizer)

    def finish(self) -> None:
        """Evaluate the metrics (training thread)."""
        try:
            self._metrics()
        except Exception as error:  # of ours: those of the user's functions are theirs
            self._notes[""] = f"metrics not evaluated in {self._position}: {described(error)}"

    def _metrics(self) -> None:
        metrics = self._registry.active("metric")
        if not metrics or self._live is None:
            return
        position = self._position
        with undisturbed() as guard:
            contexts = self._contexts(self._live)
            for metric in metrics:
                guard.reset()
                self._evaluate(metric, contexts, self._live)
        settles = self._captured or position.is_last_in_phase
        if settles and any(callable(metric.reduce) for metric in metrics):
            with undisturbed() as guard:
                for metric in self._registry.active("metric"):
                    guard.reset()
                    try:
                        self._store.settle(metric)
                    except KeyboardInterrupt:
                        raise
                    except BaseException as error:
                        self._registry.fail(metric, f"{described(error)} (in reduce; {position})")

    def tensors(self, budget: Budget) -> CustomTensors:
        """Evaluate the tensor instruments of a captured batch (training thread)."""
        found = CustomTensors()
        try:
            self._tensors(found, budget)
        except Exception as error:
            self._notes[""] = f"tensors not evaluated in {self._position}: {described(error)}"
        return found

    def _tensors(self, found: CustomTensors, budget: Budget) -> None:
        of_layers, of_weights = (self._registry.of_kind(kind) for kind in ("layer tensor", "weight tensor"))
        if self._live is None or not (of_layers or of_weights):
            return
        self._live.reads = set()
        with undisturbed() as guard:
            if of_layers:
                contexts = self._contexts(self._live)
                for one in of_layers:
                    guard.reset()
                    for context in contexts:
                        tensor, why = self._tensor(one, context, context.layer, "activation", budget)
                        place = (context.layer, one.name)
                        _put(found.activations, found.activation_reasons, place, tensor, why)
            if of_weights:
                parameters, lost = self._live.weights()
                for one in of_weights:
                    guard.reset()
                    for name in lost:
                        why = f"not evaluated: its gradient {REWRITTEN}"
                        _put(found.weights, found.weight_reasons, (name, one.name), None, why)
                    for parameter in parameters:
                        name = parameter.parameter
                        tensor, why = self._tensor(one, parameter, name, "weight", budget)
                        _put(found.weights, found.weight_reasons, (name, one.name), tensor, why)

    def let_go(self) -> None:
        """The batch is over."""
        self._layers = None
        live, self._live = self._live, None
        if live is not None:
            live.let_go()

    def _contexts(self, live: LiveBatch) -> list[LayerContext]:
        if self._layers is None:
            self._layers = live.layers()
        return self._layers

    def _evaluate(self, metric: Instrument, contexts: list[LayerContext], live: LiveBatch) -> None:
        function, position, store = metric.function, self._position, self._store
        store.define(metric)
        live.reads = metric.reads
        if contexts:
            metric.batches[position.phase] += 1
        layer = ""
        try:
            for context in contexts:
                layer = context.layer
                try:
                    value = function(context)
                except NotHeld as why:
                    self._notes[layer] = f"{metric.name} left out {position}: {why}"
                    continue
                if value is not None:
                    store.add(metric, layer, position, value)
        except KeyboardInterrupt:  # somebody wants the run to end
            raise
        except BaseException as error:  # whatever it is, training goes on
            self._registry.fail(metric, f"{described(error)} (layer {layer}; {position})")

    def _tensor(
        self, one: Instrument, context: Context, name: str, like: str, budget: Budget
    ) -> tuple[torch.Tensor | None, str]:
        if off := self._registry.error(one):
            return None, f"not evaluated: {one.name} is off: {off}"
        try:
            value = one.function(context)
            if value is None:
                return None, "not evaluated: the instrument returned None"
            _check(value, getattr(context, like))
            kept = to_cpu(keep(value, budget))
            return kept.tensor, kept.reason or kept.part
        except KeyboardInterrupt:
            raise
        except NotHeld as why_not:
            return None, f"not evaluated: {why_not}"
        except BaseException as error:
            why = described(error)
            self._registry.fail(one, f"{why} ({name}; {self._position})")
            return None, f"not evaluated: {one.name} is off: {why}"


def _check(value: object, like: torch.Tensor) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"a tensor of shape {tuple(like.shape)} was expected, not a {type(value).__name__}")
    if value.shape != like.shape:
        raise ValueError(f"a tensor of shape {tuple(like.shape)} was expected, not {tuple(value.shape)}")
    if value.layout is not torch.strided:
        raise ValueError(f"a dense tensor was expected, not {value.layout}")


def _put(
    tensors: dict[str, dict[str, torch.Tensor]],
    reasons: dict[str, dict[str, str]],
    place: tuple[str, str],
    tensor: torch.Tensor | None,
    why: str,
) -> None:
    of, name = place
    if tensor is not None:
        tensors.setdefault(of, {})[name] = tensor
    if why:
        reasons.setdefault(of, {})[name] = why
