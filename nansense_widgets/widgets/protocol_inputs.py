"""What the view Inputs wants and shows; `js/src/lib/protocol_inputs.ts` has the same. See `protocol.py`.

The view is of no layer. It shows the inputs that cards are of: of the batch that was captured last, or of the
pinned one; with what was painted on them.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from nansense_widgets.widgets.protocol import Position
from nansense_widgets.widgets.protocol_strips import Tokens

__all__ = [
    "Answer",
    "AnswerClass",
    "FeaturesShown",
    "FieldShown",
    "InputChoice",
    "InputKind",
    "InputsContent",
    "InputsOptions",
    "Order",
    "PictureShown",
    "Pinned",
    "PinnedLoss",
    "ProbeState",
    "ShownPerturbation",
    "SignalShown",
    "Thumb",
]

InputKind = Literal["picture", "features", "tokens", "signal", "other"]
Order = Literal["loss", "batch"]


class InputsOptions(TypedDict):
    """What the view Inputs shows."""

    input: str
    """Name of the input; empty: the first."""
    sample: int
    """Index in the batch, from 0."""
    order: Order
    """Of the thumbnails: largest loss first, or as in the batch."""
    channel: int
    """One channel of a picture; -1: as a picture of colours, grey, or the first three."""
    depth: int
    """Slice of a volume; -1: the middle one."""
    original: bool
    """Without what was painted on it."""
    px: int
    """The picture is pooled to at most so many pixels on a side."""
    thumb: int
    """So are the thumbnails."""
    first: int
    """Thumbnails wanted, in their order."""
    count: int


class InputChoice(TypedDict):
    name: str
    """Of the input, as in `add_perturbation`: a parameter of the forward, with a path if it is nested."""
    shape: list[int]
    dtype: str
    kind: InputKind


class PictureShown(TypedDict):
    """Kind `picture`: one buffer of bytes, `rows * columns` times one (grey) or three (colours)."""

    rows: int
    columns: int
    full: tuple[int, int]
    """Rows and columns of the input."""
    pool: int
    """Values along each axis that are one pixel; 1: exact pixels, which can be painted."""
    colour: bool
    channels: int
    """Of the input."""
    depth: int
    """Slices of a volume; 0: it is none."""
    slice: int
    """The one that is shown."""
    black: list[float]
    """What black is in values of the input: one a channel that can be painted."""
    white: list[float]
    paint: list[int]
    """Channels of the input that these are of: three for a picture of colours, else those that are shown."""
    about: list[str]
    """What else to know of it, e.g. `first three of 12 channels`."""
    edited: list[list[int]]
    """Row and column of pixels that are painted; at most 4,096."""
    buffer: int


class FeaturesShown(TypedDict):
    """Kind `features`: one buffer of float32, a value each."""

    first: int
    count: int
    total: int
    scale: float
    """Largest finite magnitude."""
    edited: list[int]
    buffer: int


class SignalShown(TypedDict):
    """Kind `signal`: one buffer of float32, `channels * length`."""

    channels: int
    """Sent; the first of `total`."""
    total: int
    length: int
    """Sent."""
    full: int
    """Of the signal."""
    pool: int
    low: float
    high: float
    buffer: int


class Thumb(TypedDict):
    """One sample to choose."""

    sample: int
    label: str
    """Empty: not known."""
    loss: float | None
    right: bool | None
    """Whether the model's prediction is the label; null: not known."""
    rows: int
    columns: int
    colour: bool
    buffer: int
    """Bytes as in `PictureShown`; -1: there is no picture of it."""
    text: str
    """What stands in place of a picture: first tokens, or numbers."""


class AnswerClass(TypedDict):
    index: int
    name: str
    """As the user named it, else the index."""
    share: float
    """Probability."""
    before: float | None
    """The same without the perturbations."""


class Answer(TypedDict):
    """What the model says of the sample."""

    kind: Literal["classes", "values", "none"]
    classes: list[AnswerClass]
    """The likeliest ones, and the label's if it is known, in order of their index."""
    total: int
    """Of classes."""
    predicted: int | None
    label: int | None
    text: str
    """`values`: the output and, if known, the target. `none`: why there is no answer."""
    loss: float | None
    loss_before: float | None
    """Without the perturbations."""
    loss_name: str
    """Which loss it is, e.g. `cross-entropy`; empty while unknown."""
    loss_note: str
    """How it is known, or why it is not."""


class PinnedLoss(TypedDict):
    at: float
    """Epochs since the beginning of the run."""
    loss: float


class Pinned(TypedDict):
    """The batch that is pinned."""

    text: str
    """Where it comes from: `epoch 1, train, batch 3`, or `your own`."""
    position: Position | None
    samples: int
    losses: list[PinnedLoss]
    """Of the sample that is shown, at each update since it was pinned."""
    losses_note: str
    """Why there are none."""


class ShownPerturbation(TypedDict):
    number: int
    text: str
    """The call that made it."""
    target: str
    """Name of the input or layer."""
    sample: int | None


class ProbeState(TypedDict):
    """How the probe stands: the forward that is run once more, for a pinned batch or a perturbation."""

    mode: Literal["unchanged", "eval", "train"]
    mode_note: str
    """What that means now, e.g. `as the loop has left it (train)`."""
    computing: bool
    error: str
    """What went wrong in the last probe; then cards show the batch itself."""
    notes: list[str]
    """What else to know, e.g. `other samples changed too: BatchNorm in train mode mixes them`."""
    seconds: float
    can_pin: str
    """Why there is nothing to pin; empty if there is."""
    moved: str
    """How far the perturbations have got, e.g. `37 of 40 layers changed`."""


class FieldShown(TypedDict):
    """The receptive field of one unit: which values of the input it depends on."""

    layer: str
    text: str
    """The unit, e.g. `conv2, channel 3 at (12, 7)`."""
    input: str
    sample: int
    theoretical: list[tuple[int, int]] | None
    """First row and the one behind the last, first column and …; null: not known."""
    theoretical_note: str
    """Why not, or why it is approximated; else empty."""
    measured: list[tuple[int, int]] | None
    """The same, of what did change the unit; null: not measured yet, or nothing did."""
    note: str
    """How it was measured, or what went wrong."""
    rows: int
    columns: int
    buffer: int
    """How much each part of the input changes the unit: a byte each, 255 for the most; -1: not there yet."""
    done: float
    """Share of the measurement that is done, from 0 to 1."""


class InputsContent(TypedDict):
    missing: str
    """Why there are no inputs to show, else empty."""
    of: str
    """What they are of: `epoch 1, train, batch 3`, or `pinned: …`."""
    inputs: list[InputChoice]
    input: str
    kind: InputKind
    samples: int
    """0: there is no batch axis."""
    sample: int
    """The one that is shown: the nearest that there is."""
    label: str
    picture: PictureShown | None
    features: FeaturesShown | None
    tokens: Tokens | None
    edited_tokens: list[int]
    """Places of tokens that were replaced."""
    signal: SignalShown | None
    other: str
    """What an input is that cannot be drawn."""
    thumbs: list[Thumb]
    first: int
    """Of the thumbnails."""
    order: Order
    """By loss only where losses are known."""
    order_note: str
    """Why not, else empty."""
    answer: Answer
    pinned: Pinned | None
    perturbations: list[ShownPerturbation]
    probe: ProbeState
    field: FieldShown | None
    """Of the unit that was asked for last, if it is of this input and sample."""
