"""Running statistics of a session: each batch's values fold into the bucket of its layer, phase and epoch."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from types import MappingProxyType

import torch

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.bucket import Bucket
from nansense_widgets.stats.fold import BatchFold
from nansense_widgets.stats.patches import PatchCollector
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import WatchSnapshot
from nansense_widgets.stats.steps import ParameterBucket, StepWatch

__all__ = ["StatsCollector"]

Key = tuple[str, str, int]
"""Layer, phase, epoch."""

WHOLE_EPOCHS = 2
"""Epochs of a phase, those begun last, whose histograms are kept; of others scalars and quantiles."""


class StatsCollector:
    """The buckets of a session. Folding happens on the training thread, reading on any."""

    def __init__(self) -> None:
        self.scope = StatsScope.WATCHED
        self.performance = WatchPerformance()
        self.patches = PatchCollector()
        self._buckets: dict[Key, Bucket] = {}
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
        item: LoaderItem | None = None,
    ) -> BatchFold | None:
        """What one batch folds into; None if nothing is collected.

        Args:
            position: of the batch.
            watched: watched layers.
            architecture: what is known of the model.
            parameter: gives the model's parameter of a name.
            partly: whether only captured batches come.
            item: what the loader gave, if it is known.
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
        patches = self.patches.begin(position, layers, architecture, self.performance, item)
        return BatchFold(self.bucket, position, layers, scopes, architecture, steps, patches, partly)

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
        self.patches.kept.forget()

    def restrict_patches(self, layers: frozenset[str] | None) -> None:
        """Collect patches of these layers only; None: of all."""
        self.patches.layers = layers
        with self._lock:
            buckets = list(self._buckets.items())
        for (layer, _, _), bucket in buckets:
            if bucket.patches is not None and layers is not None and layer not in layers:
                bucket.patches.note = "batches are missing: set_patch_layers left this layer out"

    def sizes(self) -> Iterator[tuple[str, str, int]]:
        """What is held: kind, layer or parameter, bytes."""
        with self._lock:
            buckets, parameters = list(self._buckets.items()), list(self._parameters.items())
        for (layer, _, _), bucket in buckets:
            yield "statistics", layer, bucket.nbytes
        for (name, _, _), of_parameter in parameters:
            yield "parameters", name, of_parameter.nbytes
        counted: set[int] = set()
        for (layer, _, _), bucket in buckets:
            yield "patches", layer, bucket.patch_bytes(counted)

    def rewind_to_epoch(self, epoch: int) -> None:
        """Drop what was collected in this epoch and those after it: they will come again."""
        with self._lock:
            for buckets in (self._buckets, self._parameters):
                for key in [key for key in buckets if key[2] >= epoch]:
                    del buckets[key]
            for whole in (self._whole, self._whole_parameters):
                for name, keys in whole.items():
                    whole[name] = [key for key in keys if key[2] < epoch]
        self.patches.kept.forget()

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

    def bucket(self, layer: str, position: BatchPosition, channel_axis: int | None) -> Bucket:
        """The bucket of a layer in a batch, made when its first value comes."""
        key = (layer, position.phase, position.epoch)
        bucket = self._buckets.get(key)
        if bucket is None or bucket.is_collapsed:
            bucket = Bucket(channel_axis, self.performance.channel_limit)
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
