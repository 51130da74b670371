// Levels of a picture, 0 to 255, and the values of the input that they stand for.

export type Rgb = readonly [number, number, number];

const DIGITS = 7;

/** Of one level for each channel, the values: `black` and `white` say what 0 and 255 are. */
export function valuesOf(levels: readonly number[], black: readonly number[], white: readonly number[]): number[] {
  return black.map((low, i) => {
    const level = levels[i] ?? levels[0] ?? 0;
    const high = white[i] ?? low;
    // What is nearly a round number is one: 254.99999999999997 would be a bad value for a byte.
    return Number((low + ((high - low) * level) / 255).toPrecision(DIGITS));
  });
}

/** A brush's colour as levels, one for each channel that is painted. */
export function levelsOf(colour: Rgb, channels: number): number[] {
  return channels === 3 ? [...colour] : Array.from({ length: channels }, () => greyOf(colour));
}

export function greyOf([r, g, b]: Rgb): number {
  return r === g && g === b ? r : Math.round(0.299 * r + 0.587 * g + 0.114 * b);
}

export function hexOf(colour: Rgb): string {
  return `#${colour.map((level) => level.toString(16).padStart(2, "0")).join("")}`;
}

export function rgbOf(hex: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
}

/** A value behind a byte, with the digits that a byte is worth. */
export function roughly(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1000 || size < 0.001 ? value.toExponential(1).replace("e+", "e") : value.toPrecision(size >= 100 ? 3 : size >= 1 ? 3 : 2);
}
