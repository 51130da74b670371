// Paints the tiles of a strip: pictures, pictures in colour, and charts of one row.

import type { Ink } from "../cards/view";
import { packed, NEGATIVE_INFINITY, ZERO } from "../lib/colormap";
import type { Pair } from "../lib/protocol";
import { barColor, type Look } from "../strips/paint";

/** A tile in colour: three codes a pixel on one scale, zero in the middle of each channel. */
export function paintColour(context: CanvasRenderingContext2D, left: number, top: number, codes: Uint8Array, [rows, columns]: Pair, scale: number, look: Look): void {
  const image = context.createImageData(columns * scale, rows * scale);
  const pixels = new Uint32Array(image.data.buffer);
  const level = (code: number): number => (code < 3 ? 0 : Math.round(look.unsigned ? ((code - ZERO) / 126) * 255 : ((code - 3) / 252) * 255));
  const warn = packed(look.warn);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const at = 3 * (row * columns + column);
      const rgb = [codes[at] ?? 0, codes[at + 1] ?? 0, codes[at + 2] ?? 0] as [number, number, number];
      const color = packed(rgb.map(level) as [number, number, number]);
      const least = Math.min(...rgb);
      for (let y = row * scale; y < (row + 1) * scale; y++) {
        for (let x = column * scale; x < (column + 1) * scale; x++) {
          const phase = least === NEGATIVE_INFINITY ? x - y : x + y;
          pixels[y * columns * scale + x] = least < 3 && ((phase % 4) + 4) % 4 < 2 ? warn : color;
        }
      }
    }
  }
  context.putImageData(image, left, top);
}

/** A row as bars about zero or, of pooled values, from the least to the largest. */
export function paintBars(context: CanvasRenderingContext2D, left: number, top: number, codes: Uint8Array, [rows, columns]: Pair, size: { width: number; height: number; pixel: number }, look: Look, ink: Ink): void {
  const { height, pixel } = size;
  const middle = look.unsigned ? height - 1 : height / 2;
  const reach = look.unsigned ? height - 2 : height / 2 - 1;
  const wide = pixel > 3 ? pixel - 1 : pixel;
  const y = (code: number): number => top + middle - ((code - ZERO) / 126) * reach;
  context.fillStyle = ink.zero;
  context.fillRect(left, Math.round(top + middle), size.width, 1);
  for (let column = 0; column < columns; column++) {
    const low = codes[column] ?? ZERO;
    const high = rows > 1 ? (codes[columns + column] ?? ZERO) : low;
    const x = left + column * pixel;
    context.fillStyle = barColor(Math.abs(low - ZERO) > Math.abs(high - ZERO) ? low : high, look);
    if (low < 3 || high < 3) {
      context.fillStyle = ink.warn;
      for (let dash = 1; dash < height; dash += 6) context.fillRect(x, top + dash, Math.max(1, wide), 3);
      continue;
    }
    const from = Math.min(y(high), top + middle);
    const to = Math.max(y(low), top + middle);
    if (to > from) context.fillRect(x, from, Math.max(1, wide), Math.max(1, to - from));
  }
}
