"""The view Strips: activations and gradients of one sample as tiles."""

from __future__ import annotations

from typing import Any, get_args

import torch

from nansense_widgets.capture.attention import MAPS
from nansense_widgets.capture.axes import Axes
from nansense_widgets.capture.snapshot import BatchSnapshot, LeafValue
from nansense_widgets.media.layout import TensorLayout
from nansense_widgets.media.strip import Missing, View, exact_tile, render_strip, sample_range
from nansense_widgets.media.values import Range, drawable, dtype_name
from nansense_widgets.widgets import protocol
from nansense_widgets.widgets.probed import probed
from nansense_widgets.widgets.protocol_strips import ExactAsk, Strip, StripsContent, StripsOptions
from nansense_widgets.widgets.shown import ShownOutput, layout_of, tensor_of, why_no_custom
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.tokens import tokens_of

__all__ = ["StripsView"]

KINDS: tuple[protocol.Kind, ...] = get_args(protocol.Kind)

CUSTOM = "custom "
"""Before the name of an instrument, in the kind of its strip."""


class StripsView:
    """Strips of any layer.

    The scale of a strip is over all its channels, however few are drawn, so it is measured once a
    snapshot and sample and remembered.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ranges: dict[tuple[Any, ...], Range | Missing] = {}
        self._of_snapshot = -1

    def content(
        self,
        snapshot: BatchSnapshot | None,
        shown: ShownOutput,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> StripsContent:
        """Activations and gradients as tiles; their pixels are appended to `buffers`."""
        snapshot, of_probe = probed(self._source, snapshot, want["layer"], want["options"]["shows"])
        if of_probe is not None:
            shown = ShownOutput.chosen(self._source, snapshot, want)
        leaf = shown.leaf
        if snapshot is None or leaf is None:
            return {"strips": [_missing(kind, shown.why) for kind in KINDS], "probed": of_probe}
        kinds = (*KINDS, *([] if of_probe else custom_kinds(self._source)))
        strips = [self._strip(snapshot, kind, shown, leaf, want, buffers) for kind in kinds]
        if of_probe is not None and of_probe["shows"] == "difference":
            for strip in strips:
                strip["dead"] = []  # no difference is no dead channel
        return {"strips": strips, "probed": of_probe}

    def fetch(self, want: protocol.CardWant, ask: ExactAsk) -> tuple[dict[str, Any], list[bytes]]:
        """Exact values of one tile: an `Exact`, and its buffer."""
        snapshot, _ = probed(self._source, self._source.snapshot, want["layer"], want["options"]["shows"])
        shown = ShownOutput.chosen(self._source, snapshot, want)
        reply: dict[str, Any] = {
            "type": "exact",
            "snapshot": -1 if snapshot is None else snapshot.number,
            "missing": shown.why,
            "channel": ask["channel"],
            "window": (0, 0, 0, 0),
            "dtype": "float32",
        }
        if shown.leaf is None or snapshot is None:
            return reply, [b""]
        tensor, reason = self._tensor(snapshot, ask["kind"], shown, shown.leaf, want)
        if tensor is None:
            reply["missing"] = reason
            return reply, [b""]
        tensor = drawable(tensor, want["options"]["part"])
        layout = layout_of(tensor, shown.axes(self._source, tensor))
        window = ask["window"]
        corners = None if window is None else (window[0], window[1], window[2], window[3])
        tile = exact_tile(tensor, layout, _view(want["options"]), channel=int(ask["channel"]), window=corners)
        if isinstance(tile, Missing):
            reply["missing"] = tile.reason
            return reply, [b""]
        reply["window"] = tile.window
        reply["dtype"] = tile.dtype
        return reply, [tile.tobytes()]

    def _strip(
        self,
        snapshot: BatchSnapshot,
        kind: str,
        shown: ShownOutput,
        leaf: LeafValue,
        want: protocol.CardWant,
        buffers: list[bytes],
    ) -> Strip:
        tensor, reason = self._tensor(snapshot, kind, shown, leaf, want)
        if tensor is None:
            return _missing(kind, reason)
        options, axes = want["options"], shown.axes(self._source, tensor)
        notes = {"activations": leaf.activation_note, "gradients": leaf.gradient_note}
        if kind == "activations" and shown.is_tokens(self._source):
            return self._tokens(kind, tensor, axes or Axes(), shown.layer, options["sample"])
        drawn = drawable(tensor, options["part"])
        layout = layout_of(drawn, axes)
        key = (want["layer"], want["call"], leaf.path, kind, options["sample"], options["part"], layout)
        known = self._range(snapshot.number, key, drawn, layout, options["sample"])
        picture = (
            known if isinstance(known, Missing) else render_strip(drawn, layout, _view(options), known=known)
        )
        if isinstance(picture, Missing):
            return _missing(kind, picture.reason)
        buffers.append(picture.pixels)
        return {
            "kind": kind,
            "missing": "",
            "layout": picture.layout,
            "shape": list(picture.shape),
            "dtype": dtype_name(tensor.dtype),
            "axes": _named(picture.axes, tensor, options["part"]),
            "samples": picture.samples,
            "kept": leaf.part,
            "about": notes.get(kind, ""),
            "tokens": None,
            "channels": picture.channels,
            "first": picture.first,
            "count": picture.count,
            "tile": picture.tile,
            "full": picture.full,
            "pool": picture.pool,
            "scale": picture.scale,
            "unsigned": picture.unsigned or (leaf.path == MAPS and kind == "activations"),
            "nonfinite": {
                "nan": picture.nonfinite.nan,
                "posinf": picture.nonfinite.posinf,
                "neginf": picture.nonfinite.neginf,
            },
            "dead": list(picture.dead),
            "depth": picture.depth,
            "value": picture.value,
            "buffer": len(buffers) - 1,
        }

    def _tensor(
        self,
        snapshot: BatchSnapshot,
        kind: str,
        shown: ShownOutput,
        leaf: LeafValue,
        want: protocol.CardWant,
    ) -> tuple[torch.Tensor | None, str]:
        """One tensor of the card, or why there is none."""
        if kind in KINDS:
            return tensor_of(leaf, kind)
        if shown.index or want["call"] != 1:
            return None, "not evaluated: instruments are given the first output of the first call"
        name = kind.removeprefix(CUSTOM)
        tensor = snapshot.custom_activations.get(shown.layer, {}).get(name)
        reason = snapshot.custom_activation_reasons.get(shown.layer, {}).get(name, "")
        if tensor is None:
            reason = why_no_custom(self._source, name, reason)
        return tensor, reason

    def _tokens(self, kind: str, tensor: torch.Tensor, axes: Axes, layer: str, sample: int) -> Strip:
        strip = _missing(kind, "-")
        strip["missing"], strip["layout"] = "", "ids"
        strip["shape"], strip["dtype"] = list(tensor.shape), dtype_name(tensor.dtype)
        strip["samples"] = 0 if axes.batch is None or tensor.ndim < 2 else tensor.shape[axes.batch]
        strip["axes"] = "T" if not strip["samples"] else "B T" if axes.batch == 0 else "T B"
        text = self._source.input_config.transform_for(layer)
        if strip["samples"] and not 0 <= sample < strip["samples"]:
            return _missing(kind, f"there is no sample {sample}: the batch has {strip['samples']}")
        try:
            tokens = tokens_of(tensor, axes, sample, text)
        except Exception as error:  # noqa: BLE001  the user's own function: the ids are shown without it
            tokens = tokens_of(tensor, axes, sample, None)
            strip["about"] = f"input_transform failed: {type(error).__name__}: {error}"
        strip["tokens"], strip["full"] = tokens, (1, tokens["total"])
        return strip

    def _range(
        self,
        number: int,
        key: tuple[Any, ...],
        tensor: torch.Tensor,
        layout: TensorLayout,
        sample: int,
    ) -> Range | Missing:
        if number != self._of_snapshot:
            self._ranges.clear()
            self._of_snapshot = number
        if key not in self._ranges:
            self._ranges[key] = sample_range(tensor, layout, sample)
        return self._ranges[key]


def custom_kinds(source: Source) -> list[str]:
    """What the user's layer-tensor instruments add to each card."""
    return [CUSTOM + name for name, kind in source.instruments.items() if kind == "layer tensor"]


def _named(axes: str, tensor: torch.Tensor, part: protocol.Part) -> str:
    """Names of the axes and, of complex numbers, the part that is drawn."""
    return f"{axes} {_PARTS[part]}" if tensor.is_complex() and part != "magnitude" else axes


_PARTS = {"real": "Re z", "imaginary": "Im z"}


def _view(options: StripsOptions) -> View:
    return View(
        sample=options["sample"],
        average=options["average"],
        transform=options["transform"],
        first=options["first"],
        count=options["count"],
        px=options["px"],
        depth=options["depth"],
    )


def _missing(kind: str, reason: str) -> Strip:
    return {
        "kind": kind,
        "missing": reason or "not captured",
        "layout": "scalar",
        "shape": [],
        "dtype": "",
        "axes": "",
        "samples": 0,
        "kept": "",
        "about": "",
        "tokens": None,
        "channels": 0,
        "first": 0,
        "count": 0,
        "tile": (0, 0),
        "full": (0, 0),
        "pool": (1, 1),
        "scale": 0.0,
        "unsigned": False,
        "nonfinite": {"nan": 0, "posinf": 0, "neginf": 0},
        "dead": [],
        "depth": 0,
        "value": None,
        "buffer": -1,
    }
