// The byte coding of pixels (see protocol.py): 0 NaN, 1 -Inf, 2 +Inf, else `(code - 129) / 126 * scale`.

import { NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, ZERO } from "./colormap";

export function decode(code: number, scale: number): number {
  if (code === NAN) return NaN;
  if (code === NEGATIVE_INFINITY) return -Infinity;
  if (code === POSITIVE_INFINITY) return Infinity;
  return ((code - ZERO) / 126) * scale;
}

export function encode(value: number, scale: number): number {
  if (Number.isNaN(value)) return NAN;
  if (value === Infinity) return POSITIVE_INFINITY;
  if (value === -Infinity) return NEGATIVE_INFINITY;
  if (scale === 0) return ZERO;
  return Math.max(3, Math.min(255, Math.round((value / scale) * 126) + ZERO));
}

/** Exact values as the codes that draw them. */
export function encodeAll(values: ArrayLike<number>, scale: number): Uint8Array {
  const codes = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) codes[i] = encode(values[i] ?? NaN, scale);
  return codes;
}

/** The bytes of one buffer, whatever view the transport wrapped them in. */
export function bytesOf(buffer: DataView | ArrayBuffer | undefined): Uint8Array {
  if (!buffer) return new Uint8Array(0);
  return buffer instanceof ArrayBuffer ? new Uint8Array(buffer) : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

export type Floats = Float32Array | Float64Array;

/** Exact values of a reply; copied, because a view need not be aligned for its type. */
export function floatsOf(buffer: DataView | ArrayBuffer | undefined, dtype: "float32" | "float64"): Floats {
  const copy = bytesOf(buffer).slice().buffer;
  return dtype === "float64" ? new Float64Array(copy) : new Float32Array(copy);
}

/** Cuts the joined bytes of a `Still` back into its buffers. */
export function splitBuffers(data: DataView | ArrayBuffer | null, sizes: number[]): Uint8Array[] {
  const bytes = bytesOf(data ?? undefined);
  let at = 0;
  return sizes.map((size) => bytes.subarray(at, (at += size)));
}
