"""The view Histogram: a layer's statistics as a table, and the histograms of one or two of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.media.values import dtype_name
from nansense_widgets.stats.bins import BINS, histogram_edges
from nansense_widgets.stats.snapshot import LayerStatsSnapshot, TensorStatsSnapshot
from nansense_widgets.stats.summary import as_numbers
from nansense_widgets.widgets import protocol, protocol_statistics
from nansense_widgets.widgets.shown import ShownOutput, tensor_of
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.statistics import (
    BATCH,
    NO_VALUES,
    NOTHING_FLOWED,
    BatchStatistics,
    LayerStatistics,
    axis_name,
)

__all__ = ["HistogramView"]

ZERO = BINS // 2

SAMPLES = 8
"""Samples named under the pointer."""


class HistogramView:
    """Histograms of any layer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._batch = BatchStatistics(source)

    def content(
        self,
        snapshot: BatchSnapshot | None,
        shown: ShownOutput,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> protocol_statistics.HistogramContent:
        """The table, and counts over the bins that occur; these are appended to `buffers`."""
        options: protocol_statistics.HistogramOptions = want["options"]
        layer = want["layer"]
        known = LayerStatistics.of(self._source, layer, self._batch.of(snapshot, layer))
        chosen = known.find(options["source"]) or known.opening()
        compared = known.find(options["compare"])
        drawn = [chosen] if chosen else []
        drawn += [compared] if compared not in ("", chosen) else []
        hint = known.hint
        if not known.rows:
            hint = f"{hint} Nor is there a current batch to show: {shown.why or NO_VALUES}."
        elif options["source"] not in ("", chosen) and not options["source"].endswith(":"):
            hint = f"{_said(options['source'])} is not kept any more, or has no values yet. {hint}"
        if chosen and known.rows[chosen].note:  # such as: only captured batches
            hint = f"{hint} {known.rows[chosen].note[:1].upper()}{known.rows[chosen].note[1:]}."
        return {
            "rows": [known.row(key) for key in known.rows],
            "chosen": chosen,
            "hint": hint.strip(),
            "offer": known.offer,
            "figures": [
                {
                    "key": key,
                    "activations": _bars(known.rows[key].activations, NO_VALUES, buffers),
                    "gradients": _bars(known.rows[key].gradients, self._no_gradient(key, shown), buffers),
                }
                for key in drawn
            ],
            "channels": self._channels(layer, known.rows[chosen], options["rows"], buffers)
            if chosen
            else None,
        }

    def fetch(
        self, want: protocol.CardWant, ask: protocol_statistics.InBinAsk
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Which samples of the current batch have values in some bins: an `InBin`."""
        snapshot, layer = self._source.snapshot, want["layer"]
        reply: dict[str, Any] = {
            "type": "in_bin",
            "snapshot": -1 if snapshot is None else snapshot.number,
            "missing": "",
            "samples": [],
            "total": 0,
            "of": 0,
        }
        counts: npt.NDArray[np.int64] | None = None
        for call in () if snapshot is None else snapshot.layers.get(layer, ()):
            tensor, _ = tensor_of(call.leaves[0], ask["kind"]) if call.leaves else (None, "")
            if tensor is None:
                continue
            axes = self._source.architecture.axes(layer, call.leaves[0].path, tensor.ndim)
            batch = None if axes is None else axes.batch
            if batch is None:
                reply["missing"] = "it is not known which axis of this layer counts the samples"
                return reply, []
            here = _in_bins(tensor, ask).movedim(batch, 0).flatten(1).sum(1).numpy()
            counts = here if counts is None or len(counts) != len(here) else counts + here
        if counts is None:
            reply["missing"] = "the current batch has no such values"
            return reply, []
        order = np.argsort(-counts, kind="stable")[:SAMPLES]
        reply["samples"] = [(int(i), int(counts[i])) for i in order if counts[i]]
        reply["total"], reply["of"] = int(np.count_nonzero(counts)), len(counts)
        return reply, []

    def _no_gradient(self, key: str, shown: ShownOutput) -> str:
        if key == BATCH and shown.leaf is not None and shown.leaf.gradient_reason:
            return shown.leaf.gradient_reason
        return NOTHING_FLOWED

    def _channels(
        self, layer: str, stats: LayerStatsSnapshot, kind: protocol.Kind, buffers: list[bytes]
    ) -> protocol_statistics.ChannelRows:
        tensor = stats.activations if kind == "activations" else stats.gradients
        content: protocol_statistics.ChannelRows = {
            "kind": kind,
            "missing": "",
            "axis": axis_name(self._source, layer),
            "channels": 0,
            "rows": 0,
            "zeros": [],
            "nonfinite": [],
            "dead": [],
            "first": 0,
            "count": 0,
            "buffer": -1,
        }
        hists, nonfinite = tensor.channel_hists, tensor.channel_nonfinite
        if hists is None or nonfinite is None or tensor.alive is None:
            nothing = NO_VALUES if kind == "activations" else NOTHING_FLOWED
            content["missing"] = "no axis of this layer is known to be channels" if tensor.n else nothing
            return content
        counts = hists.numpy()
        sides, first = _by_magnitude(counts)
        content["channels"], content["rows"] = len(tensor.alive), len(counts)
        content["zeros"], content["nonfinite"] = counts[:, ZERO].tolist(), nonfinite.tolist()
        content["dead"] = torch.nonzero(~tensor.alive).flatten().tolist()
        content["first"], content["count"] = first, sides.shape[-1] // 2
        content["buffer"] = len(buffers)
        buffers.append(sides.astype(np.float32).tobytes())
        return content


def _bars(stats: TensorStatsSnapshot, missing: str, buffers: list[bytes]) -> protocol_statistics.Bars:
    nonfinite = stats.nan + stats.posinf + stats.neginf
    bars: protocol_statistics.Bars = {
        "missing": "",
        "dtype": "" if stats.dtype is None else dtype_name(stats.dtype),
        "n": stats.n,
        "nonfinite": nonfinite,
        "zero": 0,
        "first": 0,
        "count": 0,
        "buffer": -1,
    }
    if stats.hist is None or not stats.n:
        bars["missing"] = "none of its values is finite" if nonfinite else missing
        return bars
    counts = stats.hist.numpy()
    sides, first = _by_magnitude(counts)
    bars["zero"] = int(counts[ZERO])
    bars["first"], bars["count"] = first, len(sides) // 2
    bars["buffer"] = len(buffers)
    buffers.append(sides.astype(np.float64).tobytes())
    return bars


def _by_magnitude(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    """Counts (…, 2041) over the n magnitudes that occur: (…, 2 n), negative ones first; and the least bin."""
    negative, positive = counts[..., ZERO - 1 :: -1], counts[..., ZERO + 1 :]
    either = (negative + positive).reshape(-1, BINS // 2).any(0)
    used = np.flatnonzero(either)
    low, high = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
    return np.concatenate([negative[..., low:high], positive[..., low:high]], axis=-1), low


def _in_bins(tensor: torch.Tensor, ask: protocol_statistics.InBinAsk) -> torch.Tensor:
    """Where the values lie in the bins: bool in the shape of the tensor."""
    values, edges = as_numbers(tensor), histogram_edges()
    if ask["sign"] == 0:
        return values == 0
    magnitudes = values * ask["sign"]
    low = 0.0 if ask["low"] == 0 else float(edges[ZERO + 1 + ask["low"]])
    high = float(edges[ZERO + 2 + ask["high"]])
    inside = (magnitudes > 0) & (magnitudes >= low)
    if ask["high"] < BINS // 2 - 1:
        return inside & (magnitudes < high)
    return inside & magnitudes.isfinite()


def _said(key: str) -> str:
    phase, _, epoch = key.rpartition(":")
    return f"Epoch {int(epoch) + 1} of {phase}" if epoch.isdecimal() else "The current batch"
