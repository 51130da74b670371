"""Running statistics of a session: each batch's values fold into the bucket of its layer, phase and epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import nn
from torch.optim import Optimizer

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.run.item import LoaderItem
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.bucket import Bucket
from nansense_widgets.stats.epochs import Epochs, EpochsMark
from nansense_widgets.stats.fold import BatchFold
from nansense_widgets.stats.frozen import FrozenStats
from nansense_widgets.stats.instruments.instruments import Instruments
from nansense_widgets.stats.instruments.live import ModelParts
from nansense_widgets.stats.nonfinite import KINDS, FirstNonFinite, first_of
from nansense_widgets.stats.patches import PatchCollector
from nansense_widgets.stats.performance import WatchPerformance
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import LayerStatsSnapshot, ParameterStatsSnapshot, WatchSnapshot
from nansense_widgets.stats.steps import ParameterBucket, StepWatch

__all__ = ["StatsCollector", "StatsMark"]

_Firsts = tuple[int | None, int | None]
"""Batches in which activations and gradients first were not finite."""


@dataclass(frozen=True)
class StatsMark:
    """The statistics before one batch; their series know their batches themselves."""

    layers: EpochsMark[Bucket, LayerStatsSnapshot]
    parameters: EpochsMark[ParameterBucket, ParameterStatsSnapshot]

    @property
    def nbytes(self) -> int:
        """Memory of what was copied."""
        return self.layers.nbytes + self.parameters.nbytes


class StatsCollector:
    """The buckets of a session. Folding happens on the training thread, reading on any."""

    def __init__(self) -> None:
        self.scope = StatsScope.WATCHED
        self.performance = WatchPerformance()
        self.patches = PatchCollector()
        self.instruments = Instruments()
        self._layers: Epochs[Bucket, LayerStatsSnapshot] = Epochs(
            lambda stats: first_of(stats) != (None, None)
        )
        self._parameters: Epochs[ParameterBucket, ParameterStatsSnapshot] = Epochs()
        self._owned: dict[str, tuple[str, ...]] = {}
        self._scopes: frozenset[str] = frozenset()
        self._scopes_of: Architecture | None = None
        self._old_nonfinite: dict[str, tuple[object, dict[tuple[str, int], _Firsts]]] = {}
        """By layer: the old epochs that were read, and those of them that had such values."""

    def begin(
        self,
        position: BatchPosition,
        watched: Sequence[str],
        architecture: Architecture,
        parameter: Callable[[str], torch.Tensor],
        *,
        partly: bool,
        item: LoaderItem | None = None,
        optimizers: Sequence[Optimizer] = (),
        module: Callable[[str], nn.Module | None] = lambda _: None,
    ) -> BatchFold | None:
        """What one batch folds into; None if nothing is collected.

        Args:
            position: of the batch.
            watched: watched layers.
            architecture: what is known of the model.
            parameter: gives the model's parameter of a name.
            partly: whether only captured batches come.
            item: what the loader gave, if it is known.
            optimizers: of the session, for instruments.
            module: gives the module of a layer, for instruments.
        """
        if self.scope is StatsScope.NONE:
            return None
        wanted = watched if self.scope is StatsScope.WATCHED else tuple(architecture.nodes)
        if not wanted:
            return None
        layers = frozenset(wanted)
        if architecture is not self._scopes_of:  # not for every batch: a model may have thousands of layers
            self._scopes_of = architecture
            self._scopes = frozenset(name for name, node in architecture.nodes.items() if node.is_scope)
        parameters = self._parameters_of(wanted, architecture, parameter)
        steps = StepWatch(parameters, self._parameters, position)

        def parts() -> ModelParts:
            owned = {layer: self._owned[layer] for layer in wanted if layer in self._owned}
            return ModelParts(owned, parameters, optimizers, module)

        instruments = self.instruments.begin(parts, position)
        patches = self.patches.begin(position, layers, architecture, self.performance, item)
        for layer in layers if patches is None else layers - patches.layers:
            bucket = self._layers.find(layer, position.phase, position.epoch)
            if bucket is not None and bucket.patches is not None:
                bucket.patches.note = "batches are missing: set_patch_layers left this layer out"
        return BatchFold(
            self.bucket, position, layers, self._scopes, architecture, steps, patches, instruments, partly
        )

    def _parameters_of(
        self, layers: Sequence[str], architecture: Architecture, parameter: Callable[[str], torch.Tensor]
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

    def frozen(self, batches: Callable[[str], int | None]) -> FrozenStats:
        """All that is collected and set, as it is now; `batches`: of a phase in an epoch, if known."""
        registry = self.instruments.registry
        metrics = self.instruments.snapshot(None, batches)
        return FrozenStats(self.snapshot(), metrics, registry.kinds, registry.errors, self.performance)

    def show(self, frozen: FrozenStats) -> None:
        """Hold what another run collected; nothing is added to it."""
        self.scope = StatsScope.NONE
        self.performance = frozen.performance
        self._owned = dict(frozen.watch.owned)
        self._layers.show(frozen.watch.stats)
        self._parameters.show(frozen.watch.parameters)
        self.instruments.show(frozen.metrics, frozen.instruments, frozen.errors)

    def restart(self) -> None:
        """Another run begins: its epochs are not those of the last one."""
        self._layers.clear()
        self._parameters.clear()
        self.patches.kept.forget()
        self.instruments.restart()

    def release(self) -> None:
        """Nothing will be collected or looked at any more."""
        self._layers.clear()
        self._parameters.clear()
        self.instruments.release()
        self._owned.clear()
        self.patches = PatchCollector()

    def restrict_patches(self, layers: frozenset[str] | None) -> None:
        """Collect patches of these layers only; None: of all."""
        self.patches.layers = layers

    def sizes(self) -> Iterator[tuple[str, str, int]]:
        """What is held: kind, layer or parameter, bytes."""
        for kind, epochs in (("statistics", self._layers), ("parameters", self._parameters)):
            for name, size in epochs.sizes():
                yield kind, name, size
        for layer, size in self.instruments.sizes():
            yield "metrics", layer, size
        counted: set[int] = set()
        for layer, bucket in self._layers.buckets():
            yield "patches", layer, bucket.patch_bytes(counted)

    def rewind_to_epoch(self, epoch: int) -> None:
        """Drop what was collected in this epoch and those after it: they will come again."""
        self._layers.drop_from(epoch)
        self._parameters.drop_from(epoch)
        self.patches.kept.forget()
        self.instruments.rewind(epoch)

    def mark(self, phase: str, epoch: int) -> StatsMark:
        """This moment, to return to while the phase goes on."""
        return StatsMark(self._layers.mark(phase, epoch), self._parameters.mark(phase, epoch))

    def return_to(self, mark: StatsMark, phase: str, epoch: int, batch: int) -> None:
        """Statistics are as they were at the mark, before that batch of the phase."""
        self._layers.return_to(mark.layers)
        self._parameters.return_to(mark.parameters)
        self.patches.kept.forget()
        self.instruments.rewind(epoch, batch, phase)

    def snapshot(self, layers: Collection[str] | None = None) -> WatchSnapshot:
        """All statistics as they are now, or those of some layers."""
        owned = {name: of for name, of in dict(self._owned).items() if layers is None or name in layers}
        names = {name for of in owned.values() for name in of}
        return WatchSnapshot(
            MappingProxyType(self._layers.snapshots(layers)),
            MappingProxyType(self._parameters.snapshots(names)),
            MappingProxyType(owned),
        )

    def first_nonfinite(self) -> list[FirstNonFinite]:
        """Layers whose values were not finite, with the first batch, phase by phase; in no order."""
        found = []
        for layer, (whole, old) in self._layers.kept().items():
            known = self._old_nonfinite.get(layer)
            if known is None or known[0] is not old:  # read once an epoch: there may be a thousand old ones
                firsts = {key: first_of(stats) for key, stats in old.items()}
                known = (old, {key: first for key, first in firsts.items() if first != (None, None)})
                self._old_nonfinite[layer] = known
            batches = known[1] | {key: bucket.first_nonfinite for key, bucket in whole.items()}
            for which, kind in enumerate(KINDS):
                first: dict[str, tuple[int, int]] = {}
                for (phase, epoch), both in batches.items():
                    batch = both[which]
                    if batch is not None:
                        first[phase] = min((epoch, batch), first.get(phase, (epoch, batch)))
                found += [FirstNonFinite(layer, kind, phase, *at) for phase, at in first.items()]
        return found

    def bucket(self, layer: str, position: BatchPosition, channel_axis: int | None) -> Bucket:
        """The bucket of a layer in a batch, made when its first value comes."""
        phase, epoch = position.phase, position.epoch
        limit = self.performance.channel_limit
        known = self._layers.find(layer, phase, epoch)
        return known or self._layers.begin(layer, phase, epoch, lambda: Bucket(channel_axis, limit))
