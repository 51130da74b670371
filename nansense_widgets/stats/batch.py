"""Statistics of the one batch that a snapshot holds, for any layer that has values there."""

from __future__ import annotations

from nansense_widgets.capture.architecture import Architecture
from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.stats.accumulate import CHANNEL_LIMIT, TensorStats
from nansense_widgets.stats.snapshot import LayerStatsSnapshot

__all__ = ["batch_stats"]


def batch_stats(
    snapshot: BatchSnapshot, layer: str, architecture: Architecture, channel_limit: int = CHANNEL_LIMIT
) -> LayerStatsSnapshot | None:
    """Statistics of a layer in a captured batch: of its first output, all its calls, as running ones are.

    Several `backward` calls of the batch are one value here, their sum. Returns None if the layer has no
    values in the snapshot; `snapshot.missing` may say why.
    """
    leaves = [call.leaves[0] for call in snapshot.layers.get(layer, ()) if call.leaves]
    first = next((t for leaf in leaves for t in (leaf.activation, leaf.gradient) if t is not None), None)
    if first is None:
        return None
    axes = architecture.axes(layer, leaves[0].path, first.ndim)
    activations, gradients = (
        TensorStats(None if axes is None else axes.channel, channel_limit) for _ in range(2)
    )
    for leaf in leaves:
        for stats, tensor in ((activations, leaf.activation), (gradients, leaf.gradient)):
            if tensor is not None:
                stats.fold(tensor)
    position = snapshot.position
    notes = {leaf.part for leaf in leaves} | {snapshot.missing.get(layer, "")}
    return LayerStatsSnapshot(
        layer,
        position.phase,
        position.epoch,
        activations.snapshot(),
        gradients.snapshot(),
        batches=1,
        note="; ".join(sorted(notes - {""})),
    )
