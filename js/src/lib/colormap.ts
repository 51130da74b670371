// Colour maps. The stops step evenly in OKLab lightness, equal on both arms, and zero is the neutral of the
// theme; between two stops the colour is interpolated in OKLab, so that every step stays even.

import type { Theme } from "./theme";

const DIVERGING: Record<Theme, string> = {
  light: "#093da1 #1f6dcd #549de8 #9ecbf3 #f3f3f5 #f0b6a1 #de785e #bc3d2e #8b0011",
  dark: "#9bbeff #5c98e9 #3c75af #31526e #2d2e2f #6c413a #a85844 #dc7652 #ffa47a",
};
const SEQUENTIAL: Record<Theme, string> = {
  light: "#f3f8fa #a8cfe8 #6aa4d1 #3e78af #254d80 #172849",
  dark: "#252629 #324964 #38719c #469dc9 #6cc0e4 #a9e2f7",
};

export type Rgb = [number, number, number];
type Lab = [number, number, number];

/** Codes of pixels that are no number; every other code is a value. */
export const NAN = 0;
export const NEGATIVE_INFINITY = 1;
export const POSITIVE_INFINITY = 2;
export const ZERO = 129;

/** A colour for each byte, as 32-bit little-endian RGBA for an ImageData. */
export type Lut = Uint32Array;

const cache = new Map<string, Lut>();

/** The table for a strip; codes 0 to 2 hold the base colour under the hatch that marks them. */
export function lutFor(theme: Theme, unsigned: boolean): Lut {
  const key = `${theme}${unsigned}`;
  const known = cache.get(key);
  if (known) return known;
  const lut = new Uint32Array(256);
  for (let code = 3; code < 256; code++) lut[code] = packed(mapColor(theme, unsigned, (code - ZERO) / 126));
  lut[NAN] = packed(mapColor(theme, unsigned, 0));
  lut[POSITIVE_INFINITY] = packed(mapColor(theme, unsigned, 1));
  lut[NEGATIVE_INFINITY] = packed(mapColor(theme, unsigned, unsigned ? 0 : -1));
  cache.set(key, lut);
  return lut;
}

/** Colour of a value as a share of the scale: -1..1, or 0..1 on the sequential map. */
export function mapColor(theme: Theme, unsigned: boolean, share: number): Rgb {
  const stops = (unsigned ? SEQUENTIAL : DIVERGING)[theme].split(" ");
  const place = Math.max(0, Math.min(1, unsigned ? share : (share + 1) / 2)) * (stops.length - 1);
  const at = Math.min(stops.length - 2, Math.floor(place));
  const from = parseHex(stops[at] ?? "");
  if (place === at) return from;
  return mix(from, parseHex(stops[at + 1] ?? ""), place - at);
}

/** A map from one end of its scale to the other, as a CSS image: unlike a canvas, no layer for the compositor. */
export function mapGradient(theme: Theme, unsigned: boolean): string {
  const steps = Array.from({ length: 33 }, (_, i) => cssColor(mapColor(theme, unsigned, unsigned ? i / 32 : i / 16 - 1)));
  return `linear-gradient(90deg, ${steps.join(", ")})`;
}

export function parseHex(hex: string): Rgb {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as Rgb;
}

export function packed([r, g, b]: Rgb): number {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

export function cssColor([r, g, b]: Rgb): string {
  return `rgb(${r},${g},${b})`;
}

function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const from = toLab(a);
  const to = toLab(b);
  return fromLab(from.map((v, i) => v + ((to[i] ?? 0) - v) * share) as Lab);
}

function toLab(rgb: Rgb): Lab {
  const [r, g, b] = rgb.map((v) => (v <= 10.31 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)) as Rgb;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromLab([L, A, B]: Lab): Rgb {
  const l = (L + 0.3963377774 * A + 0.2158037573 * B) ** 3;
  const m = (L - 0.1055613458 * A - 0.0638541728 * B) ** 3;
  const s = (L - 0.0894841775 * A - 1.291485548 * B) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((v) => {
    const encoded = v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
    return Math.max(0, Math.min(255, Math.round(encoded * 255)));
  }) as Rgb;
}

/** A colour of the style sheet as numbers; `color-mix` and names are resolved by the browser itself. */
export function resolveColor(css: string): Rgb {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!context) return parseHex("#f57c00");
  context.fillStyle = css;
  context.fillRect(0, 0, 1, 1);
  const [r = 0, g = 0, b = 0] = context.getImageData(0, 0, 1, 1).data;
  return [r, g, b];
}
