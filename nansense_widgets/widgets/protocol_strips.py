"""What the view Strips wants and shows; `js/src/lib/protocol.ts` has the same shapes. See `protocol.py`."""

from __future__ import annotations

from typing import Literal, TypedDict

from nansense_widgets.widgets.protocol import NonFinite, Part, Transform

__all__ = [
    "Exact",
    "ExactAsk",
    "Layout",
    "Probed",
    "Shows",
    "Strip",
    "StripsContent",
    "StripsOptions",
    "Tokens",
]

Layout = Literal["tiles", "slices", "lines", "bar", "tokens", "scalar", "ids"]


Shows = Literal["difference", "perturbed", "original"]
"""Perturbed minus original, or one of them."""


class StripsOptions(TypedDict):
    """What the view Strips shows."""

    sample: int
    """Index in the batch, from 0."""
    average: bool
    """One tile: the mean over the channels (after `transform`)."""
    transform: Transform
    part: Part
    first: int
    """First channel wanted (bar: first feature; tokens: ignored)."""
    count: int
    """How many channels (features) from there."""
    px: int
    """Longest edge of a tile in device pixels; the kernel pools larger tiles down to it."""
    depth: int
    """Slice of a volume."""
    shows: Shows
    """Of a perturbed batch."""


class ExactAsk(TypedDict):
    """View Strips: exact values of one tile (for hover and for the magnifier). The reply is an `Exact`."""

    kind: str
    """As in `Strip`."""
    channel: int
    window: tuple[int, int, int, int] | None
    """Rows from, to, columns from, to (ends excluded) of the tile; null: whole, if at most 262,144 values."""


class Tokens(TypedDict):
    """Token ids of one sample, for the layout `ids`."""

    ids: list[int]
    texts: list[str]
    """One for each id, or none."""
    text: str
    """The text of the whole sample, or empty."""
    total: int
    """Ids of the sample; more than `ids` has if only the first are sent."""


class Strip(TypedDict):
    """One tensor of the view Strips. With `missing` set, only `kind` and `missing` mean anything."""

    kind: str
    """A `Kind`, or `custom ` and the name of a layer-tensor instrument of the user's."""
    missing: str
    """Why there is nothing to draw ("not captured: …"), else empty."""
    layout: Layout
    shape: list[int]
    """Shape of the whole tensor as the layer gave it."""
    dtype: str
    axes: str
    """Names of its axes, e.g. `B C H W`."""
    samples: int
    """Samples to choose from (0: there is no batch axis)."""
    kept: str
    """Empty, or what part was kept, e.g. `first 8 of 32 samples`."""
    about: str
    """Empty, or what else to know of the values, e.g. `sum of 2 passes`."""
    tokens: Tokens | None
    """Only for the layout `ids`, which has no buffer."""
    channels: int
    first: int
    count: int
    tile: tuple[int, int]
    """Rows and columns of one tile as sent. `lines`: 1 row exact, or 2 rows min and max when pooled.
    `bar`: (1, 1), a tile a feature. `tokens`: one tile of tokens by features."""
    full: tuple[int, int]
    """Rows and columns of one tile in the tensor."""
    pool: tuple[int, int]
    """Values averaged into one pixel, (1, 1): exact pixels."""
    scale: float
    """Largest finite magnitude of this sample over all channels; the colour scale is -scale..scale."""
    unsigned: bool
    """True if transformed values cannot be negative (abs, square, bool, unsigned integers)."""
    nonfinite: NonFinite
    """Counts over this sample, all channels."""
    dead: list[int]
    """Channels among those sent whose every value of this sample is zero."""
    depth: int
    """Slices of a volume (0: none)."""
    value: float | None
    """`scalar`: the number. Null if not finite; then see `nonfinite`."""
    buffer: int
    """Index into the buffers; `count * rows * columns` bytes."""


class Probed(TypedDict):
    """What the strips of a probe are of."""

    text: str
    """Which batch, with which weights, in which mode."""
    number: int
    """Of these values, as in `Exact.snapshot`."""
    shows: Shows | None
    """None: nothing is perturbed, so there is nothing to choose."""


class StripsContent(TypedDict):
    strips: list[Strip]
    """Activations and gradients, then what the user's own instruments gave."""
    probed: Probed | None
    """None: they are of the training batch itself."""


class Exact(TypedDict):
    """Exact values of one tile: one buffer, row-major, little-endian, `dtype` as named."""

    type: Literal["exact"]
    view: str
    req: int
    snapshot: int
    missing: str
    channel: int
    window: tuple[int, int, int, int]
    dtype: Literal["float32", "float64"]
