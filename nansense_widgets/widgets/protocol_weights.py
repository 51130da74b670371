"""What the view Weights wants and shows; `js/src/lib/protocol_weights.ts` states the same."""

from __future__ import annotations

from typing import Literal, TypedDict

from nansense_widgets.widgets.protocol import NonFinite

__all__ = [
    "Arranged",
    "ExactWeightsAsk",
    "Knob",
    "PanelOptimizer",
    "PanelOptions",
    "ScaleMode",
    "WeightAxis",
    "WeightPanel",
    "WeightStrip",
    "WeightsContent",
    "WeightsOptions",
]  # fmt: skip

Order = Literal["index", "norm", "similarity"]
ScaleMode = Literal["own", "shared", "pinned"]


class Arranged(TypedDict):
    """Which axis is used for what, as indices into `WeightPanel.axes`; -1: none."""

    y: int
    x: int
    tile: int
    colour: int
    """An axis of size 3 that is drawn as red, green and blue."""


class PanelOptions(TypedDict):
    """How one parameter is drawn. A parameter without options is drawn as its class suggests."""

    split: bool
    """Whether an axis that consists of parts (heads, gates) counts as two."""
    arranged: Arranged | None
    """None: as the class suggests."""
    index: list[int]
    """A place along every axis; only that of axes without another use matters."""
    order: Order
    """Of the tiles or, where there are none, of the rows."""
    group: bool
    zoom: int
    """Doublings of the size at which all fits."""
    region: list[int] | None
    """First tile and number of tiles, in the order drawn; rows and columns from, to. None: the first ones."""
    pins: dict[str, float]
    """Scale by key of a strip, while scales are pinned."""


class WeightsOptions(TypedDict):
    first: int
    count: int
    """Panels wanted."""
    box: tuple[float, float]
    """Room for one strip, in CSS pixels."""
    ratio: float
    """Device pixels to a CSS pixel."""
    scale: ScaleMode
    """One scale for each strip; one for all of a kind (weights, gradients, …) of the layer; or pinned."""
    panels: dict[str, PanelOptions]


class ExactWeightsAsk(TypedDict):
    """Exact values of one tile; the reply is an `Exact` with the tile as its channel."""

    panel: str
    strip: str
    tile: int
    """The place along the tile axis, and for pictures in colour along that axis."""
    colour: int
    window: tuple[int, int, int, int] | None
    """Rows from, to, columns from, to (ends excluded), by index and not in the order drawn."""


class WeightAxis(TypedDict):
    """An axis to choose from; see `media.tiler.TilerAxis`."""

    name: str
    size: int
    source: int
    step: int
    labels: list[str]


class WeightStrip(TypedDict):
    """One tensor of a panel. With `missing` set, only `key`, `title` and `missing` mean anything."""

    key: str
    """`value`, `gradient`, `update`, `state:0:exp_avg`, `custom:name`."""
    title: str
    missing: str
    note: str
    """Empty, or what else to know, e.g. `first 512 of 30000 rows`."""
    dtype: str
    shape: list[int]
    own: list[WeightAxis]
    """Its axes, where the tensor has another shape than the parameter; else empty."""
    arranged: Arranged
    index: list[int]
    layout: Literal["tiles", "lines", "number"]
    """`lines`: charts of one row; `number`: one value."""
    tiles: int
    full: tuple[int, int]
    """Rows and columns of one tile."""
    colours: int
    """1, or 3 for a picture in colour."""
    pool: int
    """Values along each axis to a pixel (1: none are pooled)."""
    magnify: int
    """Device pixels to a value, if none are pooled."""
    region: tuple[int, int, int, int, int, int]
    """The part that is sent: first tile, number of tiles, rows from, to, columns from, to."""
    tile: tuple[int, int]
    """Rows and columns of the part of a tile that is sent, in pixels."""
    scale: float
    unsigned: bool
    numel: int
    zeros: int
    norm: float
    low: float
    """The smallest value."""
    largest: float
    """The largest magnitude."""
    nonfinite: NonFinite
    value: float | None
    """`number`: the value. Null if not finite."""
    buffer: int
    """`count * rows * columns * colours` codes."""


class Knob(TypedDict):
    """A hyperparameter that is a number."""

    name: str
    value: float


class PanelOptimizer(TypedDict):
    """What one optimizer holds for the parameter, but for tensors."""

    label: str
    optimizer: int
    """Its index among those that `start` was given."""
    group: int
    scalars: list[tuple[str, float]]
    """State entries that are one number, such as Adam's `step`."""
    knobs: list[Knob]
    others: str
    """Settings that are no single number, e.g. `betas (0.9, 0.999), amsgrad`."""


class WeightPanel(TypedDict):
    """One parameter or buffer."""

    name: str
    kind: Literal["parameter", "buffer"]
    shape: list[int]
    dtype: str
    notes: list[str]
    """What is special of it: tied, frozen, in no optimizer."""
    optimizers: list[PanelOptimizer]
    axes: list[WeightAxis]
    splits: bool
    """Whether an axis consists of parts, so that `split` matters."""
    split: bool
    arranged: Arranged
    index: list[int]
    order: Order
    group: bool
    ordered: Literal["tile", "y", ""]
    """Which use has the axis that is in order; empty: there is nothing to order."""
    order_note: str
    order_buffer: int
    """int32: places in the order drawn; -1: as they are."""
    groups: list[tuple[int, str]]
    """Where each group begins in that order, and its name."""
    strips: list[WeightStrip]


class WeightsContent(TypedDict):
    missing: str
    """Why there are no panels, else empty."""
    part: str
    """Empty or, where values are missing, which parameters the snapshot of a large model has."""
    total: int
    """Parameters and buffers of the layer."""
    first: int
    panels: list[WeightPanel]
