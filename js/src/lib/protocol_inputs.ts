// What the view Inputs wants and shows; `nansense_widgets/widgets/protocol_inputs.py` states the same, with comments.

import type { Position, Tokens } from "./protocol";

export type InputKind = "picture" | "features" | "tokens" | "signal" | "other";
export type Order = "loss" | "batch";
export type ProbeMode = "unchanged" | "eval" | "train";

export interface InputsOptions {
  input: string;
  sample: number;
  order: Order;
  channel: number;
  depth: number;
  original: boolean;
  px: number;
  thumb: number;
  first: number;
  count: number;
}

export interface InputChoice {
  name: string;
  shape: number[];
  dtype: string;
  kind: InputKind;
}

export interface PictureShown {
  rows: number;
  columns: number;
  full: [number, number];
  pool: number;
  colour: boolean;
  channels: number;
  depth: number;
  slice: number;
  black: number[];
  white: number[];
  paint: number[];
  about: string[];
  edited: [number, number][];
  buffer: number;
}

export interface FeaturesShown {
  first: number;
  count: number;
  total: number;
  scale: number;
  edited: number[];
  buffer: number;
}

export interface SignalShown {
  channels: number;
  total: number;
  length: number;
  full: number;
  pool: number;
  low: number;
  high: number;
  buffer: number;
}

export interface Thumb {
  sample: number;
  label: string;
  loss: number | null;
  right: boolean | null;
  rows: number;
  columns: number;
  colour: boolean;
  buffer: number;
  text: string;
}

export interface AnswerClass {
  index: number;
  name: string;
  share: number;
  before: number | null;
}

export interface ModelAnswer {
  kind: "classes" | "values" | "none";
  classes: AnswerClass[];
  total: number;
  predicted: number | null;
  label: number | null;
  text: string;
  loss: number | null;
  loss_before: number | null;
  loss_name: string;
  loss_note: string;
}

export interface Pinned {
  text: string;
  position: Position | null;
  samples: number;
  losses: { at: number; loss: number }[];
  losses_note: string;
}

export interface ShownPerturbation {
  number: number;
  text: string;
  target: string;
  sample: number | null;
}

export interface ProbeState {
  mode: ProbeMode;
  mode_note: string;
  computing: boolean;
  error: string;
  notes: string[];
  seconds: number;
  can_pin: string;
  moved: string;
}

export interface FieldShown {
  layer: string;
  text: string;
  input: string;
  sample: number;
  theoretical: [number, number][] | null;
  theoretical_note: string;
  measured: [number, number][] | null;
  note: string;
  rows: number;
  columns: number;
  buffer: number;
  done: number;
}

export interface InputsContent {
  missing: string;
  of: string;
  inputs: InputChoice[];
  input: string;
  kind: InputKind;
  samples: number;
  sample: number;
  label: string;
  picture: PictureShown | null;
  features: FeaturesShown | null;
  tokens: Tokens | null;
  edited_tokens: number[];
  signal: SignalShown | null;
  other: string;
  thumbs: Thumb[];
  first: number;
  order: Order;
  order_note: string;
  answer: ModelAnswer;
  pinned: Pinned | null;
  perturbations: ShownPerturbation[];
  probe: ProbeState;
  field: FieldShown | null;
}
