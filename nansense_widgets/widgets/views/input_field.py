"""The receptive field of a unit, over the input that it was measured in."""

from __future__ import annotations

import numpy as np

from nansense_widgets.probe.batch import InputBatch
from nansense_widgets.probe.field import MeasuredField
from nansense_widgets.widgets import protocol_inputs as shapes
from nansense_widgets.widgets.state import place_text

__all__ = ["shown_field"]


def shown_field(
    field: MeasuredField | None, batch: InputBatch, name: str, sample: int, buffers: list[bytes]
) -> shapes.FieldShown | None:
    """What is known of it, if it is of this input and sample; the map's bytes are appended to `buffers`."""
    if field is None or field.unit.input != name or field.unit.sample != sample:
        return None
    rows, columns, buffer = 0, 0, -1
    if field.sensitivity is not None:
        change = field.sensitivity.numpy()
        change = change.reshape(-1, *change.shape[-2:]).max(0) if change.ndim > 1 else change[None]
        largest = float(change.max()) or 1.0
        rows, columns = change.shape
        buffers.append(np.ceil(change / largest * 255).astype(np.uint8).tobytes())
        buffer = len(buffers) - 1
    of = field.batch
    earlier = "" if of is batch else f"measured in an earlier batch ({place_text(of.position)})"
    theory = field.theoretical
    return {
        "layer": field.unit.layer,
        "text": field.unit.text,
        "input": name,
        "sample": sample,
        "theoretical": None if theory is None else list(theory.box),
        "theoretical_note": field.theoretical_note,
        "measured": None if field.measured is None else list(field.measured),
        "note": "; ".join(filter(None, (field.error or field.note, earlier))),
        "rows": rows,
        "columns": columns,
        "buffer": buffer,
        "done": 1.0 if field.is_over else field.done,
    }
