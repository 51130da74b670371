"""Every message and every synced trait between the kernel and the browser, for both sides.

`js/src/lib/protocol.ts` states the same shapes in TypeScript; change both together. What the views of a
card show is in files of their own beside these: `protocol_strips.py`, `protocol_statistics.py` and so on.

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
ViewName = Literal["strips", "histogram", "extremes", "curves", "weights", "run", "timeline", "inputs"]
"""What a card shows of its layer; which of them there are is said by `views.VIEWS`."""


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
    """Whether and where the run can go back: epochs from 0; `reason` says why not, `kept` which are kept."""

    available: bool
    reason: str
    epochs: list[int]
    kept: str
    step_back: str
    """Why the run cannot go back by a batch; empty if it can."""


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
    locked: str
    """Why nothing can be steered or changed (`session.lock()`), else empty."""
    no_loop: str
    """Why there is nothing to step or run (a frozen moment), else empty."""


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
    set_update_frequency {unit, n, phase}, request_time_travel {epoch}, step_back {n},
    rewind {phase, epoch, batch_idx}, pin_current_batch, unpin_batch, set_probe_mode {mode},
    add_perturbation {input_name, sample, index, channel, values, scale, noise, seed, original, join},
    ablate {layer, channel, sample, scale, value}, undo_perturbation, clear_perturbations,
    measure_receptive_field {layer, channel, index, sample, input_name}, clear_receptive_field,
    set_hyperparameter {name, value, optimizer, group}.
    """

    type: Literal["action"]
    view: str
    req: int
    name: str
    args: dict[str, Any]


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


class Still(TypedDict):
    """The trait `still`: the last picture, for files opened with no kernel. `data` holds the buffers
    of `cards` one after the other; `sizes` their lengths."""

    cards: Cards | None
    sizes: list[int]
    data: bytes
