// Bins that are the float's own bits, four an octave, and the bars that are drawn of them.

const OCTAVES = 255;
/** Bins of one sign. */
export const SIDE = 4 * OCTAVES;

/** Lower edge of a magnitude bin; that of `SIDE` is 2**128. */
export function edge(bin: number): number {
  if (bin < 4) return [2 ** -149, 2 ** -128, 2 ** -127, 3 * 2 ** -128][bin] ?? 0;
  return 2 ** (((bin - 4) >> 2) - 126) * (1 + ((bin - 4) & 3) / 4);
}

const BITS = new DataView(new ArrayBuffer(4));

/** The bin of a magnitude. */
export function binOf(magnitude: number): number {
  BITS.setFloat32(0, magnitude);
  return Math.min(SIDE - 1, BITS.getUint32(0) >>> 21);
}

export type Sign = -1 | 0 | 1;

/** Counts over the magnitudes from `first` on: `count` negative ones, by growing magnitude, then as many positive. */
export interface Counts {
  zero: number;
  first: number;
  count: number;
  sides: ArrayLike<number>;
}

export interface Bar {
  sign: Sign;
  /** First and last bin, by magnitude. */
  low: number;
  high: number;
  /** Ends as values, `from` < `to`; both 0 for the bar of zeros. */
  from: number;
  to: number;
  count: number;
}

export function countAt(counts: Counts, sign: -1 | 1, bin: number): number {
  const at = bin - counts.first;
  if (at < 0 || at >= counts.count) return 0;
  return counts.sides[sign < 0 ? at : counts.count + at] ?? 0;
}

/** Bars that hold something, by value. `width`: bins are put together until they are so wide, whole ones (0: never). */
export function barsOf(counts: Counts, width = 0): Bar[] {
  const side = (sign: -1 | 1): Bar[] => {
    const bars: Bar[] = [];
    // From the outermost bin inwards: those near zero are the narrow ones.
    for (let high = counts.first + counts.count - 1; high >= counts.first; ) {
      let low = high;
      let count = countAt(counts, sign, high);
      const top = edge(high + 1);
      while (low > counts.first && top - edge(low) < width) count += countAt(counts, sign, --low);
      if (count) bars.push({ sign, low, high, count, from: sign > 0 ? edge(low) : -top, to: sign > 0 ? top : -edge(low) });
      high = low - 1;
    }
    return bars;
  };
  const zero: Bar[] = counts.zero ? [{ sign: 0, low: 0, high: 0, from: 0, to: 0, count: counts.zero }] : [];
  return [...side(-1), ...zero, ...side(1).reverse()];
}

/** Outermost values of what is counted, as edges of bins; null without any. */
export function rangeOf(counts: Counts): [number, number] | null {
  const bars = barsOf(counts);
  const first = bars[0];
  const last = bars[bars.length - 1];
  return first && last ? [first.from, last.to] : null;
}
