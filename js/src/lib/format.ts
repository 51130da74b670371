// Every number and label that is shown goes through here, so that a value reads the same wherever it stands.

import type { NonFinite, Position, Standing } from "./protocol";

/** A value as it pastes into Python: ASCII minus, four or more digits, an exponent for the very small and large. */
export function formatValue(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return shortExponent(value.toExponential(3));
  if (Number.isInteger(value)) return String(value);
  if (size < 1) return value.toPrecision(4);
  return value.toFixed(size >= 1000 ? 1 : size >= 100 ? 2 : size >= 10 ? 3 : 4);
}

/** The end of a colour scale: short, because two of them stand beside a legend. */
export function formatScale(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 0.01 || size >= 1e4) return shortExponent(value.toExponential(1));
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

function shortExponent(text: string): string {
  return text.replace("e+", "e");
}

export function formatCount(value: number): string {
  return value.toLocaleString("en-US");
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  for (const [unit, size] of [["kB", 1e3], ["MB", 1e6]] as const) {
    if (bytes < size * 1000) return `${(bytes / size).toFixed(bytes < size * 100 ? 1 : 0)} ${unit}`;
  }
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

/** A duration that has been measured. */
export function formatSeconds(seconds: number): string {
  if (seconds < 0.0995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  return seconds < 10 ? `${seconds.toFixed(2)} s` : `${seconds.toFixed(1)} s`;
}

/** A duration that is estimated: no more digits than the estimate is worth. */
export function formatLeft(seconds: number): string {
  if (seconds < 1) return "<1 s";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return minutes < 1440 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

export function formatShape(shape: number[]): string {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

/** A shape where space is short: `64×28×28`, the batch axis left out. */
export function formatShortShape(shape: number[]): string {
  return shape.slice(1).join("\u00d7");
}

export function formatNonFinite(counts: NonFinite): string {
  const parts: string[] = [];
  if (counts.nan) parts.push(`${formatCount(counts.nan)} NaN`);
  if (counts.posinf) parts.push(`${formatCount(counts.posinf)} +Inf`);
  if (counts.neginf) parts.push(`${formatCount(counts.neginf)} -Inf`);
  return parts.join(", ");
}

/** People count from 1; `of` is left out while the total is not known. */
function ordinal(index: number, total: number | null): [string, string] {
  return [String(index + 1), total === null ? "" : `/${total}`];
}

export interface PositionLabel {
  epoch: [string, string];
  phase: string;
  /** `before ` or `after ` when training does not stand inside the batch. */
  standing: string;
  batch: [string, string];
  /** The same with indices from 0, as Python has them. */
  exact: string;
}

export function positionLabel(position: Position, standing: Standing = "in"): PositionLabel {
  return {
    epoch: ordinal(position.epoch, position.epochs),
    phase: position.phase,
    standing: standing === "before" ? "before " : "",
    batch: ordinal(position.batch_idx, position.batches),
    exact: `epoch=${position.epoch}, phase="${position.phase}", batch_idx=${position.batch_idx}`,
  };
}

/** A position inside a sentence: `epoch 3, train, batch 137`. */
export function positionText(position: Position): string {
  return `epoch ${position.epoch + 1}, ${position.phase}, batch ${position.batch_idx + 1}`;
}

export function samePosition(a: Position | null, b: Position | null): boolean {
  return a !== null && b !== null && a.epoch === b.epoch && a.phase === b.phase && a.batch_idx === b.batch_idx;
}

/**
 * Which batch is shown, in as few words as tell it from where training stands; "" when one label says both.
 * Standing before a batch always needs it, because the batch named there has not been seen.
 */
export function shownText(position: Position | null, standing: Standing, shown: Position | null): string {
  if (shown === null) return "";
  if (position === null) return positionText(shown);
  if (samePosition(position, shown)) return standing === "before" ? positionText(shown) : "";
  const parts: string[] = [];
  if (shown.epoch !== position.epoch) parts.push(`epoch ${shown.epoch + 1}`);
  if (parts.length || shown.phase !== position.phase) parts.push(shown.phase);
  parts.push(`batch ${shown.batch_idx + 1}`);
  return parts.join(", ");
}
