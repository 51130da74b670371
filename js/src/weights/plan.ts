// Where the tiles of a strip lie on their plane: sizes in CSS pixels, groups, and what of it is on screen.

import type { Pair } from "../lib/protocol";
import type { Region, WeightStrip } from "../lib/protocol_weights";

export const GAP = 6;
export const CAPTION = 15;
export const HEADING = 18;
/** Height of a chart of one row. */
export const LINE = 44;
const CHARACTER = 6.7;

interface Group {
  /** Positions of its tiles: first, and the one behind the last. */
  from: number;
  to: number;
  name: string;
  /** Where its heading or, without one, its first row begins. */
  top: number;
}

export interface Plan {
  /** Of a tile. */
  width: number;
  height: number;
  /** CSS pixels to a pixel that was sent. */
  pixel: number;
  columns: number;
  /** From one tile to the next. */
  across: number;
  down: number;
  captioned: boolean;
  groups: Group[];
  /** Of the whole plane. */
  plane: Pair;
  tiles: number;
}

export function planStrip(strip: Pick<WeightStrip, "layout" | "tiles" | "full" | "pool" | "magnify">, room: number, ratio: number, labels: string[], groups: [number, string][]): Plan {
  const { full, pool, magnify, tiles, layout } = strip;
  const pixel = (pool > 1 ? 1 : magnify) / ratio;
  const width = Math.ceil(full[1] / pool) * pixel;
  const height = layout === "lines" ? LINE : Math.ceil(full[0] / pool) * pixel;
  const captioned = tiles > 1;
  const longest = labels.reduce((most, label) => Math.max(most, label.length), String(Math.max(0, tiles - 1)).length);
  const cell = captioned ? Math.max(width, Math.ceil(longest * CHARACTER)) : width;
  const across = cell + GAP;
  const columns = Math.max(1, Math.min(tiles, Math.floor((room + GAP) / across)));
  const down = height + (captioned ? CAPTION : 0) + GAP;
  const planned: Group[] = [];
  let top = 0;
  const starts: [number, string][] = groups.length ? groups : [[0, ""]];
  starts.forEach(([from, name], i) => {
    const to = starts[i + 1]?.[0] ?? tiles;
    planned.push({ from, to, name, top });
    top += (name ? HEADING : 0) + Math.ceil((to - from) / columns) * down;
  });
  return { width, height, pixel, columns, across, down, captioned, groups: planned, plane: [columns * across - GAP, Math.max(1, top - GAP)], tiles };
}

function groupOf(plan: Plan, position: number): Group {
  return plan.groups.find(({ to }) => position < to) ?? (plan.groups[plan.groups.length - 1] as Group);
}

/** Left and upper corner of a tile. */
export function cornerOf(plan: Plan, position: number): Pair {
  const group = groupOf(plan, position);
  const place = position - group.from;
  return [(place % plan.columns) * plan.across, group.top + (group.name ? HEADING : 0) + Math.floor(place / plan.columns) * plan.down];
}

/** The tile at a point of the plane, or null between tiles. */
export function tileAt(plan: Plan, x: number, y: number): number | null {
  const group = plan.groups.filter(({ top }) => top <= y).pop();
  if (!group || x < 0) return null;
  const below = y - group.top - (group.name ? HEADING : 0);
  const column = Math.floor(x / plan.across);
  const row = Math.floor(below / plan.down);
  const position = group.from + row * plan.columns + column;
  if (below < 0 || column >= plan.columns || position >= group.to) return null;
  return x - column * plan.across < plan.width && below - row * plan.down < plan.height ? position : null;
}

/** Positions of the first tile in the rows between two heights, and of the one behind the last. */
export function tilesBetween(plan: Plan, top: number, bottom: number): Pair {
  let first = plan.tiles;
  let last = 0;
  for (const group of plan.groups) {
    const start = group.top + (group.name ? HEADING : 0);
    const rows = Math.ceil((group.to - group.from) / plan.columns);
    const from = Math.max(0, Math.floor((top - start) / plan.down));
    const to = Math.min(rows, Math.floor((bottom - start) / plan.down) + 1);
    if (from >= to || to <= 0) continue;
    first = Math.min(first, group.from + from * plan.columns);
    last = Math.max(last, Math.min(group.to, group.from + to * plan.columns));
  }
  return first < last ? [first, last] : [0, Math.min(1, plan.tiles)];
}

/** What of the picture lies in a window on the plane, with `margin` of its size more on each side. */
export function regionIn(plan: Plan, strip: Pick<WeightStrip, "full" | "pool" | "layout">, left: number, top: number, width: number, height: number, margin: number): Region {
  const [first, last] = tilesBetween(plan, top - margin * height, top + height + margin * height);
  const values = (pixels: number): number => (pixels / plan.pixel) * strip.pool;
  const span = (from: number, size: number, whole: number): Pair => [Math.max(0, Math.floor(values(from - margin * size))), Math.min(whole, Math.ceil(values(from + size * (1 + margin))))];
  // In several columns each tile is narrower than the window, and is wanted whole.
  const columns: Pair = plan.columns > 1 ? [0, strip.full[1]] : span(left, width, strip.full[1]);
  const one = last - first === 1 && strip.layout !== "lines";
  const rows: Pair = one ? span(top - cornerOf(plan, first)[1], height, strip.full[0]) : [0, strip.full[0]];
  const safe = ([from, to]: Pair, whole: number): Pair => (from < to ? [from, to] : [0, Math.min(1, whole)]);
  return [first, last - first, ...safe(rows, strip.full[0]), ...safe(columns, strip.full[1])];
}

/** Whether one region lies inside another. */
export function isInside(inner: Region, outer: Region): boolean {
  return inner[0] >= outer[0] && inner[0] + inner[1] <= outer[0] + outer[1] && inner[2] >= outer[2] && inner[3] <= outer[3] && inner[4] >= outer[4] && inner[5] <= outer[5];
}
