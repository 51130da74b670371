import { describe, expect, it } from "vitest";
import { axisFor } from "../src/histogram/axis";
import { barsOf, binOf, edge, rangeOf, SIDE, type Counts } from "../src/histogram/bins";
import { filterChannels, indexText, isSaturated, parseIndices } from "../src/histogram/channels";
import { heightsFor, quantity } from "../src/histogram/heights";
import { formatValue } from "../src/lib/format";
import type { ChannelRows } from "../src/lib/protocol_statistics";

/** Counts of values, as the kernel makes them. */
function count(values: number[]): Counts {
  const bins = values.filter((v) => v !== 0).map((v) => binOf(Math.abs(v)));
  const first = Math.min(...bins);
  const size = bins.length ? Math.max(...bins) - first + 1 : 0;
  const sides = new Float64Array(2 * size);
  for (const value of values) if (value) sides[(value < 0 ? 0 : size) + binOf(Math.abs(value)) - first]! += 1;
  return { zero: values.filter((v) => v === 0).length, first: bins.length ? first : 0, count: size, sides };
}

describe("bins", () => {
  it("has four an octave, with powers of two, subnormal and largest numbers on edges", () => {
    expect([edge(0), edge(1), edge(4), edge(SIDE)]).toEqual([2 ** -149, 2 ** -128, 2 ** -126, 2 ** 128]);
    for (let bin = 1; bin < SIDE; bin++) {
      expect(binOf(edge(bin))).toBe(bin);
      expect(edge(bin)).toBeGreaterThan(edge(bin - 1));
    }
    expect(edge(binOf(1))).toBe(1);
    expect(edge(binOf(2 ** -14))).toBe(2 ** -14);
    expect([edge(binOf(1.3)), edge(binOf(1.3) + 1)]).toEqual([1.25, 1.5]);
  });

  it("makes bars by value, each with all that lies in it", () => {
    const bars = barsOf(count([-3, -3, -0.5, 0, 0, 0, 1, 1.1, 4]));
    expect(bars.map(({ from, to, count: n }) => [from, to, n])).toEqual([[-3.5, -3, 2], [-0.625, -0.5, 1], [0, 0, 3], [1, 1.25, 2], [4, 5, 1]]);
    expect(rangeOf(count([-3, 4]))).toEqual([-3.5, 5]);
    expect(rangeOf(count([]))).toBeNull();
  });

  it("puts narrow bins together for a linear axis and loses no value", () => {
    const values = Array.from({ length: 999 }, (_, i) => (i - 499) / 100);
    const counts = count(values);
    const bars = barsOf(counts, 0.3);
    expect(bars.reduce((sum, bar) => sum + bar.count, 0)).toBe(999);
    for (const [i, bar] of bars.entries()) {
      if (i && bar.sign === bars[i - 1]?.sign) expect(bar.from).toBe(bars[i - 1]?.to);
      if (bar.sign && bar.low > counts.first) expect(bar.to - bar.from).toBeGreaterThanOrEqual(0.3);
    }
  });
});

describe("axis", () => {
  it("places signed values in order, zero in its own place, and finds them again", () => {
    const counts = count([-8, -0.01, 0, 0.01, 8]);
    for (const scale of ["log", "linear"] as const) {
      const axis = axisFor(scale, 400, [counts]);
      const places = [-8, -0.02, 0, 0.02, 8].map((value) => axis.x(value));
      expect(places).toEqual([...places].sort((a, b) => a - b));
      for (const value of [-8, -0.5, 0.5, 7.9]) {
        const { sign, magnitude } = axis.at(axis.x(value) + (scale === "log" ? 1e-6 : 0));
        expect(sign * magnitude).toBeCloseTo(value, 3);
      }
      for (const { x } of axis.ticks) expect(x >= 0 && x <= 400).toBe(true);
    }
    expect(axisFor("log", 400, [counts]).at(200).sign).toBe(0);
    expect(axisFor("log", 400, [count([1, 2])]).zero).toEqual([0, 0]);
    expect(axisFor("log", 400, [count([0])]).zero).toEqual([0, 400]);
  });

  it("gives values of one size a bar, not the whole width", () => {
    for (const scale of ["log", "linear"] as const) {
      const axis = axisFor(scale, 300, [count([1, 1, 1.1])]);
      const wide = axis.x(1.25) - axis.x(1);
      expect(wide).toBeGreaterThan(10);
      expect(wide).toBeLessThan(150);
      expect(axis.ticks.map(({ text }) => text)).toContain("1");
    }
  });
});

describe("heights", () => {
  it("says density by octave or unit, or counts", () => {
    const [bar] = barsOf(count([1, 1.1]));
    if (!bar) throw new Error("no bar");
    expect(quantity(bar, 2, "count", "log")).toBe(2);
    expect(quantity(bar, 2, "density", "linear")).toBe(4);
    expect(quantity(bar, 2, "density", "log")).toBeCloseTo(1 / Math.log2(1.25));
    const bars = barsOf(count([0, 0, 1, 2, 2, 2]));
    for (const y of ["log", "linear"] as const) {
      const heights = heightsFor([{ bars, n: 6 }], "count", y, "log", formatValue);
      expect(heights.of(bars[2]!, 6)).toBeCloseTo(1);
      expect(heights.of(bars[1]!, 6)).toBeGreaterThan(0);
      expect(heights.of(bars[0]!, 6)).toBeCloseTo(1 / 3);
    }
  });
});

describe("channels", () => {
  it("reads and writes indices", () => {
    expect(parseIndices("3, 8-10")).toEqual([3, 8, 9, 10]);
    expect(parseIndices("")).toEqual([]);
    for (const bad of ["x", "3-", "9-3", "1,,a"]) expect(parseIndices(bad)).toBeNull();
    expect(indexText([3, 8, 9, 10, 12])).toBe("3, 8-10, 12");
  });

  it("tells saturated channels from dead and spread ones", () => {
    expect(isSaturated(count([...Array<number>(95).fill(1), 0.1, 0.2, 0.3]))).toBe(true);
    expect(isSaturated(count([...Array<number>(95).fill(-1), 0.1, 0.2, 0.3]))).toBe(true);
    expect(isSaturated(count([...Array<number>(95).fill(0), 1, 2, 3]))).toBe(true);
    expect(isSaturated(count(Array<number>(95).fill(0)))).toBe(false);
    expect(isSaturated(count(Array.from({ length: 99 }, (_, i) => i / 9)))).toBe(false);
    expect(isSaturated(count([...Array<number>(95).fill(0.5), 0.1, 2]))).toBe(false);
  });

  it("filters rows, and names what lies beyond them", () => {
    const rows: ChannelRows = { kind: "activations", missing: "", axis: "channels", channels: 40, rows: 4, zeros: [0, 9, 0, 0], nonfinite: [0, 0, 2, 0], dead: [1, 30], first: 500, count: 1, buffer: 0 };
    const counts = [0, 5, 0, 0, 2, 3, 0, 7];
    expect(filterChannels(rows, counts, "all", [])).toEqual({ rows: [0, 1, 2, 3], beyond: [] });
    expect(filterChannels(rows, counts, "dead", [])).toEqual({ rows: [1], beyond: [30] });
    expect(filterChannels(rows, counts, "non-finite", [])).toEqual({ rows: [2], beyond: [] });
    expect(filterChannels(rows, counts, "saturated", [])).toEqual({ rows: [0, 3], beyond: [] });
    expect(filterChannels(rows, counts, "index", [2, 5, 99])).toEqual({ rows: [2], beyond: [5] });
  });
});
