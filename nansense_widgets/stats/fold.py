"""One batch on its way into the statistics: values as they come to exist, gradients as they flow."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.custom import CustomTensors
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.passes import BackwardPasses, grad_fn_of, gradient_edge, is_traced
from nansense_widgets.capture.scaling import LossScaling
from nansense_widgets.capture.values import (
    TENSOR_BYTES,
    Budget,
    is_plain,
    memoryless,
    unobserved,
    unreadable,
    unscale,
)
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.bucket import Bucket, Shared
from nansense_widgets.stats.instruments.batch import InstrumentBatch
from nansense_widgets.stats.instruments.live import LiveLayer
from nansense_widgets.stats.patches import MODEL, Given, PatchFold
from nansense_widgets.stats.steps import StepWatch
from nansense_widgets.stats.views import Views

__all__ = ["BatchFold"]

PARTLY = "only captured batches: something in this process is compiled, and hooks cannot look into that"


class _Output(NamedTuple):
    """One output of a layer, and how many axes it has."""

    layer: str
    path: str
    ndim: int


class _Value(Shared):
    """One tensor of the forward."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor)
        self.listens = False
        self.outputs: list[_Output] = []
        """Layers that wait for its gradient."""
        self.live: list[LiveLayer] = []
        """Those of them whose instruments wait for it."""


class BatchFold:
    """Folds the values of one batch at the moment they exist. What goes wrong becomes a note of the layer."""

    def __init__(
        self,
        bucket: Callable[[str, BatchPosition, int | None], Bucket],
        position: BatchPosition,
        layers: frozenset[str],
        scopes: frozenset[str],
        architecture: Architecture,
        steps: StepWatch,
        patches: PatchFold | None,
        instruments: InstrumentBatch | None,
        partly: bool,
    ) -> None:
        self.layers = layers | {MODEL} | (frozenset() if patches is None else patches.listens_to)
        self._folded = layers
        self._patches = patches
        self._steps = steps
        self._instruments = instruments
        self._scopes = scopes
        self._partly = partly
        self._bucket_of = bucket
        self._position = position
        self._architecture = architecture
        self.is_captured = False
        self._budget = Budget()
        self._last: _Value | None = None
        self._last_gradient: Shared | None = None
        self._views, self._gradient_views = Views(), Views()
        self._buckets: dict[_Output, Bucket] = {}
        self._waiting: list[tuple[_Output, torch.Tensor, bool]] = []
        self._handles: list[RemovableHandle] = []
        self._nodes: list[Any] = []
        self._scaling = LossScaling(self._after_scaler)
        self._passes = BackwardPasses(threading.get_ident())
        self._unheard = ""

    def install(self) -> None:
        """Begin to listen."""
        self._scaling.install()
        self._steps.install()
        if self._instruments is not None and self._instruments.install(captured=self.is_captured):
            self._steps.on_use = self._instruments.uses
        else:
            self._instruments = None
        if self._patches is not None:
            self._patches.waits = self.is_captured and not self._architecture.traced

    def remove(self) -> None:
        """Stop listening."""
        self._scaling.remove()
        self._steps.remove()
        if self._instruments is not None:
            self._instruments.let_go()
        if self._patches is not None:
            self._patches.remove()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._nodes.clear()
        self._buckets.clear()
        self._last = self._last_gradient = None
        self._views.forget()
        self._gradient_views.forget()

    def take(self, layer: str, value: Any) -> None:
        """Fold the first tensor of a value, and its gradient when it comes."""
        if self._patches is not None and layer in self._patches.listens_to:
            with unobserved():
                try:
                    self._patches.hear(layer, value)
                except Exception as error:  # never an error in the user's forward
                    self._unheard = f"no patches: an input was not read: {type(error).__name__}: {error}"
        if layer == MODEL:
            # What reads a leaf has been called: the graph holds its node now, for as long as that is needed.
            self._nodes.clear()
        if layer in self._folded:
            self._take(layer, value, again=False)

    def recomputed(self, layer: str, value: Any) -> None:
        """Listen for gradients of a value that is computed anew in the backward."""
        if layer in self._folded:
            self._take(layer, value, again=True)

    def _take(self, layer: str, value: Any, *, again: bool) -> None:
        try:
            path, tensor = ("", value) if type(value) is torch.Tensor else next(leaves(value), ("", None))
        except Exception as error:  # a container of the user's own that cannot be looked into
            self._bucket(_Output(layer, "", 0)).note(f"not collected: {type(error).__name__}: {error}")
            return
        if tensor is None:
            return
        output = _Output(layer, path, tensor.ndim)
        listens = tensor.requires_grad and torch.is_grad_enabled()
        with unobserved():
            try:
                if not is_plain(tensor) and (
                    why := unreadable(tensor) or _sparse(tensor) or memoryless(tensor)
                ):
                    self._bucket(output).note(why)
                    return
                # A scope gives what the last layer in it gave. Other layers that give the same tensor may
                # have changed it in a way that moves no version (`.data`, inference mode).
                shared = self._last if layer in self._scopes else None
                if shared is None or not shared.is_of(tensor):
                    if self._last is not None:
                        self._last.forget()
                    shared = self._last = _Value(tensor)
                if listens and not shared.listens:
                    self._listen(shared, tensor)
                shared.outputs.append(output)
                if self._instruments is not None:
                    live = self._instruments.take(layer, tensor, listens=listens, again=again)
                    if live is not None:
                        shared.live.append(live)
                if not again:
                    self._fold(output, shared, tensor, gradient=False)
                    self._take_patches(output, tensor)
            except Exception as error:  # an instrument must not end the run
                self._bucket(output).note(f"not collected: {type(error).__name__}: {error}")

    def _listen(self, shared: _Value, tensor: torch.Tensor) -> None:
        shared.listens = True
        node, index = gradient_edge(tensor)
        self._handles.append(node.register_prehook(_FoldGradient(self, shared, index)))
        if grad_fn_of(tensor) is None:  # that of a leaf lives only while somebody holds it
            self._nodes.append(node)

    def add_gradient(
        self, outputs: Sequence[_Output], live: Sequence[LiveLayer], gradient: torch.Tensor
    ) -> None:
        """Fold a gradient that flows through a value; those of `torch.autograd.grad` are passed over."""
        with unobserved():
            try:
                _, aside = self._passes.current()
                if aside or _sparse(gradient):
                    return
                if not is_plain(gradient) and (why := memoryless(gradient)):
                    for output in outputs:
                        self._bucket(output).note(why)
                    return
                scale = self._scaling.scale
                plain = gradient if scale is None else unscale(gradient, scale)
                # What a sum hands to its terms is one tensor.
                shared = self._last_gradient
                if shared is None or not shared.is_of(plain):
                    shared = self._last_gradient = Shared(plain)
                for output in outputs:
                    self._fold(output, shared, plain, gradient=True)
                for layer in live:
                    layer.add_gradient(plain)
            except Exception as error:  # never an error in the user's backward
                for output in outputs:
                    self._bucket(output).note(f"gradients not collected: {type(error).__name__}: {error}")

    def _fold(self, output: _Output, shared: Shared, tensor: torch.Tensor, *, gradient: bool) -> None:
        if self.is_captured and not self._architecture.traced and self._axes(output) is None:
            size = tensor.numel() * tensor.element_size()
            if size <= TENSOR_BYTES and self._budget.admits(size):
                # The first forward tells the axes of many layers, but only when it is over.
                self._waiting.append((output, tensor.detach().clone(), gradient))
                return
        views = self._gradient_views if gradient else self._views
        self._bucket(output).add(shared, self._position.batch_idx, gradient=gradient, views=views)

    def finish(self, architecture: Architecture) -> None:
        """The batch is over: fold what had to wait for the axes, sample the weights that are shown."""
        self._architecture = architecture
        self._buckets.clear()
        self._steps.finish(sample=self.is_captured)
        with unobserved():
            for output, tensor, gradient in self._waiting:
                self._fold_late(output, tensor, gradient)
            self._waiting.clear()
            self._add_waiting_patches(architecture)
        if self._instruments is not None:
            self._instruments.finish()

    def tensors(self, budget: Budget) -> CustomTensors:
        """What the tensor instruments give; after `finish`, before `remove`."""
        return CustomTensors() if self._instruments is None else self._instruments.tensors(budget)

    def _after_scaler(self, optimizer: Optimizer) -> None:
        if self._instruments is not None:
            self._instruments.left_out(self._steps.of(optimizer), optimizer)

    def _take_patches(self, output: _Output, tensor: torch.Tensor) -> None:
        patches = self._patches
        if patches is None or output.layer not in patches.layers:
            return
        if self._unheard:
            self._bucket(output).note(self._unheard)
            return
        value = Given(output.layer, output.path, tensor, patches.moment(output.layer))
        if not patches.defers(value, self._axes(output)):
            self._add_patches(patches, output, value)

    def _add_waiting_patches(self, architecture: Architecture) -> None:
        if self._patches is not None:
            self._patches.architecture = architecture
            for value in self._patches.waiting:
                output = _Output(value.layer, value.path, value.tensor.ndim)
                self._add_patches(self._patches, output, value)

    def _add_patches(self, patches: PatchFold, output: _Output, value: Given) -> None:
        bucket = self._bucket(output)
        try:
            bucket.patches = bucket.patches or patches.new_gallery()
            patches.take(bucket.patches, value, self._axes(output))
        except Exception as error:  # an instrument must not end the run
            bucket.note(f"patches not collected: {type(error).__name__}: {error}")

    def _fold_late(self, output: _Output, tensor: torch.Tensor, gradient: bool) -> None:
        try:
            self._bucket(output).add(Shared(tensor), self._position.batch_idx, gradient=gradient)
        except Exception as error:  # an instrument must not end the run
            self._bucket(output).note(f"not collected: {type(error).__name__}: {error}")

    def _axes(self, output: _Output) -> Axes | None:
        return self._architecture.axes(output.layer, output.path, output.ndim)

    def _bucket(self, output: _Output) -> Bucket:
        known = self._buckets.get(output)
        if known is not None:
            return known
        axes = self._axes(output)
        channel = None if axes is None else axes.channel
        bucket = self._bucket_of(output.layer, self._position, channel)
        if self._partly:
            bucket.note(PARTLY)
        if bucket.axis != channel:
            bucket.note(
                "its axes were chosen anew in this epoch: channels are those of before until the next one"
            )
        self._buckets[output] = bucket
        return bucket


class _FoldGradient:
    """Hands the gradient that flows through a node to the fold; a graph may outlive its batch."""

    def __init__(self, fold: BatchFold, shared: _Value, index: int) -> None:
        self._fold = weakref.ref(fold)
        self._shared = shared
        self._index = index

    def __call__(self, gradients: tuple[torch.Tensor | None, ...]) -> None:
        fold, gradient = self._fold(), gradients[self._index]
        if fold is not None and gradient is not None and not is_traced():
            fold.add_gradient(self._shared.outputs, self._shared.live, gradient)


def _sparse(tensor: torch.Tensor) -> str:
    return "" if tensor.layout is torch.strided else "not collected: a sparse tensor"
