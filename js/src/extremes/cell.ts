// One patch: a button with its picture, plot or tokens, and the response under it.

import { lutFor } from "../lib/colormap";
import { h } from "../lib/dom";
import type { ChannelPatches, ContextTokens, PatchCell } from "../lib/protocol_extremes";
import { visible } from "../strips/tokens";
import type { Frame } from "../cards/view";
import { paintPicture, paintSignal } from "./paint";
import { detailText, reading, valueText } from "./words";

export interface CellOptions {
  frame: Frame;
  buffers: Uint8Array[];
  /** Longest edge of a picture, in device pixels. */
  edge: number;
  averaged: boolean;
  /** Least and largest value of all signals of the row. */
  range: [number, number];
}

const PLOT: [number, number] = [80, 44];

export function patchButton(cell: PatchCell, row: ChannelPatches, end: string, rank: number, options: CellOptions): HTMLButtonElement {
  const label = `channel ${row.channel}, ${end} number ${rank + 1}: ${reading(row.channel, cell, options.averaged)}, ${detailText(cell)}`;
  const face = cell.tokens ? tokensFace(cell, cell.tokens, row, options) : canvasFace(cell, row, options);
  return h("button", { type: "button", class: cell.tokens ? "xp xt" : "xp", tabindex: -1, "aria-label": label, "data-end": end, "data-rank": rank }, face, h("span", { class: "xv" }, valueText(cell)));
}

function canvasFace(cell: PatchCell, row: ChannelPatches, { frame, buffers, edge, range }: CellOptions): HTMLElement {
  const canvas = h("canvas", { "aria-hidden": "true", class: cell.picture ? "xpic" : "xplot" });
  if (cell.picture) paintPicture(canvas, cell, cell.picture, row, buffers, edge, frame.theme);
  else if (cell.signal) paintSignal(canvas, signalLines(cell, buffers), range, bandOf(cell, row, buffers), PLOT, frame.ink, frame.theme);
  return canvas;
}

/** The lines of a signal, one for each channel. */
export function signalLines(cell: PatchCell, buffers: Uint8Array[]): Float32Array[] {
  const { signal } = cell;
  if (!signal) return [];
  // A copy: what comes over the wire may begin anywhere, and numbers may not.
  const values = new Float32Array((buffers[signal.buffer] ?? new Uint8Array(0)).slice().buffer);
  return Array.from({ length: signal.channels }, (_, i) => values.subarray(i * signal.length, (i + 1) * signal.length));
}

/** The part of the response that lies over the window. */
function bandOf(cell: PatchCell, row: ChannelPatches, buffers: Uint8Array[]): { codes: Uint8Array; unsigned: boolean } | null {
  const codes = cell.heat && buffers[cell.heat.buffer];
  const [box] = cell.box;
  const size = cell.shape[cell.shape.length - 1] ?? 1;
  if (!codes || !box) return null;
  const from = Math.floor((box[0] / size) * codes.length);
  const to = Math.max(from + 1, Math.ceil((box[1] / size) * codes.length));
  return { codes: codes.subarray(from, to), unsigned: row.unsigned };
}

function tokensFace(cell: PatchCell, tokens: ContextTokens, row: ChannelPatches, { frame, buffers }: CellOptions): HTMLElement {
  const codes = cell.heat && buffers[cell.heat.buffer];
  const lut = lutFor(frame.theme, row.unsigned);
  const shown = tokens.ids.map((id, i) => {
    const code = codes ? codes[Math.floor(((tokens.start + i + 0.5) / tokens.total) * codes.length)] : undefined;
    const color = code === undefined ? null : lut[code] ?? 0;
    const style = color === null ? null : `box-shadow: inset 0 -4px rgb(${color & 255},${(color >> 8) & 255},${(color >> 16) & 255})`;
    return h(i === tokens.at ? "mark" : "span", { style }, visible(tokens.texts[i] ?? String(id)));
  });
  const before = tokens.start > 0 ? h("i", {}, "\u2026") : null;
  const after = tokens.start + tokens.ids.length < tokens.total ? h("i", {}, "\u2026") : null;
  return h("span", { class: "xctx", title: tokens.text || null }, before, ...shown, after);
}
