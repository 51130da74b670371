// Where values lie on the axis: signed log, with zero in a place of its own, or linear.

import { countAt, edge, rangeOf, type Counts, type Sign } from "./bins";

export type Scale = "log" | "linear";

export interface Tick {
  x: number;
  text: string;
}

export interface Axis {
  scale: Scale;
  width: number;
  /** From a value to pixels; zero is the middle of its place. */
  x(value: number): number;
  /** The sign and magnitude at a pixel; on a log axis zero has some pixels, on a linear one none. */
  at(x: number): { sign: Sign; magnitude: number };
  /** Left and right end of the place of zeros. */
  zero: [number, number];
  ticks: Tick[];
  /** The least magnitude that is drawn, and the share of the values below it. */
  from: number;
  hidden: number;
}

const GAP = 30;
const TICK = 46;
/** What a log axis spans at least. */
const LEAST_OCTAVES = 3;
/** Up to this share of the values may be too small for a log axis, which would else show little but their emptiness. */
const TOO_SMALL = 1e-3;

/** The axis for one or more histograms over each other. */
export function axisFor(scale: Scale, width: number, all: Counts[]): Axis {
  const ranges = all.map(rangeOf).filter((range) => range !== null);
  const low = Math.min(...ranges.map(([from]) => from));
  const high = Math.max(...ranges.map(([, to]) => to));
  return scale === "linear" ? linearAxis(width, low, high) : logAxis(width, low, high, all);
}

function linearAxis(width: number, low: number, high: number): Axis {
  // As above: one bin is a quarter of its value wide at most.
  const spare = Number.isFinite(low) ? Math.max(0, Math.max(Math.abs(low), Math.abs(high)) / 2 - (high - low)) : 0;
  const [from, to] = !Number.isFinite(low) || low === high ? [(low || 0) - 1, (low || 0) + 1] : [low - spare, high + spare];
  const x = (value: number): number => ((value - from) / (to - from)) * width;
  const at = (px: number): { sign: Sign; magnitude: number } => {
    const value = from + (px / width) * (to - from);
    return { sign: Math.sign(value) as Sign, magnitude: Math.abs(value) };
  };
  const step = niceStep((to - from) / Math.max(1, width / TICK));
  const ticks: Tick[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push({ x: x(i * step), text: tickText(i * step) });
  return { scale: "linear", width, x, at, zero: [x(0) - 3, x(0) + 3], ticks, from: 0, hidden: 0 };
}

function logAxis(width: number, low: number, high: number, all: Counts[]): Axis {
  const firsts = all.filter(({ count }) => count > 0);
  const { bin, share: hidden } = leastBin(firsts);
  const lowest = Math.log2(edge(Math.min(bin, 1019)));
  const highest = Math.log2(edge(Math.max(...firsts.map(({ first, count }) => first + count), 1)));
  // Values of one size are a bar, not the whole picture.
  const spare = Math.max(0, (LEAST_OCTAVES - (highest - lowest)) / 2);
  const [least, most] = [lowest - spare, highest + spare];
  const negative = low < 0;
  const positive = high > 0;
  const zeros = all.some(({ zero }) => zero > 0);
  const gap = !negative && !positive ? width : zeros || (negative && positive) ? Math.min(GAP, width / 4) : 0;
  const side = (width - gap) / (Number(negative) + Number(positive) || 1);
  const left = negative ? side : 0;
  const span = most - least;
  const share = (magnitude: number): number => Math.max(0, Math.min(1, (Math.log2(magnitude) - least) / span));
  const x = (value: number): number => {
    if (value === 0) return left + gap / 2;
    return value > 0 ? left + gap + share(value) * side : left - share(-value) * side;
  };
  const at = (px: number): { sign: Sign; magnitude: number } => {
    if (px >= left && px < left + gap) return { sign: 0, magnitude: 0 };
    const sign = px < left ? -1 : 1;
    const inside = (sign < 0 ? left - px : px - left - gap) / side;
    return { sign, magnitude: 2 ** (least + Math.max(0, Math.min(1 - 1e-9, inside)) * span) };
  };
  const ticks: Tick[] = gap ? [{ x: left + gap / 2, text: "0" }] : [];
  // Long labels need more room.
  const letters = Math.max(...[least, most].map((end) => tickText(-(10 ** Math.round(end * Math.log10(2)))).length));
  const decades = Math.max(1, Math.ceil((Math.max(TICK, 7 * letters + 8) * span * Math.log10(2)) / side));
  const from = Math.ceil(least * Math.log10(2));
  for (let power = Math.floor(most * Math.log10(2) + 1e-9); power >= from; power -= decades) {
    for (const sign of [negative ? -1 : 0, positive ? 1 : 0]) {
      const place = x(sign * 10 ** power);
      // Zero's own label comes first.
      if (sign && (!gap || Math.abs(place - left - gap / 2) > 26)) ticks.push({ x: place, text: tickText(sign * 10 ** power) });
    }
  }
  return { scale: "log", width, x, at, zero: [left, left + gap], ticks, from: 2 ** lowest, hidden };
}

/** Where the axis begins, and the share of the values that are not zero below it. */
function leastBin(all: Counts[]): { bin: number; share: number } {
  let bin = 1020;
  for (const counts of all) {
    const end = counts.first + counts.count;
    const at = (i: number): number => countAt(counts, -1, i) + countAt(counts, 1, i);
    let total = counts.zero;
    for (let i = counts.first; i < end; i++) total += at(i);
    let below = 0;
    let first = counts.first;
    while (first < end - 1 && below + at(first) <= TOO_SMALL * total) below += at(first++);
    bin = Math.min(bin, first);
  }
  let share = 0;
  for (const counts of all) {
    let total = counts.zero;
    let below = 0;
    for (let i = counts.first; i < counts.first + counts.count; i++) {
      const count = countAt(counts, -1, i) + countAt(counts, 1, i);
      total += count;
      if (i < bin) below += count;
    }
    share = Math.max(share, total ? below / total : 0);
  }
  return { bin, share };
}

function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
}

/** A number of an axis, to so many digits. */
export function tickText(value: number, digits = 3): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-2 && size < 1e4) return String(Number(value.toPrecision(digits)));
  return value.toExponential(digits - 1).replace(/\.?0*e\+?/, "e");
}
