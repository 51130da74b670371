// The keys of the dashboard: one table, which both the key handler and the list under `?` read.

import type { ViewName } from "./protocol";

export type Command =
  | "step_batch"
  | "step_back"
  | "step_phase"
  | "step_epoch"
  | "until"
  | "run"
  | "stop"
  | "refresh"
  | "filter"
  | "previous_card"
  | "next_card"
  | `view_${ViewName}`
  | "fit"
  | "copy"
  | "keys"
  | "leave";

interface KeyEntry {
  key: string;
  command: Command;
  text: string;
}

const KEYS: KeyEntry[] = [
  { key: "n", command: "step_batch", text: "step a batch" },
  { key: "b", command: "step_back", text: "step a batch back" },
  { key: "p", command: "step_phase", text: "step a phase" },
  { key: "e", command: "step_epoch", text: "step an epoch" },
  { key: "u", command: "until", text: "run until\u2026" },
  { key: "r", command: "run", text: "run" },
  { key: "s", command: "stop", text: "stop" },
  { key: "/", command: "filter", text: "filter layers" },
  { key: "[", command: "previous_card", text: "previous card" },
  { key: "]", command: "next_card", text: "next card" },
  { key: "1", command: "view_strips", text: "strips of the card" },
  { key: "2", command: "view_histogram", text: "histogram of the card" },
  { key: "3", command: "view_extremes", text: "extremes of the card" },
  { key: "4", command: "view_curves", text: "curves of the card" },
  { key: "5", command: "view_weights", text: "weights of the card" },
  { key: "0", command: "fit", text: "fit the graph" },
  { key: "c", command: "copy", text: "copy the value under the pointer" },
  { key: "?", command: "keys", text: "show these keys" },
  { key: "Escape", command: "leave", text: "close a panel, else back to the notebook" },
];

export interface KeyPress {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
}

/** The command of a key press; in a field only Escape is one. */
export function commandOf(press: KeyPress, inField: boolean): Command | null {
  if (press.ctrlKey || press.metaKey || press.altKey) return null;
  const entry = KEYS.find(({ key }) => key === press.key);
  return entry && (!inField || entry.command === "leave") ? entry.command : null;
}

export function keyOf(command: Command): string {
  return KEYS.find((entry) => entry.command === command)?.key ?? "";
}

/** The rows of the list under `?`, for the commands that this widget has. */
export function keyList(has: (command: Command) => boolean): [string, string][] {
  return KEYS.filter(({ command }) => has(command)).map(({ key, text }) => [key === "Escape" ? "Esc" : key, text]);
}

/** What each command does here; parts of a widget add their own. Returns false to let the key go on. */
export class Commands {
  private handlers = new Map<Command, () => boolean | void>();

  set(command: Command, handler: () => boolean | void): void {
    this.handlers.set(command, handler);
  }

  has(command: Command): boolean {
    return this.handlers.has(command);
  }

  run(command: Command): boolean {
    const handler = this.handlers.get(command);
    return handler ? handler() !== false : false;
  }
}
