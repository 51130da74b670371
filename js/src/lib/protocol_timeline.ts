// What the timeline shows; `widgets/protocol_timeline.py` states the same shapes. All places are on one axis of
// epochs: a batch lies at its epoch, from 0, and the share of it that came before.

export type MarkKind = "pause" | "hyperparameter" | "jump" | "replay" | "finding";

export interface TimelinePhase {
  name: string;
  /** Share of the epoch before it. */
  start: number;
  /** Share of one batch. */
  width: number;
  batches: number;
}

/** A line; values are shares of the height, null for a gap. */
export interface TimelineCurve {
  xs: number[];
  ys: (number | null)[];
}

export interface TimelineContent {
  epochs: number;
  is_open: boolean;
  phases: TimelinePhase[];
  segments: { phase: number; start: number; end: number }[];
  now: number | null;
  curve: TimelineCurve;
  label: string;
  branches: { number: number; start: number; end: number; text: string; curve: TimelineCurve }[];
  checkpoints: number[];
  reach: number[];
  reach_text: string;
  marks: { kind: MarkKind; at: number; text: string }[];
}

/** What would happen: the action that goes there (empty: it cannot) with its arguments. */
export interface Way {
  type: "way";
  view: string;
  req: number;
  action: "" | "rewind" | "step_until_position";
  args: Record<string, string | number>;
  text: string;
}
