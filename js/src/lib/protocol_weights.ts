// What the view Weights wants and shows: the same shapes as `nansense_widgets/widgets/protocol_weights.py`, which
// explains each field. Change both together.

import type { NonFinite, Pair, Window } from "./protocol";

export type Order = "index" | "norm" | "similarity";
export type ScaleMode = "own" | "shared" | "pinned";

export interface Arranged {
  y: number;
  x: number;
  tile: number;
  colour: number;
}

/** First tile, number of tiles, rows from, to, columns from, to. */
export type Region = [number, number, number, number, number, number];

export interface PanelOptions {
  split: boolean;
  arranged: Arranged | null;
  index: number[];
  order: Order;
  group: boolean;
  zoom: number;
  region: Region | null;
  pins: Record<string, number>;
}

export interface WeightsOptions {
  first: number;
  count: number;
  box: Pair;
  ratio: number;
  scale: ScaleMode;
  panels: Record<string, PanelOptions>;
}

export interface ExactWeightsAsk {
  panel: string;
  strip: string;
  tile: number;
  colour: number;
  window: Window | null;
}

export interface WeightAxis {
  name: string;
  size: number;
  source: number;
  step: number;
  labels: string[];
}

export interface WeightStrip {
  key: string;
  title: string;
  missing: string;
  note: string;
  dtype: string;
  shape: number[];
  own: WeightAxis[];
  arranged: Arranged;
  index: number[];
  layout: "tiles" | "lines" | "number";
  tiles: number;
  full: Pair;
  colours: number;
  pool: number;
  magnify: number;
  region: Region;
  tile: Pair;
  scale: number;
  unsigned: boolean;
  numel: number;
  zeros: number;
  norm: number;
  low: number;
  largest: number;
  nonfinite: NonFinite;
  value: number | null;
  buffer: number;
}

export interface Knob {
  name: string;
  value: number;
}

export interface PanelOptimizer {
  label: string;
  optimizer: number;
  group: number;
  scalars: [name: string, value: number][];
  knobs: Knob[];
  others: string;
}

export interface WeightPanel {
  name: string;
  kind: "parameter" | "buffer";
  shape: number[];
  dtype: string;
  notes: string[];
  optimizers: PanelOptimizer[];
  axes: WeightAxis[];
  splits: boolean;
  split: boolean;
  arranged: Arranged;
  index: number[];
  order: Order;
  group: boolean;
  ordered: "tile" | "y" | "";
  order_note: string;
  order_buffer: number;
  groups: [start: number, name: string][];
  strips: WeightStrip[];
}

export interface WeightsContent {
  missing: string;
  part: string;
  total: number;
  first: number;
  panels: WeightPanel[];
}
