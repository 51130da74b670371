// Pictures as bytes, one or three a pixel, painted at whole device pixels.

import { packed } from "../lib/colormap";

export interface Bytes {
  rows: number;
  columns: number;
  colour: boolean;
  bytes: Uint8Array;
}

/** Device pixels for one of the picture's, so that its longer edge is at most `edge` where it can be. */
export function scaleFor(rows: number, columns: number, edge: number): number {
  return Math.max(1, Math.floor(edge / Math.max(rows, columns, 1)));
}

/** Paints the picture into a canvas of its own size; returns device pixels a pixel. */
export function paintBytes(canvas: HTMLCanvasElement, picture: Bytes, edge: number): number {
  const { rows, columns } = picture;
  const scale = scaleFor(rows, columns, edge);
  // The browser enlarges by a whole factor, nearest neighbour: the canvas holds a pixel for each of the picture.
  canvas.width = columns;
  canvas.height = rows;
  canvas.style.width = `${(columns * scale) / devicePixelRatio}px`;
  canvas.style.height = `${(rows * scale) / devicePixelRatio}px`;
  putBytes(canvas, picture);
  return scale;
}

export function putBytes(canvas: HTMLCanvasElement, { rows, columns, colour, bytes }: Bytes): void {
  const context = canvas.getContext("2d");
  if (!context || !rows || !columns) return;
  const image = context.createImageData(columns, rows);
  const out = new Uint32Array(image.data.buffer);
  for (let i = 0; i < out.length; i++) out[i] = packed(colour ? [bytes[3 * i] ?? 0, bytes[3 * i + 1] ?? 0, bytes[3 * i + 2] ?? 0] : [bytes[i] ?? 0, bytes[i] ?? 0, bytes[i] ?? 0]);
  context.putImageData(image, 0, 0);
}
