"""What is installed for one batch, from its begin to its end."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.builder import ArchitectureBuilder
from nansense_widgets.capture.collect import Collector
from nansense_widgets.capture.compiled import EagerRun, may_be_compiled
from nansense_widgets.capture.custom import CustomTensors
from nansense_widgets.capture.forward import ForwardWatch, RootListener
from nansense_widgets.capture.model_tensors import ModelTensors
from nansense_widgets.capture.parameters import ParameterWatch
from nansense_widgets.capture.passes import BackwardPasses
from nansense_widgets.capture.snapshot import BatchSnapshot, Cost, LayerCall
from nansense_widgets.capture.trace import Trace
from nansense_widgets.capture.values import Budget, Kept, size_of
from nansense_widgets.run.position import BatchPosition

__all__ = ["BatchCapture", "Fold", "FoldedBatch"]


class Fold(Protocol):
    """Statistics of one batch, as the capture feeds them."""

    @property
    def layers(self) -> frozenset[str]:
        """Layers whose values it wants."""

    is_captured: bool
    """Whether the batch is shown: it may tell what the axes of its layers are."""

    def install(self) -> None:
        """Begin to listen."""

    def remove(self) -> None:
        """Stop listening."""

    def take(self, layer: str, value: Any) -> None:
        """A value, at the moment it exists."""

    def recomputed(self, layer: str, value: Any) -> None:
        """A value that is computed a second time, in the backward."""

    def finish(self, architecture: Architecture) -> None:
        """The batch is over; this is what is known of the layers now."""

    def tensors(self, budget: Budget) -> CustomTensors:
        """The user's own tensors of a captured batch, for its snapshot; after `finish`."""


class _Takers:
    """Hands each value to the collector, the statistics, or both."""

    def __init__(self, collector: Collector | None, watched: Iterable[str], fold: Fold | None) -> None:
        self._collector = collector
        self._watched = frozenset(watched) if collector is not None else frozenset[str]()
        self._fold = fold
        self._folded = frozenset[str]() if fold is None else fold.layers

    @property
    def layers(self) -> frozenset[str]:
        return self._watched | self._folded

    def take(self, layer: str, call: int, value: Any) -> None:
        if self._fold is not None and layer in self._folded:
            self._fold.take(layer, value)
        if self._collector is not None and layer in self._watched:
            self._collector.take(layer, call, value)

    def add_maps(self, layer: str, call: int, maps: Kept) -> None:
        if self._collector is not None:
            self._collector.add_maps(layer, call, maps)

    def recomputed(self, layer: str, value: Any) -> None:
        if self._fold is not None and layer in self._folded:
            self._fold.recomputed(layer, value)
        if self._collector is not None and layer in self._watched:
            self._collector.recomputed(layer, value)


class FoldedBatch:
    """A batch that only goes into the statistics."""

    def __init__(self, builder: ArchitectureBuilder, fold: Fold) -> None:
        self._thread = threading.current_thread()
        self._fold = fold
        self.error = ""
        takers = _Takers(None, (), fold)
        self._forward = ForwardWatch(
            builder.index, builder.names, takers.layers, takers, frozenset(), None, self._failed
        )

    @property
    def is_mine(self) -> bool:
        """Whether this thread may take it down: it is the one that installed it, or that one is gone."""
        return self._thread is threading.current_thread() or not self._thread.is_alive()

    def install(self) -> None:
        self._forward.install()
        self._fold.install()

    def finish(self, architecture: Architecture) -> None:
        self._forward.remove()  # an instrument may call a module
        self._fold.finish(architecture)

    def remove(self) -> None:
        self._forward.remove()
        self._fold.remove()

    def _failed(self, error: Exception) -> None:
        self.error = f"no statistics of this batch: {type(error).__name__}: {error}"


class BatchCapture:
    """Everything installed for one batch."""

    def __init__(
        self,
        model: nn.Module,
        builder: ArchitectureBuilder,
        watched: tuple[str, ...],
        attention: tuple[str, ...],
        optimizers: Sequence[Optimizer],
        trace: Trace | None,
        fold: Fold | None,
        *,
        whole_model: bool = False,
        root: RootListener | None = None,
    ) -> None:
        self.trace = trace
        self._fold = fold
        self.seconds = 0.0
        self._thread = threading.current_thread()
        self._watched = watched
        self._builder = builder
        tensors = ModelTensors.chosen(model, watched, builder.architecture, whole=whole_model)
        self._weights_part = tensors.part
        budget = self._budget = Budget()
        self._parameters = ParameterWatch(tensors, optimizers, budget)
        self._collector = Collector(self._parameters.scaling, BackwardPasses(threading.get_ident()), budget)
        takers = _Takers(self._collector, watched, fold)
        self._forward = ForwardWatch(
            builder.index,
            builder.names,
            takers.layers,
            takers,
            frozenset(attention),
            trace,
            self._forward_failed,
            root,
        )
        self._forward_error = ""
        self._eager: EagerRun | None = None

    @property
    def is_mine(self) -> bool:
        """Whether this thread may take it down: it is the one that installed it, or that one is gone."""
        return self._thread is threading.current_thread() or not self._thread.is_alive()

    def install(self) -> None:
        self._forward.install()
        self._parameters.install()
        if self._fold is not None:
            self._fold.install()
        if may_be_compiled():
            self._eager = EagerRun()
            self._eager.enter()

    def remove(self) -> None:
        self._forward.remove()
        self._parameters.remove()
        if self._fold is not None:
            self._fold.remove()
        if self._eager is not None:
            self._eager.exit()
            self._eager = None

    def finish(self, position: BatchPosition, complete: bool, number: int, began: float) -> BatchSnapshot:
        self._forward.remove()
        if self._fold is not None:
            self._fold.finish(self._builder.architecture)
        layers, notes = self._collector.finish()
        parameters = self._parameters.finish()
        in_hooks = self._collector.seconds + self._parameters.seconds_in_hooks
        custom = CustomTensors() if self._fold is None else self._fold.tensors(self._budget)
        layers = {name: calls for name, calls in layers.items() if name in self._watched}
        for name in self._watched:
            if name not in layers and name not in notes:
                notes[name] = self._forward_error or self._why_missing(name)
        return BatchSnapshot(
            position=position,
            number=number,
            layers=layers,
            weights=parameters.weights,
            weight_gradients=parameters.gradients,
            weight_reasons=parameters.reasons,
            weight_gradient_reasons=parameters.gradient_reasons,
            custom_activations=custom.activations,
            custom_activation_reasons=custom.activation_reasons,
            custom_weight_tensors=custom.weights,
            custom_weight_reasons=custom.weight_reasons,
            weight_updates=parameters.updates,
            weight_update_reasons=parameters.update_reasons,
            buffers=parameters.buffers,
            buffer_reasons=parameters.buffer_reasons,
            parameters=parameters.info,
            tied=parameters.tied,
            optimizer_state=parameters.optimizers.state,
            optimizer_hyperparams=parameters.optimizers.settings,
            weights_part=self._weights_part,
            complete=complete,
            watched=self._watched,
            missing=notes,
            notes=tuple(self._parameters.notes()),
            cost=Cost(
                layers=len(layers),
                bytes=_bytes(
                    _tensors(layers),
                    parameters.weights.values(),
                    parameters.gradients.values(),
                    parameters.updates.values(),
                    parameters.buffers.values(),
                    *map(dict.values, parameters.optimizers.state.values()),
                    *map(dict.values, custom.activations.values()),
                    *map(dict.values, custom.weights.values()),
                ),
                seconds=in_hooks + self.seconds + time.perf_counter() - began,
            ),
        )

    def _why_missing(self, name: str) -> str:
        node = self._builder.architecture.nodes.get(name)
        is_input = name in self._builder.index.inputs if node is None else node.kind == "input"
        if is_input and not self._forward.root_called:
            return "not captured: the model itself was not called, only parts of it or its forward()"
        if node is None and is_input:
            return "not captured: this input was not given as a tensor"
        if node is None:
            return "not captured: no layer of this name has run yet"
        if node.note not in ("", "never ran") and not node.calls:
            return node.note
        if name in self._forward.elsewhere:
            return "not captured: it ran on another thread than the training loop's"
        if self._forward.saw_replica:
            return "not captured: DataParallel ran copies of it, on several devices at once"
        for scope in self._forward.fused:
            if name.startswith(f"{scope}."):
                return f"not executed (fused): {scope} computed it in one go with what is around it"
        if any(parameter in self._parameters.reached for parameter in node.parameters):
            return "not captured: its parameters got gradients, but it was not called as a module"
        if any(called.startswith(f"{name}.") for called in self._forward.called):
            return "not called as a module: what is inside it was called in another way"
        if not self._forward.saw_call:
            return "did not run in this batch: no module of the model was called"
        return "did not run in this batch" if node.ran else "never ran"

    def _forward_failed(self, error: Exception) -> None:
        self._forward_error = f"not captured: {type(error).__name__}: {error}"


def _tensors(layers: dict[str, tuple[LayerCall, ...]]) -> Iterator[torch.Tensor]:
    for calls in layers.values():
        for call in calls:
            for leaf in call.leaves:
                yield from (t for t in (leaf.activation, leaf.gradient) if t is not None)


def _bytes(*groups: Iterable[torch.Tensor]) -> int:
    return sum(map(size_of, itertools.chain(*groups)))
