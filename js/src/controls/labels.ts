// What the controls say and what they allow, from the state alone.

import type { Link } from "../lib/kernel";
import { formatCount, formatLeft, positionText } from "../lib/format";
import type { IconName } from "../lib/icons";
import type { Position, State, Status } from "../lib/protocol";

export interface Pill {
  key: string;
  text: string;
  icon: IconName | "dot";
  hollow: boolean;
}

const STATUS: Record<Status, Pill> = {
  waiting: { key: "waiting", text: "waiting", icon: "dot", hollow: true },
  paused: { key: "paused", text: "paused", icon: "pause", hollow: false },
  running: { key: "running", text: "running", icon: "dot", hollow: false },
  finished: { key: "finished", text: "finished", icon: "check", hollow: false },
  failed: { key: "failed", text: "failed", icon: "warn", hollow: false },
  closed: { key: "closed", text: "closed", icon: "dot", hollow: true },
  disabled: { key: "disabled", text: "disabled", icon: "dot", hollow: true },
};

export function pillOf(status: Status, link: Link): Pill {
  if (link === "gone" || link === "lost") return { key: "gone", text: link === "gone" ? "kernel gone" : "disconnected", icon: "dot", hollow: true };
  if (link === "none") return { key: "saved", text: "saved picture", icon: "dot", hollow: true };
  return STATUS[status];
}

export interface Allowed {
  step: boolean;
  run: boolean;
  stop: boolean;
  refresh: boolean;
  settings: boolean;
}

export function allowed({ status, locked, no_loop }: Pick<State, "status" | "locked" | "no_loop">, link: Link): Allowed {
  const alive = link === "live" || link === "unknown";
  const paused = alive && status === "paused";
  const running = alive && status === "running";
  return {
    step: paused && !locked && !no_loop,
    run: paused && !locked && !no_loop,
    stop: running && !locked,
    refresh: (running || paused) && !no_loop,
    settings: alive && status !== "closed" && status !== "disabled" && !locked,
  };
}

/** A reason as the words of a tooltip. */
export function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** The sentence under the toolbar that explains a state the user did not choose; "" when there is none. */
export function bannerText(state: State | undefined, link: Link): string {
  const shown = state?.shown ?? state?.position ?? null;
  const at = shown ? ` at ${positionText(shown)}` : "";
  if (link === "gone") return `Kernel gone. The view is frozen${at}; nothing on screen is lost. Run the cells again to start a new session.`;
  if (link === "lost") return `The connection to the kernel is lost. The view is frozen${at}; nothing on screen is lost.`;
  if (link === "none") return `Saved picture, no kernel. Training stood${at || " still"}; run the cells to go on.`;
  if (!state) return "";
  if (state.status === "closed") return state.detail || "This session was closed.";
  if (state.status === "disabled") return state.detail || "The debugger is disabled (enabled=False); training runs as if it were not there.";
  if (state.status === "waiting") return state.detail || "Waiting for the first batch.";
  return state.status === "failed" ? "" : [state.detail, state.locked].filter(Boolean).map(sentence).join(" ");
}

function sentence(text: string): string {
  return capital(text) + (text.endsWith(".") ? "" : ".");
}

export interface Bar {
  label: string;
  share: number | null;
  count: string;
  left: string;
}

/** In a first epoch that nobody declared, only the phase's own length is known: the bar is then the phase's. */
export function progressBars({ progress, position, standing }: Pick<State, "progress" | "position" | "standing">): { epoch: Bar; run: Bar } {
  const run = bar("run", progress.run_done, progress.run_total, progress.run_left_s);
  if (progress.epoch_total !== null || position === null || position.batches === null) {
    return { epoch: bar("epoch", progress.epoch_done, progress.epoch_total, progress.epoch_left_s), run };
  }
  const done = position.batch_idx + (standing === "after" ? 1 : 0);
  const left = progress.batch_s === null ? null : Math.max(0, position.batches - done) * progress.batch_s;
  return { epoch: bar(position.phase, done, position.batches, left), run };
}

function bar(label: string, done: number, total: number | null, left: number | null): Bar {
  const share = total ? Math.min(1, done / total) : null;
  return {
    label,
    share,
    count: total === null ? `${formatCount(done)} ${done === 1 ? "batch" : "batches"}` : `${formatCount(done)}/${formatCount(total)}`,
    left: left === null || share === 1 ? "" : `${formatLeft(left)} left`,
  };
}

/** Where `Run until…` starts out: the batch after the one where training stands. */
export function nextPosition(position: Position | null): { epoch: number; batch: number } {
  if (!position) return { epoch: 1, batch: 1 };
  const next = position.batch_idx + 2;
  if (position.batches !== null && next > position.batches) return { epoch: position.epoch + 2, batch: 1 };
  return { epoch: position.epoch + 1, batch: next };
}
