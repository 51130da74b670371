"""Every message and every synced trait between the kernel and the browser, for both sides.

`js/src/lib/protocol.ts` states the same shapes in TypeScript; change both together. What the statistics views
of a card show is in `protocol_statistics.py` and `.ts` beside these, what Extremes and Weights show in files
of their own.

Three channels are used:

- **Traits** (`state`, `graph`, `watched`, `still`) hold small persistent state. A reload or a second
  tab gets them from the kernel, and a saved notebook keeps their last value.
- **Requests** are custom messages from one browser view to the kernel.
- **Replies** are custom messages from the kernel. The kernel's side of a comm is heard by every open
  page, so a reply names the `view` it answers and other views ignore it.

Pixels are bytes: 0 is NaN, 1 is -Inf, 2 is +Inf, and 3..255 stand for `(code - 129) / 126 * scale`, so
that 129 is exactly zero. Colour is applied in the browser.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Status = Literal["waiting", "paused", "running", "finished", "failed", "closed", "disabled"]
"""What the run does: `waiting` no batch has begun yet; `closed` the session was closed or replaced."""

Kind = Literal["activations", "gradients"]
Transform = Literal["none", "abs", "square"]
Part = Literal["magnitude", "real", "imaginary"]
"""Of complex values."""
ViewName = Literal["strips", "histogram", "extremes", "curves", "weights", "run"]
"""What a card shows of its layer; which of them there are is said by `views.VIEWS`."""
Layout = Literal["tiles", "slices", "lines", "bar", "tokens", "scalar", "ids"]


# ---------------------------------------------------------------- traits, kernel to browser


class Position(TypedDict):
    """A batch in the run; all indices from 0. `batches` and `epochs` are null while unknown."""

    phase: str
    epoch: int
    batch_idx: int
    batches: int | None
    epochs: int | None


class Progress(TypedDict):
    """Batches done of the current epoch and of the run (null total: not known yet), seconds left."""

    epoch_done: int
    epoch_total: int | None
    epoch_left_s: float | None
    run_done: int
    run_total: int | None
    run_left_s: float | None
    batch_s: float | None


class LoopError(TypedDict):
    """An exception that ended the loop: `line` is the user's own innermost line, as `file:n  code`."""

    type: str
    message: str
    line: str
    traceback: str
    position: Position | None


class Cost(TypedDict):
    """What the last snapshot cost: layers copied, bytes held, seconds spent copying."""

    layers: int
    bytes: int
    seconds: float


class UpdateFrequency(TypedDict):
    unit: Literal["epoch", "batch"]
    n: int
    phase: str | None


class Travel(TypedDict):
    """Whether and where the run can go back: epochs from 0; `reason` says why not."""

    available: bool
    reason: str
    epochs: list[int]


class State(TypedDict):
    """The trait `state`: all that the controls show."""

    status: Status
    detail: str
    """A sentence for the status when there is one to say (why closed, why waiting), else empty."""
    mode: str
    position: Position | None
    """Where training stands (live)."""
    standing: Literal["before", "in", "after"]
    """Whether training stands before, inside or after the batch at `position`."""
    shown: Position | None
    """The batch whose tensors are shown; null before the first snapshot."""
    pending: list[str]
    """Commands that wait: `stop`, `refresh`."""
    progress: Progress
    phases: dict[str, int | None]
    """Known phases in order, with their batches an epoch (null: not known yet)."""
    error: LoopError | None
    update_frequency: UpdateFrequency
    stats_scope: Literal["none", "watched", "all"]
    """Which layers' batches go into the statistics."""
    travel: Travel
    last_action: str
    """The Python call of the last action, e.g. `session.step_batch()`."""
    cost: Cost | None
    notice: str
    """One sentence the user should know about this kernel or loop, else empty."""


class GraphNode(TypedDict):
    """A layer or a scope. `name` is unique; `parent` is the name of the enclosing scope ("" at the root)."""

    name: str
    label: str
    """The last part of the name."""
    parent: str
    kind: Literal["module", "op", "input"]
    cls: str
    """Class of the module, or the function of the op (`relu`), or `input`."""
    detail: str
    """Hyperparameters as the module prints them, e.g. `3, 16, kernel_size=(3, 3)`."""
    params: int
    """Trainable and frozen parameter elements of this node and all below it; tied ones count once."""
    shapes: list[list[int]]
    """Shapes of the output tensors in the last traced forward."""
    calls: int
    """Times it ran in the last traced forward."""
    ran: bool
    """False: it never ran in any traced forward."""
    scope: bool
    """True if other nodes lie inside it."""
    note: str
    """Why it never ran or what is special, when known, else empty."""


class Graph(TypedDict):
    """The trait `graph`."""

    version: int
    model: str
    traced: bool
    """False until the first forward was seen: there are no ops and no edges yet."""
    nodes: list[GraphNode]
    edges: list[tuple[int, int]]
    """Indices into `nodes`, from producer to consumer; both ends are nodes with no nodes inside."""


# ---------------------------------------------------------------- requests, browser to kernel


class Action(TypedDict):
    """Call one public `Session` method. The reply is an `Echo`.

    Names: step_batch, step_phase, step_epoch, step_until_position {phase, epoch, batch_idx}, step_run,
    stop, cancel, request_snapshot, watch {layers}, unwatch {layers}, watch_attention {layers},
    unwatch_attention {layers}, set_axes {layer, channel, batch}, set_stats_scope {scope},
    set_update_frequency {unit, n, phase}, request_time_travel {epoch},
    set_hyperparameter {name, value, optimizer, group}.
    """

    type: Literal["action"]
    view: str
    req: int
    name: str
    args: dict[str, Any]


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


class CardWant(TypedDict):
    """What one visible card wants to see: one view of its layer."""

    layer: str
    """Of the view Run, which is of no layer, `run`."""
    call: int
    """Which call of the layer in the batch, from 1; statistics are of all calls."""
    leaf: int
    """Which output tensor, from 0, when the layer gives several; statistics are of the first."""
    view: ViewName
    options: Any
    """Those of the view, e.g. `StripsOptions`."""


class Want(TypedDict):
    """Replaces all that this view asked for before. Cards off screen are left out. The kernel answers at
    once with `Cards`, and again at every new snapshot."""

    type: Literal["want"]
    view: str
    cards: list[CardWant]


class Ack(TypedDict):
    """The view has drawn `Cards` number `seq`; until then the kernel sends it no further one."""

    type: Literal["ack"]
    view: str
    seq: int


class Fetch(TypedDict):
    """Ask a card's view about one place of its picture. The reply is the view's own, e.g. an `Exact`."""

    type: Literal["fetch"]
    view: str
    req: int
    card: CardWant
    ask: Any
    """What the view is asked, e.g. an `ExactAsk`."""


class ScriptRequest(TypedDict):
    """Ask for the script of a view that is not part of the widget's own. The reply is a `Script`."""

    type: Literal["script"]
    view: str
    req: int
    name: ViewName


class ExactAsk(TypedDict):
    """View Strips: exact values of one tile (for hover and for the magnifier). The reply is an `Exact`."""

    kind: str
    """As in `Strip`."""
    channel: int
    window: tuple[int, int, int, int] | None
    """Rows from, to, columns from, to (ends excluded) of the tile; null: whole, if at most 262,144 values."""


# ---------------------------------------------------------------- replies, kernel to browser


class Echo(TypedDict):
    """What an action did: the call in Python, and the error it raised ("" if none)."""

    type: Literal["echo"]
    view: str
    req: int
    code: str
    error: str


class NonFinite(TypedDict):
    nan: int
    posinf: int
    neginf: int


class Tokens(TypedDict):
    """Token ids of one sample, for the layout `ids`."""

    ids: list[int]
    texts: list[str]
    """One for each id, or none."""
    text: str
    """The text of the whole sample, or empty."""
    total: int
    """Ids of the sample; more than `ids` has if only the first are sent."""


class AxesChoice(TypedDict):
    """Which axes of the shown output are channel and batch, for the card's menu."""

    output: str
    ndim: int
    channel: int | None
    batch: int | None
    known: bool
    """False: nothing tells them, so they are presumed."""
    chosen: bool
    """The user said so."""


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


class StripsContent(TypedDict):
    strips: list[Strip]
    """Activations and gradients, then what the user's own instruments gave."""


class Card(TypedDict):
    """The head of a card, and what its view shows."""

    layer: str
    cls: str
    detail: str
    shape: list[int]
    """Of the shown output; empty if there is none."""
    dtype: str
    """Of the shown output, e.g. `float32`; empty if there is none."""
    call: int
    calls: int
    """Calls in the shown batch (0: it did not run there)."""
    leaf: int
    leaves: list[str]
    """Names of the output tensors, e.g. `["lstm[0]", "lstm[1][0]"]`; one entry for a plain tensor."""
    note: str
    axes: AxesChoice | None
    """None: nothing to choose (no output, one axis, or token ids)."""
    attention: Literal["none", "off", "on"]
    """Whether the layer can give attention weights, and whether they are formed."""
    view: ViewName
    failed: str
    """What went wrong in this view, else empty; then there is no content."""
    content: Any
    """Of that view, e.g. `StripsContent`."""


class Cards(TypedDict):
    """What a view wants, of one snapshot."""

    type: Literal["cards"]
    view: str
    seq: int
    snapshot: int
    """Number of the snapshot; -1 when there is none yet (then cards say so)."""
    position: Position | None
    notes: list[str]
    """What else happened in the batch, e.g. a step that was skipped."""
    cards: list[Card]


class Script(TypedDict):
    """The script of a view: one buffer, an ES module. A widget's own script lies in every saved notebook."""

    type: Literal["script"]
    view: str
    req: int
    name: ViewName


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


class Still(TypedDict):
    """The trait `still`: the last picture, for files opened with no kernel. `data` holds the buffers
    of `cards` one after the other; `sizes` their lengths."""

    cards: Cards | None
    sizes: list[int]
    data: bytes
