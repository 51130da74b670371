// The read-out under the pointer, as `ch c (row, col) = v`, which pastes into Python.

import { formatValue } from "../lib/format";
import type { Layout, Pair } from "../lib/protocol";

/** A value in a tensor: channel, row and column in full resolution. */
export interface Spot {
  channel: number;
  row: number;
  col: number;
}

export interface Reading {
  /** The value, or the mean of a pooled pixel; null while it is not known. */
  value: number | null;
  exact: boolean;
}

function span(at: number, pool: number, full: number): string {
  if (pool === 1) return String(at);
  const from = at - (at % pool);
  return `${from}:${Math.min(full, from + pool)}`;
}

export function spotText(layout: Layout, spot: Spot, pool: Pair, full: Pair, average: boolean): string {
  const row = span(spot.row, pool[0], full[0]);
  const col = span(spot.col, pool[1], full[1]);
  const channel = average ? "mean" : `ch ${spot.channel}`;
  if (layout === "bar") return channel;
  if (layout === "tokens") return average ? `mean (${row})` : `(${row}, ${col})`;
  if (layout === "lines") return `${channel} (${col})`;
  return `${channel} (${row}, ${col})`;
}

export function readingText(where: string, reading: Reading, pooled: boolean): string {
  if (reading.value === null) return where;
  return `${where}${pooled ? " mean" : ""} ${reading.exact ? "=" : "\u2248"} ${formatValue(reading.value)}`;
}

/** The mean over one pooled pixel of exact values. */
export function blockMean(at: (row: number, col: number) => number | undefined, spot: Spot, pool: Pair, full: Pair): number | null {
  const top = spot.row - (spot.row % pool[0]);
  const left = spot.col - (spot.col % pool[1]);
  let sum = 0;
  let count = 0;
  for (let row = top; row < Math.min(full[0], top + pool[0]); row++) {
    for (let col = left; col < Math.min(full[1], left + pool[1]); col++) {
      const value = at(row, col);
      if (value === undefined) return null;
      sum += value;
      count++;
    }
  }
  return count ? sum / count : null;
}
