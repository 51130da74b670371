import { describe, expect, it } from "vitest";
import { knobNumber, knobText } from "../src/lib/knobs";
import type { WeightAxis } from "../src/lib/protocol_weights";
import { cornerOf, isInside, planStrip, regionIn, tileAt, tilesBetween } from "../src/weights/plan";
import { indexText, shareText } from "../src/weights/words";

const kernels = { layout: "tiles" as const, tiles: 20, full: [3, 3] as [number, number], pool: 1, magnify: 10 };
const matrix = { layout: "tiles" as const, tiles: 1, full: [4096, 4096] as [number, number], pool: 1, magnify: 2 };

describe("the plane of tiles", () => {
  it("finds each tile at its corner, and none between tiles", () => {
    const plan = planStrip(kernels, 200, 1, [], [[0, "q"], [7, "k"]]);
    for (let position = 0; position < 20; position++) {
      const [x, y] = cornerOf(plan, position);
      expect(tileAt(plan, x + 1, y + 1)).toBe(position);
      expect(tileAt(plan, x + plan.width - 1, y + plan.height - 1)).toBe(position);
      expect(tileAt(plan, x + plan.width + 1, y + 1)).toBe(null);
      expect(x + plan.width).toBeLessThanOrEqual(200);
    }
  });

  it("begins a group in a row of its own", () => {
    const plan = planStrip(kernels, 200, 1, [], [[0, "q"], [7, "k"]]);
    expect(cornerOf(plan, 7)[0]).toBe(0);
    expect(cornerOf(plan, 7)[1]).toBeGreaterThan(cornerOf(plan, 6)[1]);
    const lowest = cornerOf(plan, 19)[1] + plan.down;
    expect(plan.plane[1]).toBeLessThanOrEqual(lowest);
    expect(plan.plane[1]).toBeGreaterThan(cornerOf(plan, 19)[1] + plan.height);
  });

  it("knows which tiles are on screen", () => {
    const plan = planStrip(kernels, 200, 1, [], []);
    const [first, last] = tilesBetween(plan, plan.down * 1.5, plan.down * 2.5);
    expect([first, last]).toEqual([plan.columns, Math.min(20, 3 * plan.columns)]);
    expect(tilesBetween(plan, -100, -50)).toEqual([0, 1]);
  });

  it("makes room for labels that are wider than their tile", () => {
    expect(planStrip(kernels, 200, 1, ["q head 10"], []).across).toBeGreaterThan(60);
  });

  it("wants the part of a large matrix that is on screen", () => {
    const plan = planStrip(matrix, 300, 1, [], []);
    expect(plan.plane).toEqual([8192, 8192]);
    expect(regionIn(plan, matrix, 1000, 2000, 300, 200, 0)).toEqual([0, 1, 1000, 1100, 500, 650]);
    const wide = regionIn(plan, matrix, 1000, 2000, 300, 200, 0.5);
    expect(isInside([0, 1, 1000, 1100, 500, 650], wide)).toBe(true);
    expect(isInside(wide, [0, 1, 1000, 1100, 500, 650])).toBe(false);
    expect(regionIn(plan, matrix, 7992, 8092, 300, 200, 0.5)[3]).toBe(4096);
  });

  it("wants whole rows of a chart", () => {
    const line = { layout: "lines" as const, tiles: 1, full: [1, 4096] as [number, number], pool: 8, magnify: 1 };
    const plan = planStrip(line, 600, 2, [], []);
    expect(plan.plane[0]).toBe(256);
    expect(regionIn(plan, line, 0, 0, 256, 44, 0)).toEqual([0, 1, 0, 1, 0, 4096]);
  });
});

describe("where a value stands", () => {
  const axes: WeightAxis[] = [
    { name: "head", size: 6, source: 0, step: 4, labels: [] },
    { name: "out", size: 4, source: 0, step: 1, labels: [] },
    { name: "in", size: 24, source: 1, step: 1, labels: [] },
  ];
  const arranged = { y: 1, x: 2, tile: 0, colour: -1 };

  it("adds the halves of an axis up", () => {
    expect(indexText(axes, arranged, [0, 0, 0], { tile: 2, row: 3, col: 5, rows: 1, cols: 1 })).toBe("[11, 5]");
    expect(indexText(axes, arranged, [0, 0, 0], { tile: 2, row: 0, col: 8, rows: 4, cols: 4 })).toBe("[8:12, 8:12]");
  });

  it("names places of the other axes, and all colours", () => {
    const conv = ["out", "in", "row", "column"].map((name, source) => ({ name, size: 3, source, step: 1, labels: [] }));
    const place = { tile: 1, row: 2, col: 0, rows: 1, cols: 1 };
    expect(indexText(conv, { y: 2, x: 3, tile: 0, colour: -1 }, [0, 2, 0, 0], place)).toBe("[1, 2, 2, 0]");
    expect(indexText(conv, { y: 2, x: 3, tile: 0, colour: 1 }, [0, 0, 0, 0], place)).toBe("[1, :, 2, 0]");
  });

  it("does not call rows neighbours that only stand together", () => {
    const plain = axes.slice(1).map((axis, source) => ({ ...axis, source }));
    expect(indexText(plain, { y: 0, x: 1, tile: -1, colour: -1 }, [0, 0], { tile: 0, row: 3, col: 0, rows: 4, cols: 4, scattered: true })).toBe("[4 rows, 0:4]");
  });
});

describe("numbers", () => {
  it("rounds shares so that some are not none", () => {
    expect([shareText(0, 9), shareText(1, 100_000), shareText(99_999, 100_000), shareText(9, 9), shareText(1, 3)]).toEqual(["0 %", "<0.1 %", ">99.9 %", "100 %", "33 %"]);
  });

  it("reads what Python would", () => {
    expect(["1e-3", " 0.5 ", "1_000", "-2", "", "fast", "nan", "1e999"].map(knobNumber)).toEqual([0.001, 0.5, 1000, -2, null, null, null, null]);
    expect([0.001, 1e-8, 1e21, 0].map(knobText)).toEqual(["0.001", "1e-8", "1e21", "0"]);
  });
});
