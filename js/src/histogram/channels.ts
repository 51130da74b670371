// Which channels a filter leaves, and what is special about each.

import type { ChannelRows } from "../lib/protocol_statistics";
import { countAt, type Counts } from "./bins";

export type ChannelFilter = "all" | "dead" | "non-finite" | "saturated" | "index";

/** More than this share of a channel's values in its outermost bin means that it is saturated. */
export const SATURATED = 0.9;

/** Channel `row` as counts of its own. */
export function rowCounts(rows: ChannelRows, counts: ArrayLike<number>, row: number): Counts {
  const size = 2 * rows.count;
  const sides = Array.from({ length: size }, (_, i) => counts[row * size + i] ?? 0);
  return { zero: rows.zeros[row] ?? 0, first: rows.first, count: rows.count, sides };
}

/** True if nearly all values lie in the bin of the largest or of the least value; dead channels are no such ones. */
export function isSaturated(counts: Counts): boolean {
  const values: number[] = [];
  const end = counts.first + counts.count;
  for (let bin = end - 1; bin >= counts.first; bin--) values.push(countAt(counts, -1, bin));
  values.push(counts.zero);
  for (let bin = counts.first; bin < end; bin++) values.push(countAt(counts, 1, bin));
  const used = values.filter((count) => count > 0);
  const total = used.reduce((sum, count) => sum + count, 0);
  if (!total || counts.zero === total) return false;
  return Math.max(used[0] ?? 0, used[used.length - 1] ?? 0) > SATURATED * total;
}

/** Channels of a text such as `3, 8-12`; null where it cannot be read. */
export function parseIndices(text: string): number[] | null {
  const found = new Set<number>();
  for (const part of text.split(",").map((piece) => piece.trim()).filter(Boolean)) {
    const match = /^(\d+)(?:\s*[-\u2013]\s*(\d+))?$/.exec(part);
    if (!match) return null;
    const from = Number(match[1]);
    const to = Number(match[2] ?? from);
    if (to < from || to - from > 100_000) return null;
    for (let index = from; index <= to; index++) found.add(index);
  }
  return [...found].sort((a, b) => a - b);
}

/** Indices in as few words as can be: `3, 8-12`. */
export function indexText(indices: number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < indices.length; ) {
    let end = i;
    while (indices[end + 1] === (indices[end] ?? 0) + 1) end++;
    parts.push(end > i ? `${indices[i]}-${indices[end]}` : String(indices[i]));
    i = end + 1;
  }
  return parts.join(", ");
}

export interface Chosen {
  /** Channels with a histogram of their own. */
  rows: number[];
  /** Channels that the filter means and that have none. */
  beyond: number[];
}

export function filterChannels(rows: ChannelRows, counts: ArrayLike<number>, filter: ChannelFilter, indices: number[]): Chosen {
  const all = Array.from({ length: rows.rows }, (_, i) => i);
  const dead = new Set(rows.dead);
  const keep: Record<ChannelFilter, (channel: number) => boolean> = {
    all: () => true,
    dead: (channel) => dead.has(channel),
    "non-finite": (channel) => (rows.nonfinite[channel] ?? 0) > 0,
    saturated: (channel) => isSaturated(rowCounts(rows, counts, channel)),
    index: (channel) => indices.includes(channel),
  };
  const named = filter === "dead" ? rows.dead : filter === "index" ? indices.filter((index) => index < rows.channels) : [];
  return { rows: all.filter(keep[filter]), beyond: named.filter((channel) => channel >= rows.rows) };
}
