"""Collects extreme patches: the samples that drove each channel to its largest and smallest responses.

In steady state a layer costs one pass over its first channels, whose extremes and means are compared with the
bars that they would have to exceed; only what exceeds one is looked at closely. On a GPU all of it happens at
the end of the batch, which then waits for the GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.leaves import leaves
from nansense_widgets.capture.receptive import ReceptiveFields
from nansense_widgets.capture.values import TENSOR_BYTES, Budget, unreadable
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.builder import GalleryBuilder
from nansense_widgets.stats.cut import Chosen, Cutter, Source
from nansense_widgets.stats.gallery import InputKind, Sample
from nansense_widgets.stats.on_device import is_asynchronous
from nansense_widgets.stats.origin import Origin
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.responses import Responses
from nansense_widgets.stats.samples import FULL, PLACES, Ledger, Samples, kind_of, sample_of

__all__ = ["MODEL", "Given", "PatchCollector", "PatchFold"]

MODEL = ""
"""The name under which the end of the model's own forward is heard."""


class PatchCollector:
    """What all galleries of a session share, and the settings of the collection."""

    def __init__(self) -> None:
        self.layers: frozenset[str] | None = None
        """Layers whose patches are collected; None: all that have statistics."""
        self.preferred: frozenset[str] = frozenset()
        """Inputs that the user has named, of several the ones to show."""
        self.ledger = Ledger()
        self.kept = Samples(self.ledger)
        self.copies_inputs = False
        """Whether the model changes an input in place, so that it has to be copied as it comes."""
        self._fields: dict[tuple[str, int], ReceptiveFields] = {}
        self._fields_of = -1

    def begin(
        self,
        position: BatchPosition,
        layers: frozenset[str],
        architecture: Architecture,
        settings: WatchPerformance,
        item: LoaderItem | None,
    ) -> PatchFold | None:
        """What one batch's patches go into; None if no layer wants any."""
        wanted = layers if self.layers is None else layers & self.layers
        if not wanted:
            return None
        try:
            origin = Origin(item)
        except Exception:  # an item that cannot be looked into: samples have no labels
            origin = Origin(None)
        return PatchFold(self, position, wanted, architecture, settings, origin)

    def fields(self, architecture: Architecture, layer: str, call: int) -> ReceptiveFields:
        """The receptive fields of a layer's call, computed once for each state of the architecture."""
        if self._fields_of != architecture.version:
            self._fields.clear()
            self._fields_of = architecture.version
        key = (layer, call)
        if key not in self._fields:
            self._fields[key] = ReceptiveFields(architecture, layer, call)
        return self._fields[key]


class Moment(NamedTuple):
    """When a layer gave a value: in which call of the model (None: outside of any) and which of its own."""

    forward: int | None
    call: int


class Given(NamedTuple):
    """A value that a layer gave.

    Attributes:
        layer: its name.
        path: which of its outputs.
        tensor: the value, or only its first channels.
        moment: when it came.
        channels: how many the whole value has, where `tensor` has only some.
    """

    layer: str
    path: str
    tensor: torch.Tensor
    moment: Moment
    channels: int | None = None


@dataclass
class _Input:
    """One input in one call of the model."""

    tensor: weakref.ref[torch.Tensor] | torch.Tensor
    version: int
    original: weakref.ref[torch.Tensor]
    """What it is a copy of, or itself."""

    def is_changed(self) -> bool:
        """Whether the original has been changed in place since."""
        tensor = self.original()
        return tensor is not None and _version(tensor) != self.version

    def value(self) -> torch.Tensor | None:
        """The input as the model got it; None if it is gone or has been changed since."""
        if isinstance(self.tensor, torch.Tensor):
            return self.tensor
        tensor = self.tensor()
        return tensor if tensor is not None and not self.is_changed() else None


class PatchFold:
    """Collects the patches of one batch. The caller catches what it raises."""

    def __init__(
        self,
        collector: PatchCollector,
        position: BatchPosition,
        layers: frozenset[str],
        architecture: Architecture,
        settings: WatchPerformance,
        origin: Origin,
    ) -> None:
        self.layers = layers
        self.listens_to = frozenset(n for n, node in architecture.nodes.items() if node.kind == "input") | {
            MODEL
        }
        """What it has to hear besides."""
        self.waits = False
        """Whether this batch's forward tells the way to the input, so that all is folded when it is over."""
        self.architecture = architecture
        self._collector = collector
        self._position = position
        self._settings = settings
        self._origin = origin
        self._forward: int | None = None
        self._forwards = 0
        self._calls: dict[str, int] = {}
        self._inputs: dict[tuple[int, str], _Input] = {}
        self.waiting: list[Given] = []
        """What was put off."""
        self._budget = Budget()

    def hear(self, name: str, value: object) -> None:
        """An input comes, or the model's forward is over."""
        if name == MODEL:
            self._forward = None
            return
        # The same input again: the last call of the model was left by an exception, which nothing tells.
        if self._forward is None or (self._forward, name) in self._inputs:
            self._forwards += 1
            self._forward = self._forwards
        tensor = next((tensor for _, tensor in leaves(value)), None)
        if tensor is None or tensor.layout is not torch.strided or unreadable(tensor):
            return
        original = weakref.ref(tensor)
        copies = self.waits or self._collector.copies_inputs or is_asynchronous(tensor)
        kept = _plain(tensor).detach().clone() if copies else original
        self._inputs[(self._forward, name)] = _Input(kept, _version(tensor), original)

    def moment(self, layer: str) -> Moment:
        """Now, as a layer gives a value."""
        call = self._calls[layer] = self._calls.get(layer, 0) + 1
        return Moment(self._forward, call)

    def new_gallery(self) -> GalleryBuilder:
        """An empty gallery with the settings of now."""
        return GalleryBuilder(self._settings)

    def defers(self, value: Given, axes: Axes | None) -> bool:
        """Put a value off to the end of the batch, if it has to be.

        The first forward tells the way to the input only when it is over. And a GPU works on meanwhile: there
        the training waits for it once, at the end of the batch.
        """
        tensor = _plain(value.tensor)
        if not (self.waits or is_asynchronous(tensor)):
            return False
        if any(one.is_changed() for one in self._inputs.values()):
            self._collector.copies_inputs = True
        channels = value.channels
        if axes is not None and axes.channel is not None:
            channels = tensor.shape[axes.channel]
            tensor = tensor.narrow(axes.channel, 0, min(self._settings.channel_limit, channels))
        size = tensor.numel() * tensor.element_size()
        if size <= TENSOR_BYTES and self._budget.admits(size):
            copy = tensor.detach().clone()
            self.waiting.append(value._replace(tensor=copy, channels=channels))
        return True

    def remove(self) -> None:
        """The batch is over."""
        self.waiting.clear()
        self._inputs.clear()

    def take(self, builder: GalleryBuilder, value: Given, axes: Axes | None) -> None:
        """Compare a layer's responses with those so far, and keep what is more extreme."""
        tensor, moment = _plain(value.tensor), value.moment
        if builder.refused or tensor.numel() == 0:
            return
        if axes is None and tensor.ndim < 2:
            builder.note = "no patches: which axis is the channel is not known (session.set_axes says it)"
            return
        axes = axes or Axes(1, 0)
        fields = self._collector.fields(self.architecture, value.layer, moment.call)
        source = self._source(fields, moment)
        if isinstance(source, str):
            builder.note = source
            return
        if fields.shape is None:
            why = "it tells how layers depend on the input (session.request_snapshot)"
            builder.note = f"patches of batches before the first captured one are missing: {why}"
            return
        batch = 1 if axes.batch is None else tensor.shape[axes.batch]
        if source.samples > 1 and batch == source.samples and not fields.keeps_samples(source.name):
            builder.note = (
                f"no patches: samples of {source.name} may not be in their places here, or be mixed"
            )
            return
        if batch != source.samples:
            here = f"the layer gives {batch} samples, its input {source.name} has {source.samples}"
            builder.note = f"no patches: {here}"
            return
        bound = self._bound(source, axes, tensor, builder.settings) if builder.is_empty else 0
        if not self._collector.ledger.has_room_for(bound):
            builder.refused = True
            less = "a lower channel_limit or samples_per_channel (set_watch_performance) takes less"
            builder.note = (
                f"no patches: those of this layer may come to {bound / 2**20:,.0f} MiB, and all of a session "
                f"may take {self._collector.ledger.limit // 2**20} MiB; {less}"
            )
            return
        settings = builder.settings
        responses = Responses.of(tensor, axes, settings.channel_limit, averages=settings.average_galleries)
        channels = 1 if axes.channel is None else value.channels or tensor.shape[axes.channel]
        if not builder.begin(source.name, source.kind, channels, responses.high.shape[1]):
            builder.note = "some batches were left out: they had other channels or another input"
            return
        builder.count_nan(responses.nan)
        chosen: list[Chosen] = []
        for by, sign, table in (
            ("pixel", 1, responses.high),
            ("pixel", -1, responses.low),
            ("average", 1, responses.mean),
            ("average", -1, responses.mean),
        ):
            if table is not None:
                chosen += [(by, sign, winner) for winner in builder.ranking(by, sign).winners(table)]
        if chosen:
            cutter = Cutter(source, responses.places, fields, moment.call)
            room = self._collector.ledger
            found = cutter.cut(
                chosen,
                source,
                responses,
                room,
                lambda index: self._sample(source, moment.forward or 0, index),
            )
            if len(found) < len(chosen):
                builder.note = f"patches are missing: {FULL}"
            builder.add(found)

    def _bound(self, source: Source, axes: Axes, tensor: torch.Tensor, settings: WatchPerformance) -> int:
        """Bytes that a gallery may come to take, if no sample is in it twice."""
        rows = 1 if axes.channel is None else min(settings.channel_limit, tensor.shape[axes.channel])
        channels = 1 if axes.channel is None else tensor.shape[axes.channel]
        places = tensor.numel() // max(1, source.samples * channels)
        sample = min(source.tensor.numel() // max(1, source.samples) * source.tensor.element_size(), 2**16)
        patches = 2 * rows * settings.samples_per_channel * (1 + settings.average_galleries)
        return patches * (2 * places + sample)

    def _source(self, fields: ReceptiveFields, moment: Moment) -> Source | str:
        """The input to cut from, or why there is none."""
        if moment.forward is None:
            return "no patches: the layer ran outside a call of the model itself, so its input is not known"
        here = [name for forward, name in self._inputs if forward == moment.forward]
        reached = [name for name in fields.inputs if name in here] if fields.shape is not None else here
        if not reached:
            return "no patches: the layer depends on no input of the model that is a tensor"
        name = self._chosen(reached, moment.forward)
        if name is None:
            names = ", ".join(reached)
            return f"no patches: the layer depends on the inputs {names}; name one in start(input_transform=)"
        kept = self._inputs[(moment.forward, name)]
        tensor = kept.value()
        if tensor is None:
            self._collector.copies_inputs = True
            return f"patches are missing: the input {name} had been changed in place, or was gone"
        tensor = _plain(tensor)
        kind = self._kind(name, tensor)
        if kind is None:
            return f"no patches: the input {name} of shape {tuple(tensor.shape)} cannot be shown"
        axes = self._axes(name, tensor)
        batch = 0 if axes is None else axes.batch
        return Source(name, tensor, axes, kind, 1 if batch is None else tensor.shape[batch])

    def _chosen(self, reached: Sequence[str], forward: int) -> str | None:
        """Of several inputs the one that can be looked at, or that the user has named."""
        if len(reached) == 1:
            return reached[0]
        named = [name for name in reached if name in self._collector.preferred]
        tensors = {name: self._inputs[(forward, name)].value() for name in reached}
        pictures = [name for name, t in tensors.items() if t is not None and self._kind(name, t) in PLACES]
        found = named or pictures
        return found[0] if len(found) == 1 else None

    def _kind(self, name: str, tensor: torch.Tensor) -> InputKind | None:
        return kind_of(tensor, self._axes(name, tensor)) if tensor.ndim else None

    def _axes(self, name: str, tensor: torch.Tensor) -> Axes | None:
        node = self.architecture.nodes.get(name)
        path = node.output_paths[0] if node is not None and node.output_paths else ""
        return self.architecture.axes(name, path, tensor.ndim)

    def _sample(self, source: Source, forward: int, index: int) -> Sample | None:
        """A sample of the batch; None if there is no room for it."""
        position = self._position
        key = (source.name, position.phase, position.epoch, position.batch_idx, forward, index)
        known = self._collector.kept.find(key)
        if known is not None:
            return known
        values = sample_of(source.tensor, source.axes, source.kind, index)
        if not self._collector.ledger.has_room_for(min(values.numel() * values.element_size(), 2**20)):
            return None
        batch = 0 if source.axes is None or source.axes.batch is None else source.axes.batch
        return self._collector.kept.keep(
            key,
            values,
            dataset_index=self._origin.dataset_index(source.tensor, batch, index),
            label=self._origin.label(source.tensor, batch, index),
        )


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().dequantize() if tensor.is_quantized else tensor


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
