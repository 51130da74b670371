"""What can be drawn of a layer's statistics, as rows of a table: kept epochs, and the current batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.run.position import BatchPosition
from nansense_widgets.stats.current import batch_stats
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import LayerStatsSnapshot, TensorStatsSnapshot
from nansense_widgets.widgets import protocol_statistics
from nansense_widgets.widgets.source import Source

__all__ = [
    "BATCH", "NOTHING_FLOWED", "NO_VALUES", "BatchStatistics", "LayerStatistics", "axis_name", "finite",
    "phase_of_interest", "running_epoch", "statistics_hint",
]  # fmt: skip

BATCH = "batch"
"""Key of the current batch."""

NOTHING_FLOWED = "none: no gradient flowed through this layer here"
NO_VALUES = "none: no values came"


@dataclass(frozen=True)
class LayerStatistics:
    """Statistics of one layer at one moment.

    Attributes:
        rows: by key, epochs newest first, then the current batch.
        hint: why there is nothing, or not more; else empty.
        offer: the action that would give more.
    """

    source: Source
    rows: dict[str, LayerStatsSnapshot]
    hint: str
    offer: protocol_statistics.Offer

    @staticmethod
    def of(source: Source, layer: str, batch: LayerStatsSnapshot | None) -> LayerStatistics:
        """All that is known of a layer now; `batch` as `BatchStatistics` gives it."""
        stats = source.watch_snapshot(layers=[layer]).stats.values()
        whole = [stat for stat in stats if _is_whole(stat)]
        whole.sort(key=lambda stat: stat.epoch, reverse=True)
        rows = {f"{stat.phase}:{stat.epoch}": stat for stat in whole}
        hint, offer = statistics_hint(source, layer, bool(whole))
        if batch is not None:
            rows[BATCH] = batch
        return LayerStatistics(source, rows, hint, offer)

    def find(self, key: str) -> str:
        """The row that a key of the browser means; empty if there is none."""
        if key in self.rows:
            return key
        if key.endswith(":"):  # the newest epoch of a phase
            return next((known for known in self.rows if known.rpartition(":")[0] == key[:-1]), "")
        return ""

    def opening(self) -> str:
        """The row to open on: of the phase in training, else the current batch, else any."""
        position = phase_of_interest(self.source)
        training = "" if position is None else self.find(f"{position.phase}:")
        return training or next(reversed(self.rows), "")

    def row(self, key: str) -> protocol_statistics.StatsRow:
        """One row of the table."""
        stats, batch = self.rows[key], key == BATCH
        total = self.source.schedule.phase_count(stats.phase)
        here = running_epoch(self.source) == (stats.phase, stats.epoch)
        return {
            "key": key,
            "phase": stats.phase,
            "epoch": stats.epoch,
            "batches": stats.batches,
            "total": None if batch else total,
            "running": not batch and here and (total is None or stats.batches < total),
            "note": stats.note,
            "activations": _numbers(stats.activations, NO_VALUES),
            "gradients": _numbers(stats.gradients, NOTHING_FLOWED),
        }


class BatchStatistics:
    """Statistics of the current batch, computed once a snapshot and layer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._of_snapshot = -1
        self._known: dict[str, LayerStatsSnapshot | None] = {}

    def of(self, snapshot: BatchSnapshot | None, layer: str) -> LayerStatsSnapshot | None:
        """Those of a layer; None if it has no values in the snapshot."""
        if snapshot is None:
            return None
        if snapshot.number != self._of_snapshot:
            self._known.clear()
            self._of_snapshot = snapshot.number
        architecture = self._source.architecture
        key = f"{layer} {architecture.nodes[layer].axes_rule if layer in architecture.nodes else None}"
        if key not in self._known:
            limit = self._source.watch_performance.channel_limit
            stats = batch_stats(snapshot, layer, architecture, limit)
            self._known[key] = stats if stats is not None and _has_values(stats) else None
        return self._known[key]


def axis_name(source: Source, layer: str) -> str:
    """What the channel axis of a layer's first output is: `channels`, `features` or `heads`."""
    node = source.architecture.nodes.get(layer)
    ndim = len(node.output_shapes[0]) if node is not None and node.output_shapes else 0
    path = node.output_paths[0] if node is not None and node.output_paths else ""
    axes = source.architecture.axes(layer, path, ndim) if ndim else None
    if axes is None or axes.channel is None:
        return "channels"
    names = axes.names.split()
    if len(names) == ndim and names[axes.channel] == "heads":
        return "heads"
    return "features" if axes.channel % ndim == ndim - 1 else "channels"


def finite(value: float) -> float | None:
    """The number as JSON can hold it."""
    return value if math.isfinite(value) else None


def _has_values(stats: LayerStatsSnapshot) -> bool:
    return any(_size(tensor) for tensor in (stats.activations, stats.gradients))


def _size(stats: TensorStatsSnapshot) -> int:
    return stats.n + stats.nan + stats.posinf + stats.neginf


def _is_whole(stats: LayerStatsSnapshot) -> bool:
    """Whether its histograms are kept, or nothing has come yet."""
    return not stats.activations.quantiles and not stats.gradients.quantiles


def phase_of_interest(source: Source) -> BatchPosition | None:
    """A batch of the phase in training; between two phases of the one that is over and on screen."""
    if source.standing == "before" and source.snapshot is not None:
        return source.snapshot.position
    return source.live_position


def running_epoch(source: Source) -> tuple[str, int] | None:
    """Phase and epoch that more batches are to come to, as far as is known."""
    position = source.live_position
    if position is None or source.status.word in ("finished", "failed", "closed"):
        return None
    total = source.schedule.phase_count(position.phase)
    if source.standing == "after" and total is not None and position.batch_idx + 1 >= total:
        return None
    return position.phase, position.epoch


def statistics_hint(source: Source, layer: str, some: bool) -> tuple[str, protocol_statistics.Offer]:
    """Why a layer has no statistics (`some`: not more), and the action that would give them."""
    scope, status = source.stats_scope, source.status
    if status.word in ("closed", "disabled"):
        gone = "" if some else " What was collected has been released."
        return f"Nothing is collected any more: {status.detail}.{gone}" if status.detail else "", ""
    if scope is StatsScope.NONE:
        if some:
            return (
                "Statistics over whole epochs are no longer collected: what was collected stays.",
                "collect",
            )
        return "Statistics over whole epochs are not collected yet.", "collect"
    if scope is StatsScope.WATCHED and layer not in source.watched_layers:
        return "This layer is not watched, so no batch goes into its statistics.", "watch"
    if not some:
        return "No batch has gone into this layer's statistics yet: step or run.", ""
    return "", ""


def _numbers(stats: TensorStatsSnapshot, missing: str) -> protocol_statistics.Numbers:
    return {
        "missing": "" if _size(stats) else missing,
        "n": stats.n,
        "mean": finite(stats.mean),
        "std": finite(stats.std),
        "median": finite(stats.median),
        "min": finite(stats.min),
        "max": finite(stats.max),
        "nan": stats.nan,
        "posinf": stats.posinf,
        "neginf": stats.neginf,
        "since": stats.first_nonfinite,
        "dead": stats.dead_channel_count,
        "channels": None if stats.alive is None else len(stats.alive),
    }
