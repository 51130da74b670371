// What the view Run wants and shows: the same shapes as `nansense_widgets/widgets/protocol_run.py`, which explains
// each field. Change both together.

import type { Position } from "./protocol";
import type { CurveFigure } from "./protocol_statistics";
import type { KnobValue } from "./knobs";

export interface RunOptions {
  smooth: boolean | null;
}

export interface KnobGroup {
  label: string;
  knobs: KnobValue[];
}

export type EventKind = "pause" | "hyperparameter" | "jump" | "replay";

export interface RunEvent {
  kind: EventKind;
  text: string;
  position: Position | null;
}

export interface RunContent {
  groups: KnobGroup[];
  smooth: boolean;
  can_smooth: boolean;
  phases: string[];
  notes: string[];
  hint: string;
  wait: string;
  figures: CurveFigure[];
  events: RunEvent[];
  pauses: number;
  /** Futures that were left: which, and the colour of their lines. */
  branches: { text: string; color: string }[];
  marked: EventKind[];
}
