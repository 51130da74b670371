import { describe, expect, it } from "vitest";
import { pieceSize } from "../src/strips/exact";
import { pagingOf, wantedChannels } from "../src/strips/paging";
import { pixelsFor, planBar, planTiles, rangeText, tileSize, visibleChannels } from "../src/strips/plan";
import { visible } from "../src/strips/tokens";
import { blockMean, readingText, spotText } from "../src/strips/readout";

describe("tiles", () => {
  it("are whole device pixels a value, near 56 px", () => {
    expect(tileSize("tiles", [28, 28], 500, 1)).toEqual({ scale: 2, width: 56, height: 56 });
    expect(tileSize("tiles", [28, 28], 500, 2)).toEqual({ scale: 4, width: 56, height: 56 });
    for (let n = 1; n <= 56; n++) {
      const { scale, width } = tileSize("tiles", [n, n], 500, 1);
      expect(Number.isInteger(scale)).toBe(true);
      expect(width).toBeGreaterThan(36);
      expect(width).toBeLessThan(76);
    }
  });
  it("fill rows evenly", () => {
    expect(planTiles("tiles", [28, 28], 16, 985, 1)).toMatchObject({ columns: 8, rows: 2, viewRows: 2 });
    expect(planTiles("tiles", [28, 28], 64, 490, 1)).toMatchObject({ columns: 7, viewRows: 2 });
    expect(planTiles("tiles", [28, 28], 16, 262, 1)).toMatchObject({ columns: 4, viewRows: 4 });
    const { columns, cell, gap } = planTiles("tiles", [7, 7], 4096, 700, 1);
    expect(columns * cell + (columns - 1) * gap).toBeLessThanOrEqual(700);
  });
  it("are wanted only where they are on screen", () => {
    const plan = planTiles("tiles", [28, 28], 4096, 700, 1);
    expect(visibleChannels(plan, 0, 0)).toEqual({ first: 0, count: 2 * plan.columns });
    expect(visibleChannels(plan, 10 * plan.pitch, 1)).toEqual({ first: 9 * plan.columns, count: 4 * plan.columns });
    const last = visibleChannels(plan, (plan.rows - 2) * plan.pitch, 1);
    expect(last.first + last.count).toBe(4096);
  });
  it("ask for as many pixels as are drawn", () => {
    expect(pixelsFor("tiles", 700, 2)).toBe(112);
    expect(pixelsFor("tokens", 700, 1)).toBe(700);
    expect(pixelsFor(undefined, 700, 1)).toBe(56);
  });
});

it("features are bars up to 128 and cells beyond", () => {
  expect(planBar(10, 400)).toMatchObject({ chart: true, pitch: 24 });
  expect(planBar(128, 400)).toMatchObject({ chart: true, pitch: 3 });
  expect(planBar(2048, 400)).toMatchObject({ chart: false, columns: 40, rows: 52 });
});

it("ranges count from zero", () => {
  expect(rangeText(0, 16, 4096)).toBe("channels 0\u201315 of 4096");
  expect(rangeText(4090, 16, 4096)).toBe("channels 4090\u20134095 of 4096");
  expect(rangeText(0, 16, 16)).toBe("16 channels");
  expect(rangeText(0, 1, 1)).toBe("1 channel");
});

describe("read-outs", () => {
  const spot = { channel: 3, row: 12, col: 7 };
  it("paste into Python", () => {
    const where = spotText("tiles", spot, [1, 1], [28, 28], false);
    expect(readingText(where, { value: -0.4271, exact: true }, false)).toBe("ch 3 (12, 7) = -0.4271");
    expect(readingText(where, { value: 0.5, exact: false }, false)).toBe("ch 3 (12, 7) \u2248 0.5000");
    expect(readingText(where, { value: null, exact: false }, false)).toBe("ch 3 (12, 7)");
    expect(spotText("bar", spot, [1, 1], [1, 1], false)).toBe("ch 3");
    expect(spotText("tokens", spot, [1, 1], [28, 28], false)).toBe("(12, 7)");
    expect(spotText("tokens", { ...spot, col: 0 }, [1, 1], [28, 1], true)).toBe("mean (12)");
    expect(spotText("lines", spot, [1, 1], [1, 28], true)).toBe("mean (7)");
  });
  it("name the values that a pooled pixel means", () => {
    expect(readingText(spotText("tiles", spot, [4, 4], [28, 10], false), { value: 1, exact: true }, true)).toBe("ch 3 (12:16, 4:8) mean = 1");
    expect(blockMean((row, col) => row * 10 + col, { channel: 0, row: 2, col: 2 }, [2, 2], [4, 3])).toBe((22 + 32) / 2);
    expect(blockMean(() => undefined, spot, [2, 2], [28, 28])).toBeNull();
  });
});

it("large tiles are fetched in pieces", () => {
  expect(pieceSize([28, 28])).toEqual([28, 28]);
  expect(pieceSize([1024, 1024])).toEqual([256, 1024]);
  expect(pieceSize([1, 1_000_000])).toEqual([1, 262_144]);
});

describe("paging", () => {
  const showing = { average: false, width: 700, ratio: 1, scrollTop: 0 };
  const tiles = { layout: "tiles", tile: [28, 28] as [number, number], channels: 4096 } as const;
  it("moves by what is on screen, and ends at the last row", () => {
    const { page, pitch, last, count } = pagingOf({ ...showing, strip: tiles });
    expect(page).toBe(2 * pitch);
    expect(last % pitch).toBe(0);
    expect(pagingOf({ ...showing, strip: tiles, scrollTop: page }).first).toBe(count);
    expect(wantedChannels({ ...showing, strip: tiles, scrollTop: page }).count).toBe(2 * count);
  });
  it("is one page where all fits or one tile is shown", () => {
    expect(pagingOf({ ...showing, strip: { ...tiles, channels: 8 } }).last).toBe(0);
    expect(pagingOf({ ...showing, strip: tiles, average: true })).toMatchObject({ channels: 1, last: 0 });
    expect(wantedChannels({ ...showing, strip: tiles, average: true })).toEqual({ first: 0, count: 1 });
    expect(wantedChannels({ ...showing, strip: { ...tiles, layout: "bar", channels: 100 } })).toEqual({ first: 0, count: 100 });
    expect(wantedChannels({ ...showing, strip: { ...tiles, layout: "bar", channels: 5000 } }).count).toBe(15 * 70);
    expect(wantedChannels({ ...showing, strip: undefined }).first).toBe(0);
  });
});

describe("token ids", () => {
  it("are one thing to ask for, with no pages", () => {
    const strip = { layout: "ids", tile: [0, 0], channels: 0 } as const;
    const showing = { strip: { ...strip, tile: [0, 0] as [number, number] }, average: false, width: 400, ratio: 1, scrollTop: 0 };
    expect(wantedChannels(showing)).toEqual({ first: 0, count: 1 });
    expect(pagingOf(showing).page).toBe(0);
  });
  it("show the blanks in their text", () => {
    expect(visible(" the\n")).toBe("\u00b7the\u21b5");
    expect(visible("")).toBe("\u2205");
  });
});
