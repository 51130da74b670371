// Paints patches at whole device pixels a value, with the channel's response laid over them if that is wanted.

import { lutFor, packed, type Lut } from "../lib/colormap";
import type { ChannelPatches, HeatMap, PatchCell, PatchPicture } from "../lib/protocol_extremes";
import type { Theme } from "../lib/theme";

const OVER = 0.62;

/** Device pixels for one value, so that the longer edge is about `edge`. */
export function wholeScale(rows: number, columns: number, edge: number): number {
  return Math.max(1, Math.floor(edge / Math.max(rows, columns, 1)));
}

/** Looks a response up by its place in the sample, as a share of the sample's size. */
export function heatAt(heat: HeatMap, codes: Uint8Array, row: number, column: number): number | null {
  if (row < 0 || row >= 1 || column < 0 || column >= 1) return null;
  return codes[Math.floor(row * heat.rows) * heat.columns + Math.floor(column * heat.columns)] ?? null;
}

export function paintPicture(canvas: HTMLCanvasElement, cell: PatchCell, picture: PatchPicture, row: ChannelPatches, buffers: Uint8Array[], edge: number, theme: Theme): void {
  const [rows, columns] = picture.size;
  const scale = wholeScale(rows, columns, edge);
  canvas.width = columns * scale;
  canvas.height = rows * scale;
  canvas.style.width = `${canvas.width / devicePixelRatio}px`;
  canvas.style.height = `${canvas.height / devicePixelRatio}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  const image = context.createImageData(canvas.width, canvas.height);
  const out = new Uint32Array(image.data.buffer);
  const bytes = buffers[picture.buffer] ?? new Uint8Array(0);
  const codes = cell.heat ? buffers[cell.heat.buffer] : undefined;
  const lut = lutFor(theme, row.unsigned);
  const [height = 1, width = 1] = cell.shape.slice(-2);
  for (let y = 0; y < picture.rows; y++) {
    for (let x = 0; x < picture.columns; x++) {
      let color = pixelOf(bytes, picture, y, x);
      if (cell.heat && codes) {
        const [top, left] = [picture.frame[0][0] + (y + picture.offset[0] + 0.5) * picture.pool, picture.frame[1][0] + (x + picture.offset[1] + 0.5) * picture.pool];
        const code = heatAt(cell.heat, codes, top / height, left / width);
        if (code !== null) color = laidOver(color, lut, code);
      }
      fill(out, canvas.width, (y + picture.offset[0]) * scale, (x + picture.offset[1]) * scale, scale, color);
    }
  }
  context.putImageData(image, 0, 0);
}

function pixelOf(bytes: Uint8Array, { colour, columns }: PatchPicture, y: number, x: number): number {
  const at = y * columns + x;
  const grey = bytes[at] ?? 0;
  return colour ? packed([bytes[3 * at] ?? 0, bytes[3 * at + 1] ?? 0, bytes[3 * at + 2] ?? 0]) : packed([grey, grey, grey]);
}

/** The picture turns grey under the response, so that colour means one thing only. */
function laidOver(color: number, lut: Lut, code: number): number {
  const grey = 0.299 * (color & 255) + 0.587 * ((color >> 8) & 255) + 0.114 * ((color >> 16) & 255);
  const over = lut[code] ?? 0;
  const mixed = [0, 8, 16].map((shift) => Math.round(OVER * ((over >> shift) & 255) + (1 - OVER) * grey));
  return packed(mixed as [number, number, number]);
}

function fill(out: Uint32Array, width: number, top: number, left: number, size: number, color: number): void {
  for (let line = top; line < top + size; line++) out.fill(color, line * width + left, line * width + left + size);
}

/** Lines of a signal between `low` and `high`; under them the response as a band. */
export function paintSignal(canvas: HTMLCanvasElement, lines: Float32Array[], [low, high]: [number, number], band: { codes: Uint8Array; unsigned: boolean } | null, size: [number, number], ink: { line: string; zero: string }, theme: Theme): void {
  const ratio = devicePixelRatio;
  const [width, height] = size;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const bottom = band ? height - 7 : height - 2;
  const y = (value: number): number => bottom - ((value - low) / (high - low || 1)) * (bottom - 2);
  if (low < 0 && high > 0) {
    context.strokeStyle = ink.zero;
    context.beginPath();
    context.moveTo(0, y(0));
    context.lineTo(width, y(0));
    context.stroke();
  }
  context.strokeStyle = ink.line;
  lines.forEach((line, i) => {
    context.setLineDash(i === 1 ? [4, 2] : i === 2 ? [1, 2] : []);
    context.beginPath();
    line.forEach((value, at) => {
      const x = line.length > 1 ? 1 + (at / (line.length - 1)) * (width - 2) : width / 2;
      if (at) context.lineTo(x, y(value));
      else context.moveTo(x, y(value));
    });
    context.stroke();
  });
  if (!band) return;
  const lut = lutFor(theme, band.unsigned);
  band.codes.forEach((code, at) => {
    const color = lut[code] ?? 0;
    context.fillStyle = `rgb(${color & 255},${(color >> 8) & 255},${(color >> 16) & 255})`;
    context.fillRect((at / band.codes.length) * width, height - 5, width / band.codes.length + 0.5, 5);
  });
}
