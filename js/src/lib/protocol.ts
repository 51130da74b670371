// Every message and every synced trait between the kernel and the browser: the same shapes, with the same
// names, as `nansense_widgets/widgets/protocol.py`, which explains each field. Change both together.

import type { Way } from "./protocol_timeline";
import type { InBin } from "./protocol_statistics";

export type Status = "waiting" | "paused" | "running" | "finished" | "failed" | "closed" | "disabled";
export type Kind = "activations" | "gradients";
export type Transform = "none" | "abs" | "square";
export type Part = "magnitude" | "real" | "imaginary";
export type ViewName = "strips" | "histogram" | "extremes" | "curves" | "weights" | "run" | "timeline" | "inputs";
export type Layout = "tiles" | "slices" | "lines" | "bar" | "tokens" | "scalar" | "ids";
export type Pair = [number, number];
export type Window = [number, number, number, number];

// ------------------------------------------------------------ traits, kernel to browser

export interface Position {
  phase: string;
  epoch: number;
  batch_idx: number;
  batches: number | null;
  epochs: number | null;
}

export interface Progress {
  epoch_done: number;
  epoch_total: number | null;
  epoch_left_s: number | null;
  run_done: number;
  run_total: number | null;
  run_left_s: number | null;
  batch_s: number | null;
}

export interface LoopError {
  type: string;
  message: string;
  line: string;
  traceback: string;
  position: Position | null;
}

export interface Cost {
  layers: number;
  bytes: number;
  seconds: number;
}

export interface UpdateFrequency {
  unit: "epoch" | "batch";
  n: number;
  phase: string | null;
}

export type Standing = "before" | "in" | "after";

export type StatsScope = "none" | "watched" | "all";

/** Whether and where the run can go back: epochs from 0; `reason` says why not. */
export interface Travel {
  available: boolean;
  reason: string;
  epochs: number[];
  /** Which of them are kept, in words. */
  kept: string;
  /** Why the run cannot go back by a batch; empty if it can. */
  step_back: string;
}

export interface State {
  status: Status;
  detail: string;
  mode: string;
  position: Position | null;
  standing: Standing;
  shown: Position | null;
  pending: string[];
  progress: Progress;
  phases: Record<string, number | null>;
  error: LoopError | null;
  update_frequency: UpdateFrequency;
  stats_scope: StatsScope;
  travel: Travel;
  last_action: string;
  cost: Cost | null;
  notice: string;
  /** Why nothing can be steered or changed, else empty. */
  locked: string;
  /** Why there is nothing to step or run, else empty. */
  no_loop: string;
}

export interface GraphNode {
  name: string;
  label: string;
  parent: string;
  kind: "module" | "op" | "input";
  cls: string;
  detail: string;
  params: number;
  shapes: number[][];
  calls: number;
  ran: boolean;
  scope: boolean;
  note: string;
}

export interface Graph {
  version: number;
  model: string;
  traced: boolean;
  nodes: GraphNode[];
  edges: Pair[];
}

// ------------------------------------------------------------ requests, browser to kernel

export type ActionName =
  | "ablate"
  | "add_perturbation"
  | "clear_perturbations"
  | "clear_receptive_field"
  | "measure_receptive_field"
  | "pin_current_batch"
  | "set_probe_mode"
  | "undo_perturbation"
  | "unpin_batch"
  | "request_time_travel"
  | "rewind"
  | "step_back"
  | "step_batch"
  | "step_phase"
  | "step_epoch"
  | "step_until_position"
  | "step_run"
  | "stop"
  | "cancel"
  | "request_snapshot"
  | "set_axes"
  | "set_hyperparameter"
  | "set_stats_scope"
  | "watch"
  | "unwatch"
  | "watch_attention"
  | "unwatch_attention"
  | "set_update_frequency";

export interface Action {
  type: "action";
  view: string;
  req: number;
  name: ActionName;
  args: Record<string, unknown>;
}

/** Of a perturbed batch: perturbed minus original, or one of them. */
export type Shows = "difference" | "perturbed" | "original";

export interface StripsOptions {
  sample: number;
  average: boolean;
  transform: Transform;
  part: Part;
  first: number;
  count: number;
  px: number;
  depth: number;
  shows: Shows;
}

export interface CardWant {
  layer: string;
  call: number;
  leaf: number;
  view: ViewName;
  options: unknown;
}

export interface Want {
  type: "want";
  view: string;
  cards: CardWant[];
}

export interface Ack {
  type: "ack";
  view: string;
  seq: number;
}

export interface Fetch {
  type: "fetch";
  view: string;
  req: number;
  card: CardWant;
  ask: unknown;
}

export interface ScriptRequest {
  type: "script";
  view: string;
  req: number;
  name: ViewName;
}

export interface ExactAsk {
  kind: string;
  channel: number;
  window: Window | null;
}

// ------------------------------------------------------------ replies, kernel to browser

export interface Echo {
  type: "echo";
  view: string;
  req: number;
  code: string;
  error: string;
}

export interface NonFinite {
  nan: number;
  posinf: number;
  neginf: number;
}

export interface Tokens {
  ids: number[];
  texts: string[];
  text: string;
  total: number;
}

export interface AxesChoice {
  output: string;
  ndim: number;
  channel: number | null;
  batch: number | null;
  known: boolean;
  chosen: boolean;
}

export interface Strip {
  /** A `Kind`, or `custom ` and the name of a layer-tensor instrument of the user's. */
  kind: string;
  missing: string;
  layout: Layout;
  shape: number[];
  dtype: string;
  axes: string;
  samples: number;
  kept: string;
  about: string;
  tokens: Tokens | null;
  channels: number;
  first: number;
  count: number;
  tile: Pair;
  full: Pair;
  pool: Pair;
  scale: number;
  unsigned: boolean;
  nonfinite: NonFinite;
  dead: number[];
  depth: number;
  value: number | null;
  buffer: number;
}

export interface Probed {
  text: string;
  /** Of these values, as in `Exact.snapshot`. */
  number: number;
  shows: Shows | null;
}

export interface StripsContent {
  strips: Strip[];
  probed: Probed | null;
}

export interface Card {
  layer: string;
  cls: string;
  detail: string;
  shape: number[];
  dtype: string;
  call: number;
  calls: number;
  leaf: number;
  leaves: string[];
  note: string;
  axes: AxesChoice | null;
  attention: "none" | "off" | "on";
  view: ViewName;
  failed: string;
  content: unknown;
}

export interface Cards {
  type: "cards";
  view: string;
  seq: number;
  snapshot: number;
  position: Position | null;
  notes: string[];
  cards: Card[];
}

export interface Script {
  type: "script";
  view: string;
  req: number;
  name: ViewName;
}

export interface Exact {
  type: "exact";
  view: string;
  req: number;
  snapshot: number;
  missing: string;
  channel: number;
  window: Window;
  dtype: "float32" | "float64";
}

export interface Still {
  cards: Cards | null;
  sizes: number[];
  data: DataView | null;
}

export type Reply = Echo | Cards | Exact | InBin | Script | Way;

/** The traits a widget may have; `layers` only where `session.strips(*layers)` names them. */
export interface Traits {
  state: State;
  graph: Graph;
  watched: string[];
  still: Still;
  layers: string[];
  moved: Record<string, number>;
}
