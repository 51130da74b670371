// Which channels of a card are on screen, which to ask the kernel for, and where a page ends.

import type { Strip } from "../lib/protocol";
import { CELL_ROWS, MOST_BARS, planBar, planTiles, visibleChannels } from "./plan";

/** How a card shows its strip. */
export interface Showing {
  strip: Pick<Strip, "layout" | "tile" | "channels"> | undefined;
  average: boolean;
  width: number;
  ratio: number;
  scrollTop: number;
}

export interface Paging {
  /** Heights: of a page (0: there are no pages), of a row, and of all that can scroll away. */
  page: number;
  pitch: number;
  last: number;
  first: number;
  count: number;
  channels: number;
}

/** Before the first answer nothing is known of the tensor; two rows of the usual width are a good guess. */
const FIRST_GUESS = { first: 0, count: 24 };

export function wantedChannels({ strip, average, width, ratio, scrollTop }: Showing): { first: number; count: number } {
  if (!strip) return FIRST_GUESS;
  const { layout, channels } = strip;
  if (average || layout === "tokens" || layout === "scalar" || layout === "ids") return { first: 0, count: 1 };
  if (layout !== "bar") return visibleChannels(planTiles(layout, strip.tile, channels, width, ratio), scrollTop, 1);
  if (channels <= MOST_BARS) return { first: 0, count: channels };
  const { columns, pitch } = planBar(channels, width);
  const first = Math.max(0, Math.floor(scrollTop / pitch) - 1) * columns;
  return { first, count: Math.min(channels - first, (CELL_ROWS + 3) * columns) };
}

export function pagingOf({ strip, average, width, ratio, scrollTop }: Showing): Paging {
  const channels = average ? 1 : strip?.channels ?? 0;
  const whole = { page: 0, pitch: 1, last: 0, first: 0, count: channels, channels };
  if (!strip || strip.layout === "scalar" || strip.layout === "tokens" || strip.layout === "ids") return whole;
  if (strip.layout === "bar") {
    const { columns, rows, pitch, chart } = planBar(channels, width);
    if (chart) return whole;
    const last = Math.max(0, (rows - CELL_ROWS) * pitch);
    return { page: CELL_ROWS * pitch, pitch, last, first: Math.floor(scrollTop / pitch) * columns, count: CELL_ROWS * columns, channels };
  }
  const { pitch, columns, rows, viewRows } = planTiles(strip.layout, strip.tile, channels, width, ratio);
  return { page: viewRows * pitch, pitch, last: (rows - viewRows) * pitch, first: Math.round(scrollTop / pitch) * columns, count: viewRows * columns, channels };
}
