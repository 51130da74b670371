// Paints codes into canvases, at whole device pixels a value. Non-finite values are hatched in the warn colour.

import { lutFor, mapColor, cssColor, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, ZERO, packed, type Rgb } from "../lib/colormap";
import type { Ink } from "../cards/view";
import type { Pair } from "../lib/protocol";
import type { Theme } from "../lib/theme";

export interface Look {
  theme: Theme;
  unsigned: boolean;
  warn: Rgb;
}

/** Makes a canvas so many device pixels large; clears it if that is new. True if it was. */
export function resize(canvas: HTMLCanvasElement, width: number, height: number): boolean {
  if (canvas.width === width && canvas.height === height) return false;
  canvas.width = width;
  canvas.height = height;
  return true;
}

/** A tile as codes, `tile` rows and columns of them, with its corner at `left`, `top` (device pixels). */
export function paintRaster(context: CanvasRenderingContext2D, left: number, top: number, codes: Uint8Array, [rows, columns]: Pair, scale: number, look: Look): void {
  const width = columns * scale;
  const height = rows * scale;
  if (!width || !height) return;
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const lut = lutFor(look.theme, look.unsigned);
  const warn = packed(look.warn);
  for (let row = 0; row < rows; row++) {
    const line0 = row * scale;
    let hatched = false;
    for (let column = 0, at = line0 * width; column < columns; column++) {
      const code = codes[row * columns + column] ?? NAN;
      if (code < 3) hatched = true;
      const color = lut[code] ?? 0;
      for (let i = 0; i < scale; i++) pixels[at++] = color;
    }
    for (let line = 1; line < scale; line++) pixels.copyWithin((line0 + line) * width, line0 * width, (line0 + 1) * width);
    if (hatched) hatchRow(pixels, codes, row, columns, scale, warn);
  }
  context.putImageData(image, left, top);
}

/** Stripes over the pixels of a row that are no number: `/` for NaN and +Inf, `\` for -Inf. */
function hatchRow(pixels: Uint32Array, codes: Uint8Array, row: number, columns: number, scale: number, warn: number): void {
  const width = columns * scale;
  for (let column = 0; column < columns; column++) {
    const code = codes[row * columns + column] ?? NAN;
    if (code > 2) continue;
    for (let y = row * scale; y < (row + 1) * scale; y++) {
      for (let x = column * scale; x < (column + 1) * scale; x++) {
        const phase = code === NEGATIVE_INFINITY ? x - y : x + y;
        if (((phase % 4) + 4) % 4 < 2) pixels[y * width + x] = warn;
      }
    }
  }
}

/** One line plot: a row of codes, or two rows with the least and the largest of what was pooled. */
export function paintLine(
  context: CanvasRenderingContext2D,
  left: number,
  top: number,
  codes: Uint8Array,
  [rows, columns]: Pair,
  size: { width: number; height: number },
  ratio: number,
  unsigned: boolean,
  ink: Ink,
): void {
  const width = Math.round(size.width * ratio);
  const height = Math.round(size.height * ratio);
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.clearRect(left, top, width, height);
  context.translate(left, top);
  const y = (code: number): number => {
    const share = (code - ZERO) / 126;
    return unsigned ? (1 - share) * (height - 2) + 1 : ((1 - share) / 2) * (height - 2) + 1;
  };
  const x = (column: number): number => (columns > 1 ? (column / (columns - 1)) * (width - 1) : width / 2);
  context.fillStyle = ink.zero;
  context.fillRect(0, Math.round(y(ZERO)), width, 1);
  context.strokeStyle = context.fillStyle = ink.line;
  context.lineWidth = ratio;
  context.beginPath();
  let before: [number, number] | null = null;
  for (let column = 0; column < columns; column++) {
    const low = codes[column] ?? NAN;
    const high = rows > 1 ? codes[columns + column] ?? NAN : low;
    if (low < 3 || high < 3) {
      before = null;
      continue;
    }
    if (rows > 1) {
      // A column reaches to the one before, so that a steep line is not dashed.
      const lowest = y(before ? Math.min(low, before[1]) : low);
      const highest = y(before ? Math.max(high, before[0]) : high);
      context.fillRect(Math.floor(x(column)), highest - ratio / 2, Math.ceil(width / columns), Math.max(ratio, lowest - highest + ratio / 2));
    } else if (before) context.lineTo(x(column), y(low));
    else context.moveTo(x(column), y(low));
    before = [low, high];
  }
  if (rows === 1) {
    if (columns === 1) context.fillRect(0, y(codes[0] ?? ZERO), width, ratio);
    else context.stroke();
  }
  context.fillStyle = ink.warn;
  for (let column = 0; column < columns; column++) {
    const code = Math.min(codes[column] ?? NAN, rows > 1 ? codes[columns + column] ?? NAN : 255);
    if (code > 2) continue;
    for (let dash = 0; dash < height; dash += 4) context.fillRect(Math.floor(x(column)), dash, Math.max(1, width / columns), 2);
    if (code === POSITIVE_INFINITY) context.fillRect(Math.floor(x(column)) - 1, 0, 3, 3);
  }
  context.restore();
}

export function barColor(code: number, look: Look): string {
  if (code < 3) return cssColor(look.warn);
  return cssColor(mapColor(look.theme, look.unsigned, (code - ZERO) / 126));
}
