"""The statistics of one captured batch, from its snapshot: a phase like any other, for any layer in it."""

from __future__ import annotations

import torch

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.stats.accumulate import TensorStats
from nansense_widgets.stats.snapshot import LayerStatsSnapshot, TensorStatsSnapshot

__all__ = ["batch_stats"]


def batch_stats(
    snapshot: BatchSnapshot, layer: str, architecture: Architecture, channel_limit: int
) -> LayerStatsSnapshot | None:
    """Statistics of a layer's first output, all its calls, in a captured batch; None if it was not watched.

    Of a tensor of which only a part was kept they are that part's, and `note` says so.
    """
    calls = snapshot.layers.get(layer)
    if calls is None:
        return None
    leaves = [call.leaves[0] for call in calls if call.leaves]
    notes = [leaf.part for leaf in leaves if leaf.part]
    notes += [leaf.activation_reason for leaf in leaves if leaf.activation is None]
    if missing := snapshot.missing.get(layer):
        notes.append(missing)
    paths = [leaf.path for leaf in leaves]
    activations = [leaf.activation for leaf in leaves if leaf.activation is not None]
    gradients = [leaf.gradient for leaf in leaves if leaf.gradient is not None]
    return LayerStatsSnapshot(
        layer,
        snapshot.position.phase,
        snapshot.position.epoch,
        _of(activations, layer, paths, architecture, channel_limit),
        _of(gradients, layer, paths, architecture, channel_limit),
        batches=1,
        note="; ".join(dict.fromkeys(notes)),
    )


def _of(
    tensors: list[torch.Tensor], layer: str, paths: list[str], architecture: Architecture, limit: int
) -> TensorStatsSnapshot:
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
    if not dense:
        return TensorStatsSnapshot()
    axes = architecture.axes(layer, paths[0], dense[0].ndim)
    stats = TensorStats(None if axes is None else axes.channel, limit)
    for tensor in dense:
        stats.fold(tensor)
    return stats.snapshot()
