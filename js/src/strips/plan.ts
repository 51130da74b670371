// Where the tiles of a strip go: sizes in whole device pixels a value, columns, rows, and what is on screen.

import type { Layout, Pair } from "../lib/protocol";

export const TILE = 56;
export const CAPTION = 16;
const ROW_GAP = 4;
const COLUMN_GAP = 4;
const WIDEST_GAP = 24;
const LINE_WIDTH = 132;
const LINE_HEIGHT = 44;
const TOKENS_HEIGHT = 240;
const CHARACTER = 6.65;
const TRIANGLE = 11;

/** How a tile is drawn: `scale` device pixels a value, `width` and `height` in CSS pixels. */
export interface TileSize {
  scale: number;
  width: number;
  height: number;
}

export interface Plan extends TileSize {
  columns: number;
  rows: number;
  /** Width of a column, for the caption may be wider than the tile. */
  cell: number;
  gap: number;
  pitch: number;
  viewRows: number;
  channels: number;
}

/** Longest edge, in device pixels, to ask the kernel for. */
export function pixelsFor(layout: Layout | undefined, width: number, ratio: number): number {
  if (layout === "tokens") return Math.max(TILE, Math.min(1024, Math.round(width * ratio)));
  if (layout === "lines") return Math.round(LINE_WIDTH * ratio);
  return Math.round(TILE * ratio);
}

export function tileSize(layout: Layout, tile: Pair, width: number, ratio: number): TileSize {
  const [rows, columns] = tile;
  if (layout === "lines") return { scale: 0, width: LINE_WIDTH, height: LINE_HEIGHT };
  if (layout === "tokens") {
    const scale = Math.max(1, Math.min(Math.floor((width * ratio) / columns), Math.floor((TOKENS_HEIGHT * ratio) / rows), Math.round(8 * ratio)));
    return { scale, width: (columns * scale) / ratio, height: (rows * scale) / ratio };
  }
  const scale = Math.max(1, Math.round((TILE * ratio) / Math.max(rows, columns)));
  return { scale, width: (columns * scale) / ratio, height: (rows * scale) / ratio };
}

export function planTiles(layout: Layout, tile: Pair, channels: number, width: number, ratio: number): Plan {
  const size = tileSize(layout, tile, width, ratio);
  if (layout === "tokens") {
    return { ...size, columns: 1, rows: 1, cell: size.width, gap: 0, pitch: size.height + ROW_GAP, viewRows: 1, channels: 1 };
  }
  const digits = String(Math.max(0, channels - 1)).length;
  const caption = Math.ceil((digits + " dead".length) * CHARACTER + TRIANGLE);
  const cell = Math.ceil(Math.max(size.width, layout === "lines" ? 0 : caption));
  const fitting = Math.max(1, Math.min(channels, Math.floor((width + COLUMN_GAP) / (cell + COLUMN_GAP))));
  const rows = Math.max(1, Math.ceil(channels / fitting));
  // The last row is not left with a tile or two: 16 tiles are two rows of eight, not fifteen and one.
  const columns = Math.max(1, Math.ceil(channels / rows));
  // Four tiles in a row are few, so a narrow card shows four rows; a page holds about as much either way.
  const most = columns <= 5 ? 4 : 2;
  const gap = columns > 1 ? Math.min(WIDEST_GAP, Math.floor((width - columns * cell) / (columns - 1))) : 0;
  return { ...size, columns, rows, cell, gap, pitch: Math.ceil(size.height) + CAPTION + ROW_GAP, viewRows: Math.min(rows, most), channels };
}

/** First and number of the channels whose rows are on screen, with `overscan` rows around them. */
export function visibleChannels(plan: Plan, scrollTop: number, overscan: number): { first: number; count: number } {
  const top = Math.max(0, Math.floor(scrollTop / plan.pitch) - overscan);
  const bottom = Math.min(plan.rows, Math.ceil((scrollTop - 1) / plan.pitch) + plan.viewRows + overscan);
  const first = top * plan.columns;
  return { first, count: Math.max(0, Math.min(plan.channels, bottom * plan.columns) - first) };
}

export function rangeText(first: number, count: number, channels: number, noun = "channels"): string {
  if (channels === 1) return `1 ${noun.replace(/s$/, "")}`;
  if (count >= channels) return `${channels} ${noun}`;
  return `${noun} ${first}\u2013${Math.min(channels, first + count) - 1} of ${channels}`;
}

/** Where in a strip of up to `MOST_BARS` features each bar stands; more of them wrap as cells. */
export const MOST_BARS = 128;
const CELL = 10;

export interface BarPlan {
  chart: boolean;
  columns: number;
  rows: number;
  width: number;
  height: number;
  /** Width of a bar or cell with its gap. */
  pitch: number;
  channels: number;
}

export function planBar(channels: number, width: number): BarPlan {
  if (channels <= MOST_BARS) {
    const pitch = Math.max(1, Math.min(24, Math.floor(width / Math.max(1, channels))));
    return { chart: true, columns: channels, rows: 1, width: pitch * channels, height: 96, pitch, channels };
  }
  const columns = Math.max(1, Math.floor(width / CELL));
  const rows = Math.ceil(channels / columns);
  return { chart: false, columns, rows, width: columns * CELL, height: CELL, pitch: CELL, channels };
}

/** Rows of cells that are on screen at once. */
export const CELL_ROWS = 12;
