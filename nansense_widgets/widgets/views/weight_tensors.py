"""What there is to show of one parameter or buffer: its tensors, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from nansense_widgets.capture.snapshot import BatchSnapshot, ParameterOptimizer
from nansense_widgets.media.values import unreadable
from nansense_widgets.widgets import protocol_weights as shapes
from nansense_widgets.widgets.shown import WATCHED_LATER, why_no_custom
from nansense_widgets.widgets.source import Source

__all__ = ["HeldTensor", "TensorStrip", "held_tensors"]

_DENSE = 1 << 24
"""Values that a sparse tensor may have to be drawn as a dense one."""

_UNSIGNED = frozenset(
    {
        "exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "sum", "exp_inf", "step_size",
        "running_var", "exp_avg_sq_row", "exp_avg_sq_col", "row_var", "col_var", "variance",
    }
)  # fmt: skip
"""State entries and buffers that hold squares, variances and sizes."""


@dataclass(frozen=True)
class TensorStrip:
    """One tensor of a panel.

    Attributes:
        key: `value`, `gradient`, `update`, `state:0:exp_avg`, `custom:name`.
        title: for the reader.
        tensor: None if `missing` says why.
        missing: why there is nothing to draw, else empty.
        note: what else to know, else empty.
        is_magnitude: its values are not negative by what they are.
    """

    key: str
    title: str
    tensor: torch.Tensor | None
    missing: str = ""
    note: str = ""
    is_magnitude: bool = False

    @property
    def kind(self) -> str:
        """Strips of one kind may share a scale: those of two optimizers do, too."""
        parts = self.key.split(":")
        return ":".join((parts[0], *parts[2:])) if parts[0] == "state" else self.key


@dataclass(frozen=True)
class HeldTensor:
    """A parameter or buffer of a layer.

    Attributes:
        name: the one that it has in this layer.
        kind: what it is.
        strips: its tensors, value first.
        notes: what is special of it.
        optimizers: who has it.
    """

    name: str
    kind: str
    strips: tuple[TensorStrip, ...]
    notes: tuple[str, ...] = ()
    optimizers: tuple[ParameterOptimizer, ...] = field(default=(), repr=False)

    @property
    def value(self) -> torch.Tensor | None:
        """The parameter itself."""
        return self.strips[0].tensor


def held_tensors(snapshot: BatchSnapshot, source: Source, layer: str) -> list[HeldTensor]:
    """All parameters of a layer, then its buffers; a tied one that it holds twice comes once."""
    parameters, buffers = source.architecture.tensors_of(layer)

    def parameter(snapshot: BatchSnapshot, name: str, first: str) -> HeldTensor:
        return _parameter(snapshot, name, first, source)

    found: list[HeldTensor] = []
    seen: set[str] = set()
    for names, make in ((parameters, parameter), (buffers, _buffer)):
        for name in names:
            first = snapshot.tied.get(name, name)
            if first not in seen:
                seen.add(first)
                found.append(make(snapshot, name, first))
    return found


def _parameter(snapshot: BatchSnapshot, name: str, first: str, source: Source) -> HeldTensor:
    info = snapshot.parameters.get(first)
    strips = [_strip("value", "Value", snapshot.weights.get(first), snapshot.weight_reasons.get(first, ""))]
    gradient = snapshot.weight_gradients.get(first), snapshot.weight_gradient_reasons.get(first, "")
    strips.append(_strip("gradient", "Gradient", *gradient))
    update = snapshot.weight_updates.get(first), snapshot.weight_update_reasons.get(first, "")
    strips.append(_strip("update", "Last update", *update))
    optimizers = () if info is None else info.optimizers
    for one in optimizers:
        for key, tensor in one.state.items():
            if tensor.ndim:
                title = f"{one.label} {key}" if len(optimizers) > 1 else key
                strips.append(_strip(f"state:{one.optimizer}:{key}", title, tensor, ""))
    custom = snapshot.custom_weight_tensors.get(first, {})
    reasons = snapshot.custom_weight_reasons.get(first, {})
    registered = [known for known, kind in source.instruments.items() if kind == "weight tensor"]
    for instrument in dict.fromkeys((*custom, *reasons, *registered)):
        own, reason = custom.get(instrument), reasons.get(instrument, "")
        why = reason if own is not None else why_no_custom(source, instrument, reason)
        strips.append(_strip(f"custom:{instrument}", instrument, own, why))
    notes = list(_notes(snapshot, name, first))
    return HeldTensor(name, "parameter", tuple(strips), tuple(notes), optimizers)


def _notes(snapshot: BatchSnapshot, name: str, first: str) -> Iterator[str]:
    info = snapshot.parameters.get(first)
    if info is None:
        return
    others = [other for other in info.names if other != name]
    if others:
        yield f"tied with {', '.join(others[:4])}{f' and {len(others) - 4} more' if len(others) > 4 else ''}"
    if not info.trainable:
        yield "frozen: requires_grad is False"
    if not info.optimizers:
        some = any(one.optimizers for one in snapshot.parameters.values())
        yield "in no optimizer" if some else "in no optimizer that the session was given"


def _buffer(snapshot: BatchSnapshot, name: str, first: str) -> HeldTensor:
    strip = _strip("value", "Value", snapshot.buffers.get(first), snapshot.buffer_reasons.get(first, ""))
    if name.rpartition(".")[2] in _UNSIGNED:
        strip = replace(strip, is_magnitude=True)
    others = [other for other, known in snapshot.tied.items() if known == first and other != name]
    notes = (f"the same buffer as {', '.join(others[:4])}",) if others else ()
    return HeldTensor(name, "buffer", (strip,), notes)


def _strip(key: str, title: str, tensor: torch.Tensor | None, reason: str) -> TensorStrip:
    """`reason` says why there is no tensor or, if there is one, what part of it that is."""
    if tensor is None:
        return TensorStrip(key, title, None, reason or WATCHED_LATER)
    note = reason
    if tensor.layout is not torch.strided and not tensor.is_nested:
        if tensor.numel() > _DENSE:
            return TensorStrip(key, title, None, f"not drawn: a sparse tensor of {tensor.numel():,} values")
        held = tensor.coalesce() if tensor.layout is torch.sparse_coo else tensor
        entries = held.indices().shape[1] if tensor.layout is torch.sparse_coo else held.values().numel()
        note = "; ".join(filter(None, (note, f"sparse: entries at {entries:,} places, the rest is zero")))
        tensor = held.to_dense()
    if tensor.is_quantized:
        note = "; ".join(filter(None, (note, "dequantized")))
        tensor = tensor.dequantize()
    if why := unreadable(tensor):
        return TensorStrip(key, title, None, why)
    if tensor.is_complex():
        note = "; ".join(filter(None, (note, "magnitudes of complex numbers")))
    name = key.rpartition(":")[2]
    # What an instrument measures is known only by its values.
    magnitude = name in _UNSIGNED if not key.startswith("custom:") else not tensor.is_complex()
    return TensorStrip(key, title, tensor, "", note, magnitude)


def optimizer_line(one: ParameterOptimizer) -> shapes.PanelOptimizer:
    """What an optimizer holds but for tensors."""
    scalars: list[tuple[str, float]] = []
    for key, tensor in one.state.items():
        if tensor.ndim == 0 and not unreadable(tensor) and not tensor.is_complex():
            scalars.append((key, float(tensor)))
    knobs: list[shapes.Knob] = []
    others: list[str] = []
    for name, value in one.settings.items():
        if isinstance(value, bool):
            others += [name] if value else []
        elif isinstance(value, tuple):
            others.append(f"{name} ({', '.join(f'{number:g}' for number in value)})")
        else:
            knobs.append({"name": name, "value": value})
    return {
        "label": one.label,
        "optimizer": one.optimizer,
        "group": one.group,
        "scalars": scalars,
        "knobs": knobs,
        "others": ", ".join(others),
    }
