"""Where the values of one layer add up, in one phase of one epoch."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Sequence

import torch

from nansense_widgets.stats.accumulate import TensorStats
from nansense_widgets.stats.builder import GalleryBuilder
from nansense_widgets.stats.on_device import DeviceSummary
from nansense_widgets.stats.snapshot import LayerStatsSnapshot
from nansense_widgets.stats.summary import Summary
from nansense_widgets.stats.views import Views

__all__ = ["Bucket", "Shared"]


class Bucket:
    """Activations and gradients of one layer in one phase of one epoch."""

    def __init__(self, channel_axis: int | None, channel_limit: int) -> None:
        self._lock = threading.Lock()
        self.axis = channel_axis
        self._activations = TensorStats(channel_axis, channel_limit)
        self._gradients = TensorStats(channel_axis, channel_limit)
        self._batches = 0
        self._last_batch = -1
        self._note = ""
        self.patches: GalleryBuilder | None = None

    def add(self, shared: Shared, batch: int, *, gradient: bool, views: Views | None = None) -> None:
        with self._lock:
            stats = self._gradients if gradient else self._activations
            for summary in shared.summaries(stats, views):
                stats.add(summary)
            if stats.first_nonfinite is None and stats.has_nonfinite:
                stats.first_nonfinite = batch
            if batch != self._last_batch:
                self._batches += 1
                self._last_batch = batch

    @property
    def first_nonfinite(self) -> tuple[int | None, int | None]:
        """Batches in which activations and gradients first were not finite, as far as that is known."""
        return self._activations.first_nonfinite, self._gradients.first_nonfinite

    def note(self, why: str) -> None:
        self._note = why

    @property
    def nbytes(self) -> int:
        """Memory that it takes, without its patches."""
        return self._activations.nbytes + self._gradients.nbytes

    def patch_bytes(self, counted: set[int]) -> int:
        """Memory of its patches, without tensors whose `id` has been counted, to which its own are added."""
        patches = self.patches
        tensors = {} if patches is None else patches.snapshot().tensors()
        fresh = [tensor for key, tensor in tensors.items() if key not in counted]
        counted.update(tensors)
        return sum(tensor.numel() * tensor.element_size() for tensor in fresh)

    def snapshot(self, name: str, phase: str, epoch: int) -> LayerStatsSnapshot:
        """What is known now."""
        with self._lock:
            return LayerStatsSnapshot(
                name,
                phase,
                epoch,
                self._activations.snapshot(),
                self._gradients.snapshot(),
                batches=self._batches,
                note=self._note,
                gallery=None if self.patches is None else self.patches.snapshot(),
            )

    def copy(self) -> Bucket:
        """An independent copy."""
        with self._lock:
            other = copy.copy(self)
            other._lock = threading.Lock()
            other._activations = self._activations.copy()
            other._gradients = self._gradients.copy()
            other.patches = None if self.patches is None else self.patches.copy()
        return other

    def collapsed(self, name: str, phase: str, epoch: int) -> LayerStatsSnapshot:
        """Scalars and quantiles, without histograms and patches."""
        return self.snapshot(name, phase, epoch).collapsed()


class Shared:
    """One tensor that several layers may give (a scope gives what the last layer in it gives)."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = weakref.ref(tensor)
        self._version = _version(tensor)
        self._summaries: dict[
            tuple[int | None, int, tuple[int, ...] | None], Sequence[Summary | DeviceSummary]
        ] = {}

    def is_of(self, tensor: torch.Tensor) -> bool:
        return self._tensor() is tensor and self._version == _version(tensor)

    def forget(self) -> None:
        """No other layer will ask for the summaries."""
        self._summaries.clear()

    def summaries(self, stats: TensorStats, views: Views | None) -> Sequence[Summary | DeviceSummary]:
        """What is to be added to `stats`, computed once for all that look at it alike."""
        tensor = self._tensor()
        assert tensor is not None  # who asks holds it
        stats.dtype = tensor.dtype
        suspects = stats.suspects(tensor)
        key = (stats.axis, stats.limit, suspects)
        found = self._summaries.get(key)
        if found is None:
            found = stats.summaries(tensor, views)
            self._summaries[key] = found
        return found


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
