// What the view Extremes wants and shows: the same shapes as `nansense_widgets/widgets/protocol_extremes.py`, which
// explains each field. Change both together.

import type { Pair } from "./protocol";
import type { Offer } from "./protocol_statistics";

export type By = "pixel" | "average";

export interface ExtremesOptions {
  source: string;
  by: By;
  heat: boolean;
  first: number;
  count: number;
  px: number;
}

export interface GallerySource {
  key: string;
  phase: string;
  epoch: number;
  batches: number;
}

export interface PatchPicture {
  rows: number;
  columns: number;
  colour: boolean;
  pool: number;
  frame: [Pair, Pair];
  offset: Pair;
  size: Pair;
  buffer: number;
}

export interface PatchSignal {
  channels: number;
  length: number;
  pool: number;
  buffer: number;
}

export interface ContextTokens {
  start: number;
  ids: number[];
  texts: string[];
  text: string;
  at: number;
  total: number;
}

export interface HeatMap {
  rows: number;
  columns: number;
  buffer: number;
}

export interface PatchCell {
  value: number | null;
  text: string;
  position: number[];
  call: number;
  phase: string;
  epoch: number;
  batch_idx: number;
  sample: number;
  forward: number;
  dataset_index: number | null;
  label: number | null;
  label_name: string;
  shape: number[];
  box: Pair[];
  size: number[];
  approximated: string;
  current: boolean;
  picture: PatchPicture | null;
  signal: PatchSignal | null;
  tokens: ContextTokens | null;
  heat: HeatMap | null;
}

export interface ChannelPatches {
  channel: number;
  scale: number;
  unsigned: boolean;
  largest: PatchCell[];
  smallest: PatchCell[];
}

export interface ExtremesContent {
  sources: GallerySource[];
  chosen: string;
  hint: string;
  offer: Offer;
  note: string;
  about: string;
  input: string;
  kind: "picture" | "signal" | "volume" | "features" | "tokens";
  by: By;
  averages: boolean;
  axis: string;
  channels: number;
  rows: number;
  samples: number;
  nan: number;
  first: number;
  patches: ChannelPatches[];
}
