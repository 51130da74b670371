"""What the view Extremes wants and shows; `js/src/lib/protocol_extremes.ts` states the same."""

from __future__ import annotations

from typing import Literal, TypedDict

from nansense_widgets.widgets.protocol_statistics import Offer

__all__ = [
    "ChannelPatches", "ContextTokens", "ExtremesContent", "ExtremesOptions", "GallerySource", "HeatMap",
    "PatchCell", "PatchPicture", "PatchSignal",
]  # fmt: skip

By = Literal["pixel", "average"]


class ExtremesOptions(TypedDict):
    source: str
    """Key of the phase and epoch to show; `phase:` for its newest one; empty: the phase in training."""
    by: By
    """The response of the single most extreme unit, or the mean over the sample."""
    heat: bool
    """Whether the channels' responses are sent too, to be laid over the patches."""
    first: int
    count: int
    """Channels wanted."""
    px: int
    """Longest edge of a patch in device pixels; the kernel pools larger ones down to it."""


class GallerySource(TypedDict):
    """One phase of one epoch whose patches are kept."""

    key: str
    phase: str
    epoch: int
    """From 0."""
    batches: int
    """Folded in so far."""


class PatchPicture(TypedDict):
    """Pixels of a patch: `rows * columns` bytes of grey, or three times as many of red, green and blue."""

    rows: int
    columns: int
    colour: bool
    pool: int
    """Values of the input averaged into one pixel, along each axis."""
    frame: tuple[tuple[int, int], tuple[int, int]]
    """The part of the sample shown, first row and the one behind the last, first column and …; what lies
    outside of the sample is padding."""
    offset: tuple[int, int]
    """Rows and columns of padding before the picture, in pixels."""
    size: tuple[int, int]
    """Rows and columns of the frame, in pixels."""
    buffer: int


class PatchSignal(TypedDict):
    """Values of a window: `channels * length` float32."""

    channels: int
    length: int
    pool: int
    buffer: int


class ContextTokens(TypedDict):
    """Some tokens of a sample."""

    start: int
    """Place of the first of them in the sample."""
    ids: list[int]
    texts: list[str]
    """One for each id, or none."""
    text: str
    """The text of all of them, or empty."""
    at: int
    """Which of these tokens it is; -1: all of the sample."""
    total: int
    """Tokens of the sample."""


class HeatMap(TypedDict):
    """The channel's response to the whole sample, as codes (see `protocol.py`) for the channel's scale."""

    rows: int
    columns: int
    buffer: int


class PatchCell(TypedDict):
    value: float | None
    """Null if not finite; then see `text`."""
    text: str
    """`inf` or `-inf`, else empty."""
    position: list[int]
    """Of the unit in the layer's output; empty for a mean."""
    call: int
    phase: str
    epoch: int
    batch_idx: int
    sample: int
    """Place in the batch, from 0."""
    forward: int
    dataset_index: int | None
    label: int | None
    label_name: str
    shape: list[int]
    """Of the sample."""
    box: list[tuple[int, int]]
    size: list[int]
    """Of the receptive field with its padding."""
    approximated: str
    current: bool
    """Whether it is in the batch that is shown now."""
    picture: PatchPicture | None
    signal: PatchSignal | None
    tokens: ContextTokens | None
    heat: HeatMap | None


class ChannelPatches(TypedDict):
    channel: int
    scale: float
    """Largest finite magnitude of its responses among what is shown: the scale of its heat."""
    unsigned: bool
    """Whether none of them is negative."""
    largest: list[PatchCell]
    smallest: list[PatchCell]


class ExtremesContent(TypedDict):
    """With no `chosen`, only `sources`, `hint` and `offer` mean anything."""

    sources: list[GallerySource]
    chosen: str
    hint: str
    """Why there is nothing, or not more; else empty."""
    offer: Offer
    note: str
    """What is missing in this gallery; else empty."""
    about: str
    """How the pictures are made; else empty."""
    input: str
    kind: Literal["picture", "signal", "volume", "features", "tokens"]
    by: By
    averages: bool
    """Whether there are patches by average too."""
    axis: str
    """What the channel axis is called: `channels`, `features`, `heads`."""
    channels: int
    """Of the layer."""
    rows: int
    """Channels with patches: the first ones."""
    samples: int
    """Patches kept at each end."""
    nan: int
    first: int
    """Of the channels sent."""
    patches: list[ChannelPatches]
