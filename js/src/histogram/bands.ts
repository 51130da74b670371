// Where numbers of a dtype lose digits or end.

import { countAt, edge, type Counts } from "./bins";

interface FloatRange {
  /** Below it numbers are subnormal. */
  tiny: number;
  /** From here on there is only infinity. */
  end: number;
}

const RANGES: Record<string, FloatRange> = {
  float16: { tiny: 2 ** -14, end: 2 ** 16 },
  bfloat16: { tiny: 2 ** -126, end: 2 ** 128 },
  float32: { tiny: 2 ** -126, end: 2 ** 128 },
};

export function floatRange(dtype: string): FloatRange | null {
  return RANGES[dtype] ?? null;
}

/** How many values are subnormal. */
export function subnormal(counts: Counts, { tiny }: FloatRange): number {
  let sum = 0;
  for (let bin = counts.first; bin < counts.first + counts.count && edge(bin + 1) <= tiny; bin++) sum += countAt(counts, -1, bin) + countAt(counts, 1, bin);
  return sum;
}
