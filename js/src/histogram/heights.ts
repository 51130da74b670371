// How high bars are: counts or density, on a linear or a log axis.

import type { Scale } from "./axis";
import type { Bar } from "./bins";

export type Height = "density" | "count";

export interface Heights {
  /** From 0 to 1; the bar of zeros is as high as their share. */
  of(bar: Bar, n: number): number;
  /** What the top of the axis says. */
  top: string;
}

/** Of a bar: values in it, or their share by its width, in octaves on a log axis and in units on a linear one. */
export function quantity(bar: Bar, n: number, height: Height, scale: Scale): number {
  if (height === "count") return bar.count;
  const width = scale === "log" ? Math.abs(Math.log2(bar.to / bar.from)) : bar.to - bar.from;
  return bar.count / n / width;
}

/** Heights for the bars of one or two histograms, `n` values each, over one axis. */
export function heightsFor(all: { bars: Bar[]; n: number }[], height: Height, y: Scale, scale: Scale, format: (value: number) => string): Heights {
  const values = all.flatMap(({ bars, n }) => bars.filter(({ sign }) => sign).map((bar) => quantity(bar, n, height, scale)));
  const most = Math.max(...values, 0);
  const least = Math.min(...values, most);
  const floor = Math.log10(least || 1) - 0.3;
  const decades = Math.log10(most || 1) - floor || 1;
  const of = (bar: Bar, n: number): number => {
    if (!bar.sign) return bar.count / n;
    const value = quantity(bar, n, height, scale);
    return y === "linear" ? value / (most || 1) : Math.max(0, (Math.log10(value) - floor) / decades);
  };
  const unit = height === "count" ? "values" : scale === "log" ? "of all values per octave" : "of all values per unit";
  const from = y === "log" ? format(10 ** floor) : "0";
  const top = most ? `height: ${height === "count" ? "" : "share "}${unit}, from ${from} to ${format(most)}${y === "log" ? ", log" : ""}` : "";
  return { of, top };
}
