// What the statistics views of a card want and show: the same shapes as
// `nansense_widgets/widgets/protocol_statistics.py`, which explains each field. Change both together.

import type { Kind } from "./protocol";

export type Offer = "" | "watch" | "collect";

export interface Numbers {
  missing: string;
  n: number;
  mean: number | null;
  std: number | null;
  median: number | null;
  min: number | null;
  max: number | null;
  nan: number;
  posinf: number;
  neginf: number;
  /** Index of the batch with the first of these; null if that is not known. */
  since: number | null;
  dead: number | null;
  channels: number | null;
}

export interface StatsRow {
  key: string;
  phase: string;
  epoch: number;
  batches: number;
  total: number | null;
  running: boolean;
  note: string;
  activations: Numbers;
  gradients: Numbers;
}

export interface Bars {
  missing: string;
  dtype: string;
  n: number;
  nonfinite: number;
  zero: number;
  first: number;
  count: number;
  buffer: number;
}

export interface Figure {
  key: string;
  activations: Bars;
  gradients: Bars;
}

export interface ChannelRows {
  kind: Kind;
  missing: string;
  axis: string;
  channels: number;
  rows: number;
  zeros: number[];
  nonfinite: number[];
  dead: number[];
  first: number;
  count: number;
  buffer: number;
}

export interface HistogramOptions {
  source: string;
  compare: string;
  rows: Kind;
}

export interface HistogramContent {
  rows: StatsRow[];
  chosen: string;
  hint: string;
  offer: Offer;
  figures: Figure[];
  channels: ChannelRows | null;
}

export interface InBinAsk {
  kind: Kind;
  sign: -1 | 0 | 1;
  low: number;
  high: number;
}

export interface InBin {
  type: "in_bin";
  view: string;
  req: number;
  snapshot: number;
  missing: string;
  samples: [sample: number, values: number][];
  total: number;
  of: number;
}

export interface CurvesOptions {
  /** null: as they are. */
  statistics: string[] | null;
}

export interface CurveLine {
  label: string;
  color: string;
  /** Of the line: solid, dashed, dotted, dash-dotted. */
  style: number;
  /** Its last number; null if that is not finite, or there is none. */
  newest: number | null;
}

export interface CurveFigure {
  key: string;
  title: string;
  unit: string;
  text: string;
  /** Of a metric of the user's: what went wrong with it, or batches that it lacks; else empty. */
  problem: string;
  /** Empty where there is nothing to draw but the problem. */
  model: string;
  /** Of the first phase that has some; the same lines of other phases differ in style. */
  lines: CurveLine[];
}

export interface CurvesContent {
  /** All that can be drawn, in order; and what is. */
  statistics: string[];
  chosen: string[];
  phases: string[];
  partial: string[];
  hint: string;
  offer: Offer;
  wait: string;
  figures: CurveFigure[];
}
