"""What cards show of a probe, in place of the training batch: the same layers, computed for another input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import torch

from nansense_widgets.capture.snapshot import BatchSnapshot, LayerCall, LeafValue
from nansense_widgets.probe.result import ProbeResult
from nansense_widgets.widgets.protocol_strips import Probed, Shows
from nansense_widgets.widgets.source import Source
from nansense_widgets.widgets.state import place_text

__all__ = ["probed", "shown_result"]

SHOWS: tuple[Shows, ...] = get_args(Shows)


def shown_result(source: Source) -> ProbeResult | None:
    """The probe that is to be shown: none where nothing is pinned or perturbed, or where it failed."""
    result = source.probe.result
    return None if result is None or result.error else result


def probed(
    source: Source, snapshot: BatchSnapshot | None, layer: str, shows: Shows
) -> tuple[BatchSnapshot | None, Probed | None]:
    """A snapshot with one layer's values of the probe, and what they are; the same if there is no probe."""
    failed = source.probe.result
    if snapshot is not None and failed is not None and failed.error:
        text = f"the probe failed ({failed.error}): these are the values of the batch itself"
        return snapshot, {"text": text, "shows": None, "number": snapshot.number}
    result = shown_result(source)
    if snapshot is None or result is None:
        return snapshot, None
    chosen = shows if result.perturbations else None
    calls = result.layers.get(layer, ())
    if chosen in ("perturbed", "difference") and result.perturbations:
        after = result.perturbed.get(layer, ())
        calls = after if chosen == "perturbed" else _difference(calls, after)
    number = -2 - len(SHOWS) * result.number - (0 if chosen is None else SHOWS.index(chosen))
    missing = {layer: result.missing.get(layer, WATCHED_LATER)} if not calls else {}
    made = replace(
        snapshot,
        number=number,
        layers={layer: calls} if calls else {},
        missing=missing,
        custom_activations={},
        custom_activation_reasons={},
    )
    return made, {"text": _said(source, result, chosen), "shows": chosen, "number": number}


WATCHED_LATER = "not computed yet: watched after this probe ran; it is in the next one"


def _said(source: Source, result: ProbeResult, shows: Shows | None) -> str:
    """Which values these are."""
    own, at = result.batch.position, result.weights_at
    parts = [("pinned: " if result.pinned else "") + place_text(own)]
    if at is not None and (own is None or at.key != own.key):
        parts.append(f"weights after {place_text(at)}")
    else:
        parts.append("weights after it")
    left = f"modules as the loop left them ({result.training})"
    parts.append(left if result.mode == "unchanged" else f"{result.mode} mode")
    if shows is not None:
        parts.insert(0, "perturbed minus original" if shows == "difference" else shows)
    if source.probe.computing and source.probe.perturbations != result.perturbations:
        parts.append("before the last change")
    return " \u00b7 ".join(parts)


def _difference(before: Sequence[LayerCall], after: Sequence[LayerCall]) -> tuple[LayerCall, ...]:
    """Perturbed minus original, output by output."""
    known = {(call.call, leaf.path): leaf for call in before for leaf in call.leaves}
    return tuple(
        LayerCall(
            call.call, tuple(_subtracted(known.get((call.call, leaf.path)), leaf) for leaf in call.leaves)
        )
        for call in after
    )


def _subtracted(before: LeafValue | None, after: LeafValue) -> LeafValue:
    one, other = None if before is None else before.activation, after.activation
    if one is None or other is None:
        return replace(
            after, activation=None, activation_reason=after.activation_reason or "not in both runs"
        )
    if one.shape != other.shape:
        why = f"no difference: the shape changed from {tuple(one.shape)} to {tuple(other.shape)}"
        return replace(after, activation=None, activation_reason=why)
    if one.layout is not torch.strided or one.is_quantized:
        one, other = _plain(one), _plain(other)
    if not one.is_complex():
        wide = torch.float64 if one.dtype is torch.float64 or not one.is_floating_point() else torch.float32
        one, other = one.to(wide), other.to(wide)
    return replace(after, activation=other - one)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.dequantize() if tensor.is_quantized else tensor.to_dense()
