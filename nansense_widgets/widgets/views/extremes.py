"""The view Extremes: inputs that drove each channel to its largest and smallest responses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from nansense_widgets.capture.snapshot import BatchSnapshot
from nansense_widgets.media.inputs import InputTransform
from nansense_widgets.media.patch import PatchPainter, heat_of
from nansense_widgets.stats.gallery import ChannelExtremes, Gallery, Patch
from nansense_widgets.stats.scope import StatsScope
from nansense_widgets.stats.snapshot import LayerStatsSnapshot
from nansense_widgets.widgets import protocol, protocol_statistics
from nansense_widgets.widgets import protocol_extremes as shapes
from nansense_widgets.widgets.shown import ShownOutput
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.views.statistics import axis_name, finite, phase_of_interest

__all__ = ["ExtremesView"]

CONTEXT = 8
"""Tokens shown on each side of the one that a unit belongs to."""

PICTURES = ("picture", "volume")


class ExtremesView:
    """Extreme patches of any layer."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def content(
        self,
        snapshot: BatchSnapshot | None,
        shown: ShownOutput,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> shapes.ExtremesContent:
        """A page of channels with their patches, whose pixels are appended to `buffers`."""
        options: shapes.ExtremesOptions = want["options"]
        layer = shown.layer
        galleries = self._galleries(layer)
        chosen = _find(galleries, options["source"]) or self._opening(galleries)
        hint, offer = self._hint(layer, bool(galleries))
        content: shapes.ExtremesContent = {
            "sources": [_source(key, stats) for key, stats in galleries.items()],
            "chosen": chosen,
            "hint": hint,
            "offer": offer,
            "note": "",
            "about": "",
            "input": "",
            "kind": "picture",
            "by": options["by"],
            "averages": False,
            "axis": axis_name(self._source, layer),
            "channels": 0,
            "rows": 0,
            "samples": 0,
            "nan": 0,
            "first": 0,
            "patches": [],
        }
        gallery = galleries[chosen].gallery if chosen else None
        if gallery is not None:
            self._fill(content, gallery, options, snapshot, buffers)
        return content

    def fetch(self, want: protocol.CardWant, ask: Any) -> tuple[dict[str, Any], list[bytes]]:
        """All that there is to know of a patch comes with it."""
        raise NotImplementedError("this view answers no questions")

    def _galleries(self, layer: str) -> dict[str, LayerStatsSnapshot]:
        """By key, newest epochs first."""
        stats = self._source.watch_snapshot(layers=[layer]).stats.values()
        kept = sorted((one for one in stats if one.gallery is not None), key=lambda one: -one.epoch)
        return {f"{one.phase}:{one.epoch}": one for one in kept}

    def _opening(self, galleries: dict[str, LayerStatsSnapshot]) -> str:
        position = phase_of_interest(self._source)
        training = "" if position is None else _find(galleries, f"{position.phase}:")
        return training or next(iter(galleries), "")

    def _hint(self, layer: str, some: bool) -> tuple[str, protocol_statistics.Offer]:
        scope = self._source.stats_scope
        if scope is StatsScope.NONE:
            if some:
                return "Extreme patches are no longer collected: what was collected stays.", "collect"
            return "Extreme patches are collected with the statistics of whole epochs.", "collect"
        if scope is StatsScope.WATCHED and layer not in self._source.watched_layers:
            return "This layer is not watched, so none of its patches are collected.", "watch"
        if not some:
            return "No patches of this layer have been collected yet: step or run.", ""
        return "", ""

    def _fill(
        self,
        content: shapes.ExtremesContent,
        gallery: Gallery,
        options: shapes.ExtremesOptions,
        snapshot: BatchSnapshot | None,
        buffers: list[bytes],
    ) -> None:
        by: shapes.By = options["by"] if gallery.average else "pixel"
        rows = gallery.average if by == "average" else gallery.pixel
        first = max(0, min(options["first"], len(rows) - 1))
        page = rows[first : first + max(0, options["count"])]
        patches = [patch for ends in page for patch in (*ends.largest, *ends.smallest)]
        pictures = patches if gallery.kind in PICTURES else []
        painter = PatchPainter(gallery.input, self._source.input_config, pictures)
        cells = _Cells(self._source, gallery, painter, options, snapshot, buffers)
        content["note"], content["input"], content["kind"] = gallery.note, gallery.input, gallery.kind
        content["by"], content["averages"] = by, bool(gallery.average)
        content["channels"], content["rows"] = gallery.channels, len(rows)
        content["samples"], content["nan"], content["first"] = gallery.samples, gallery.nan, first
        content["patches"] = [cells.row(first + i, ends) for i, ends in enumerate(page)]
        content["about"] = "; ".join([*painter.about, *cells.about])


class _Cells:
    """Makes the cells of one page."""

    def __init__(
        self,
        source: Source,
        gallery: Gallery,
        painter: PatchPainter,
        options: shapes.ExtremesOptions,
        snapshot: BatchSnapshot | None,
        buffers: list[bytes],
    ) -> None:
        self._gallery = gallery
        self._painter = painter
        self._text = source.input_config.transform_for(gallery.input) if gallery.kind == "tokens" else None
        self._px = max(8, options["px"])
        self._heat = options["heat"]
        self._shown = None if snapshot is None else snapshot.position.key
        self._buffers = buffers
        self.about: list[str] = []

    def row(self, channel: int, ends: ChannelExtremes) -> shapes.ChannelPatches:
        """One channel."""
        heats = [patch.heat.float() for patch in (*ends.largest, *ends.smallest) if patch.heat is not None]
        finite_only = [heat[heat.isfinite()] for heat in heats]
        magnitudes = [float(heat.abs().max()) for heat in finite_only if heat.numel()]
        scale = max(magnitudes, default=0.0)
        return {
            "channel": channel,
            "scale": scale,
            "unsigned": all(bool((heat >= 0).all()) for heat in finite_only),
            "largest": [self._cell(patch, scale) for patch in ends.largest],
            "smallest": [self._cell(patch, scale) for patch in ends.smallest],
        }

    def _cell(self, patch: Patch, scale: float) -> shapes.PatchCell:
        sample = patch.sample
        kind = self._gallery.kind
        return {
            "value": finite(patch.value),
            "text": "" if math.isfinite(patch.value) else str(patch.value),
            "position": list(patch.position),
            "call": patch.call,
            "phase": sample.phase,
            "epoch": sample.epoch,
            "batch_idx": sample.batch_idx,
            "sample": sample.index,
            "forward": sample.forward,
            "dataset_index": sample.dataset_index,
            "label": sample.label,
            "label_name": sample.label_name,
            "shape": list(sample.shape),
            "box": list(patch.box),
            "size": [stop - start for start, stop in patch.receptive_field.extent],
            "approximated": patch.receptive_field.approximated,
            "current": self._shown == (sample.phase, sample.epoch, sample.batch_idx),
            "picture": self._picture(patch) if kind in PICTURES else None,
            "signal": self._signal(patch) if kind in ("signal", "features") else None,
            "tokens": self._tokens(patch) if kind == "tokens" else None,
            "heat": self._heat_map(patch, scale) if self._heat else None,
        }

    def _picture(self, patch: Patch) -> shapes.PatchPicture:
        picture = self._painter.picture(patch, self._px)
        return {
            "rows": picture.rows,
            "columns": picture.columns,
            "colour": picture.colour,
            "pool": picture.pool,
            "frame": picture.frame,
            "offset": picture.offset,
            "size": picture.size,
            "buffer": self._add(picture.pixels),
        }

    def _signal(self, patch: Patch) -> shapes.PatchSignal:
        signal = self._painter.signal(patch)
        channels, length = signal.values.shape
        return {
            "channels": channels,
            "length": length,
            "pool": signal.pool,
            "buffer": self._add(signal.values.tobytes()),
        }

    def _tokens(self, patch: Patch) -> shapes.ContextTokens:
        ids = patch.sample.values
        own = patch.heat is not None and tuple(patch.heat.shape) == tuple(patch.sample.shape)
        at = patch.position[0] if own and patch.position else -1
        start = max(0, at - CONTEXT) if at >= 0 else 0
        context = ids[start : (at if at >= 0 else CONTEXT) + CONTEXT + 1]
        texts, text = self._texts(context)
        return {
            "start": start,
            "ids": context.tolist(),
            "texts": texts,
            "text": text,
            "at": at - start if at >= 0 else -1,
            "total": patch.sample.shape[0],
        }

    def _texts(self, ids: torch.Tensor) -> tuple[list[str], str]:
        if self._text is None:
            return [], ""
        try:
            return _read(self._text, ids)
        except Exception as error:  # noqa: BLE001  the user's own function: the ids are shown without it
            why = f"input_transform failed: {type(error).__name__}: {error}"
            if why not in self.about:
                self.about.append(why)
            return [], ""

    def _heat_map(self, patch: Patch, scale: float) -> shapes.HeatMap | None:
        heat = heat_of(patch, scale, 96)
        if heat is None:
            return None
        return {"rows": heat.rows, "columns": heat.columns, "buffer": self._add(heat.codes)}

    def _add(self, data: bytes) -> int:
        self._buffers.append(data)
        return len(self._buffers) - 1


def _read(text: InputTransform, ids: torch.Tensor) -> tuple[list[str], str]:
    given = text(ids.clone())
    if isinstance(given, str):
        return [], given
    if isinstance(given, Sequence) and len(given) == len(ids):
        return [str(one) for one in given], ""
    raise TypeError(f"it gave a {type(given).__name__} for {len(ids)} token ids, not a text for each")


def _find(galleries: dict[str, LayerStatsSnapshot], key: str) -> str:
    if key in galleries:
        return key
    if key.endswith(":"):  # the newest epoch of a phase
        return next((known for known in galleries if known.rpartition(":")[0] == key[:-1]), "")
    return ""


def _source(key: str, stats: LayerStatsSnapshot) -> shapes.GallerySource:
    return {"key": key, "phase": stats.phase, "epoch": stats.epoch, "batches": stats.batches}
