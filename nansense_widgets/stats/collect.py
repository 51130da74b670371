"""Running statistics of a session: each batch's values fold into the bucket of its layer, phase and epoch."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.passes import BackwardPasses, grad_fn_of, gradient_edge, is_traced
from nansense_widgets.capture.scaling import LossScaling
from nansense_widgets.capture.values import TENSOR_BYTES, Budget, unobserved, unreadable, unscale
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.accumulate import Summary, TensorStats, summarise
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import LayerStatsSnapshot, WatchSnapshot
from nansense_widgets.stats.steps import ParameterBucket, StepWatch

__all__ = ["BatchFold", "StatsCollector"]

Key = tuple[str, str, int]
"""Layer, phase, epoch."""

WHOLE_EPOCHS = 2
"""Epochs of a phase, those begun last, whose histograms are kept; of others scalars and quantiles."""

PARTLY = "only captured batches: something in this process is compiled, and hooks cannot look into that"


class StatsCollector:
    """The buckets of a session. Folding happens on the training thread, reading on any."""

    def __init__(self) -> None:
        self.scope = StatsScope.NONE  # nothing shows them yet, and they cost time in every batch
        self.performance = WatchPerformance()
        self._buckets: dict[Key, _Bucket] = {}
        self._whole: dict[tuple[str, str], list[Key]] = {}
        self._parameters: dict[Key, ParameterBucket] = {}
        self._whole_parameters: dict[tuple[str, str], list[Key]] = {}
        self._owned: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def begin(
        self,
        position: BatchPosition,
        watched: Sequence[str],
        architecture: Architecture,
        parameter: Callable[[str], torch.Tensor],
        *,
        partly: bool,
    ) -> BatchFold | None:
        """What one batch folds into; None if nothing is collected.

        Args:
            position: of the batch.
            watched: watched layers.
            architecture: what is known of the model.
            parameter: gives the model's parameter of a name.
            partly: whether only captured batches come.
        """
        if self.scope is StatsScope.NONE:
            return None
        layers = frozenset(watched if self.scope is StatsScope.WATCHED else architecture.nodes)
        if not layers:
            return None
        scopes = frozenset(name for name, node in architecture.nodes.items() if node.is_scope)
        steps = StepWatch(
            self._parameters_of(layers, architecture, parameter),
            functools.partial(self.parameter_bucket, position),
            position,
        )
        return BatchFold(self, position, layers, scopes, architecture, steps, partly)

    def _parameters_of(
        self, layers: Iterable[str], architecture: Architecture, parameter: Callable[[str], torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for layer in layers:
            node = architecture.nodes.get(layer)
            if node is None or not node.parameters:
                continue
            self._owned[layer] = node.parameters
            for name in node.parameters:
                with suppress(AttributeError):  # the model has lost it
                    found[name] = parameter(name)
        return found

    def parameter_bucket(self, position: BatchPosition, name: str) -> ParameterBucket:
        """The bucket of a parameter in a batch."""
        key = (name, position.phase, position.epoch)
        bucket = self._parameters.get(key)
        if bucket is None:
            bucket = ParameterBucket()
            with self._lock:
                self._parameters[key] = bucket
                whole = self._whole_parameters.setdefault(key[:2], [])
                whole.append(key)
                if len(whole) > WHOLE_EPOCHS:
                    self._parameters[whole.pop(0)].shorten()
        return bucket

    def restart(self) -> None:
        """Another run begins: its epochs are not those of the last one."""
        with self._lock:
            self._buckets.clear()
            self._whole.clear()
            self._parameters.clear()
            self._whole_parameters.clear()

    def rewind_to_epoch(self, epoch: int) -> None:
        """Drop what was collected in this epoch and those after it: they will come again."""
        with self._lock:
            for buckets in (self._buckets, self._parameters):
                for key in [key for key in buckets if key[2] >= epoch]:
                    del buckets[key]
            for whole in (self._whole, self._whole_parameters):
                for name, keys in whole.items():
                    whole[name] = [key for key in keys if key[2] < epoch]

    def snapshot(self, layers: Collection[str] | None = None) -> WatchSnapshot:
        """All statistics as they are now, or those of some layers."""
        with self._lock:
            buckets = {key: b for key, b in self._buckets.items() if layers is None or key[0] in layers}
            owned = {name: of for name, of in self._owned.items() if layers is None or name in layers}
            wanted = {name for of in owned.values() for name in of}
            parameters = {key: bucket for key, bucket in self._parameters.items() if key[0] in wanted}
        stats = {key: bucket.snapshot(*key) for key, bucket in buckets.items()}
        of_parameters = {key: bucket.snapshot(*key) for key, bucket in parameters.items()}
        return WatchSnapshot(
            MappingProxyType(stats), MappingProxyType(of_parameters), MappingProxyType(owned)
        )

    def bucket(self, layer: str, position: BatchPosition, channel_axis: int | None) -> _Bucket:
        """The bucket of a layer in a batch, made when its first value comes."""
        key = (layer, position.phase, position.epoch)
        bucket = self._buckets.get(key)
        if bucket is None or bucket.is_collapsed:
            bucket = _Bucket(channel_axis, self.performance.channel_limit)
            with self._lock:
                self._buckets[key] = bucket
                self._keep_whole(key)
        return bucket

    def _keep_whole(self, key: Key) -> None:
        """Of a layer and phase the epochs begun last keep their histograms."""
        whole = self._whole.setdefault(key[:2], [])
        if key in whole:
            whole.remove(key)
        whole.append(key)
        while len(whole) > WHOLE_EPOCHS:
            self._buckets[whole.pop(0)].collapse()


class _Bucket:
    """Activations and gradients of one layer in one phase of one epoch."""

    def __init__(self, channel_axis: int | None, channel_limit: int) -> None:
        self._lock = threading.Lock()
        self._activations = TensorStats(channel_axis, channel_limit)
        self._gradients = TensorStats(channel_axis, channel_limit)
        self._batches = 0
        self._last_batch = -1
        self._note = ""
        self._collapsed: LayerStatsSnapshot | None = None

    def add(self, shared: _Shared, batch: int, *, gradient: bool) -> None:
        with self._lock:
            stats = self._gradients if gradient else self._activations
            for summary in shared.summaries(stats):
                stats.add(summary)
            if batch != self._last_batch:
                self._batches += 1
                self._last_batch = batch

    def note(self, why: str) -> None:
        self._note = why

    @property
    def is_collapsed(self) -> bool:
        """Its histograms are gone: values that come now begin anew."""
        return self._collapsed is not None

    def collapse(self) -> None:
        """Keep scalars and quantiles, and let the histograms go."""
        with self._lock:
            if self._collapsed is None:
                self._collapsed = self._whole("", "", 0).collapsed()
                self._activations, self._gradients = TensorStats(None), TensorStats(None)

    def snapshot(self, layer: str, phase: str, epoch: int) -> LayerStatsSnapshot:
        with self._lock:
            if self._collapsed is not None:
                return self._collapsed.of(layer, phase, epoch)
            return self._whole(layer, phase, epoch)

    def _whole(self, layer: str, phase: str, epoch: int) -> LayerStatsSnapshot:
        return LayerStatsSnapshot(
            layer,
            phase,
            epoch,
            self._activations.snapshot(),
            self._gradients.snapshot(),
            batches=self._batches,
            note=self._note,
        )


class _Shared:
    """One tensor that several layers may give (a scope gives what the last layer in it gives)."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = weakref.ref(tensor)
        self._version = _version(tensor)
        self._summaries: dict[tuple[int | None, int, tuple[int, ...] | None], list[Summary]] = {}
        self.listens = False
        self.outputs: list[_Output] = []
        """Layers that wait for its gradient."""

    def is_of(self, tensor: torch.Tensor) -> bool:
        return self._tensor() is tensor and self._version == _version(tensor)

    def forget(self) -> None:
        """No other layer will ask for the summaries."""
        self._summaries.clear()

    def summaries(self, stats: TensorStats) -> list[Summary]:
        """What is to be added to `stats`, computed once for all that look at it alike."""
        tensor = self._tensor()
        assert tensor is not None  # who asks holds it
        stats.dtype = tensor.dtype
        suspects = stats.suspects(tensor)
        key = (stats.axis, stats.limit, suspects)
        found = self._summaries.get(key)
        if found is None:
            found = summarise(tensor, stats.axis, stats.limit, centred=stats.is_centred, suspects=suspects)
            self._summaries[key] = found
        return found


class _Output(NamedTuple):
    """One output of a layer, and how many axes it has."""

    layer: str
    path: str
    ndim: int


class BatchFold:
    """Folds the values of one batch at the moment they exist. What goes wrong becomes a note of the layer."""

    def __init__(
        self,
        collector: StatsCollector,
        position: BatchPosition,
        layers: frozenset[str],
        scopes: frozenset[str],
        architecture: Architecture,
        steps: StepWatch,
        partly: bool,
    ) -> None:
        self.layers = layers
        self._steps = steps
        self._scopes = scopes
        self._partly = partly
        self._collector = collector
        self._position = position
        self._architecture = architecture
        self.is_captured = False
        self._budget = Budget()
        self._last: _Shared | None = None
        self._last_gradient: _Shared | None = None
        self._waiting: list[tuple[_Output, torch.Tensor, bool]] = []
        self._handles: list[RemovableHandle] = []
        self._nodes: list[Any] = []
        self._scaling = LossScaling(lambda _: None)
        self._passes = BackwardPasses(threading.get_ident())

    def install(self) -> None:
        """Begin to listen."""
        self._scaling.install()
        self._steps.install()

    def remove(self) -> None:
        """Stop listening."""
        self._scaling.remove()
        self._steps.remove()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()
        self._last = self._last_gradient = None

    def take(self, layer: str, value: Any) -> None:
        """Fold the first tensor of a value, and its gradient when it comes."""
        self._take(layer, value, again=False)

    def recomputed(self, layer: str, value: Any) -> None:
        """Listen for gradients of a value that is computed anew in the backward."""
        self._take(layer, value, again=True)

    def _take(self, layer: str, value: Any, *, again: bool) -> None:
        path, tensor = next(leaves(value), ("", None))
        if tensor is None:
            return
        output = _Output(layer, path, tensor.ndim)
        listens = tensor.requires_grad and torch.is_grad_enabled()
        with unobserved():
            try:
                if why := unreadable(tensor) or _sparse(tensor):
                    self._bucket(output).note(why)
                    return
                # A scope gives what the last layer in it gave. Other layers that give the same tensor may
                # have changed it in a way that moves no version (`.data`, inference mode).
                shared = self._last if layer in self._scopes else None
                if shared is None or not shared.is_of(tensor):
                    if self._last is not None:
                        self._last.forget()
                    shared = self._last = _Shared(tensor)
                if listens and not shared.listens:
                    self._listen(shared, tensor)
                shared.outputs.append(output)
                if not again:
                    self._fold(output, shared, tensor, gradient=False)
            except Exception as error:  # an instrument must not end the run
                self._bucket(output).note(f"not collected: {type(error).__name__}: {error}")

    def _listen(self, shared: _Shared, tensor: torch.Tensor) -> None:
        shared.listens = True
        node, index = gradient_edge(tensor)
        self._handles.append(node.register_prehook(_FoldGradient(self, shared, index)))
        if grad_fn_of(tensor) is None:  # that of a leaf lives only while somebody holds it
            self._nodes.append(node)

    def add_gradient(self, outputs: Sequence[_Output], gradient: torch.Tensor) -> None:
        """Fold a gradient that flows through a value; those of `torch.autograd.grad` are passed over."""
        with unobserved():
            try:
                _, aside = self._passes.current()
                if aside or _sparse(gradient):
                    return
                scale = self._scaling.scale
                plain = gradient if scale is None else unscale(gradient, scale)
                # What a sum hands to its terms is one tensor.
                shared = self._last_gradient
                if shared is None or not shared.is_of(plain):
                    shared = self._last_gradient = _Shared(plain)
                for output in outputs:
                    self._fold(output, shared, plain, gradient=True)
            except Exception as error:  # never an error in the user's backward
                for output in outputs:
                    self._bucket(output).note(f"gradients not collected: {type(error).__name__}: {error}")

    def _fold(self, output: _Output, shared: _Shared, tensor: torch.Tensor, *, gradient: bool) -> None:
        unknown = not self._architecture.traced and self._axes(output) is None
        size = tensor.numel() * tensor.element_size()
        if unknown and self.is_captured and size <= TENSOR_BYTES and self._budget.admits(size):
            # The first forward tells the axes of many layers, but only when it is over.
            self._waiting.append((output, tensor.detach().clone(), gradient))
            return
        self._bucket(output).add(shared, self._position.batch_idx, gradient=gradient)

    def finish(self, architecture: Architecture) -> None:
        """The batch is over: fold what had to wait for the axes, sample the weights that are shown."""
        self._architecture = architecture
        self._steps.finish(sample=self.is_captured)
        with unobserved():
            for output, tensor, gradient in self._waiting:
                self._fold_late(output, tensor, gradient)
        self._waiting.clear()

    def _fold_late(self, output: _Output, tensor: torch.Tensor, gradient: bool) -> None:
        try:
            self._bucket(output).add(_Shared(tensor), self._position.batch_idx, gradient=gradient)
        except Exception as error:  # an instrument must not end the run
            self._bucket(output).note(f"not collected: {type(error).__name__}: {error}")

    def _axes(self, output: _Output) -> Axes | None:
        return self._architecture.axes(output.layer, output.path, output.ndim)

    def _bucket(self, output: _Output) -> _Bucket:
        axes = self._axes(output)
        channel = None if axes is None else axes.channel
        bucket = self._collector.bucket(output.layer, self._position, channel)
        if self._partly:
            bucket.note(PARTLY)
        return bucket


class _FoldGradient:
    """Hands the gradient that flows through a node to the fold; a graph may outlive its batch."""

    def __init__(self, fold: BatchFold, shared: _Shared, index: int) -> None:
        self._fold = weakref.ref(fold)
        self._shared = shared
        self._index = index

    def __call__(self, gradients: tuple[torch.Tensor | None, ...]) -> None:
        fold, gradient = self._fold(), gradients[self._index]
        if fold is not None and gradient is not None and not is_traced():
            fold.add_gradient(self._shared.outputs, gradient)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _sparse(tensor: torch.Tensor) -> str:
    return "" if tensor.layout is torch.strided else "not collected: a sparse tensor"
