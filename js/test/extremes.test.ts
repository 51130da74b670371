import { expect, it } from "vitest";
import { heatAt, wholeScale } from "../src/extremes/paint";
import { detailText, fieldText, poolText, reading } from "../src/extremes/words";
import type { ExtremesContent, PatchCell } from "../src/lib/protocol_extremes";

const CELL: PatchCell = {
  value: 2.3125, text: "", position: [4, 7], call: 1, phase: "train", epoch: 1, batch_idx: 13, sample: 5, forward: 1, dataset_index: 129,
  label: 4, label_name: "target", shape: [3, 32, 32], box: [[3, 12], [5, 14]], size: [9, 9], approximated: "", current: false,
  picture: null, signal: null, tokens: null, heat: null,
};

const content = (by: "pixel" | "average", ...cells: PatchCell[]): ExtremesContent => ({
  sources: [], chosen: "train:1", hint: "", offer: "", note: "", about: "", input: "image", kind: "picture", by, averages: true,
  axis: "channels", channels: 1, rows: 1, samples: 5, nan: 0, first: 0,
  patches: [{ channel: 3, scale: 1, unsigned: false, largest: cells, smallest: [] }],
});

it("a patch reads as it pastes into Python", () => {
  expect(reading(3, CELL, false)).toBe("ch 3 (4, 7) = 2.3125");
  expect(reading(3, { ...CELL, position: [] }, true)).toBe("ch 3 mean = 2.3125");
  expect(reading(3, { ...CELL, position: [6], value: null, text: "-inf" }, false)).toBe("ch 3 (6,) = -inf");
  expect(reading(3, { ...CELL, position: [] }, false)).toBe("ch 3 = 2.3125");
});

it("where it comes from is said as far as it is known", () => {
  expect(detailText(CELL)).toBe("epoch 2, train, batch 14, sample 5 \u00b7 dataset index 129 \u00b7 target 4 \u00b7 sees rows 3\u201311, columns 5\u201313");
  const unknown = { ...CELL, dataset_index: null, label: null, position: [], forward: 2, call: 3 };
  expect(detailText(unknown)).toBe("epoch 2, train, batch 14, sample 5 of forward 2 \u00b7 call 3");
});

it("the receptive field is named once, with the reason why it is not exact", () => {
  expect(fieldText(content("pixel", CELL))).toBe("receptive field 9 \u00d7 9");
  const circular = { ...CELL, approximated: "circular padding" };
  expect(fieldText(content("pixel", CELL, circular))).toBe("receptive field 9 \u00d7 9, approximated: circular padding");
  expect(fieldText(content("pixel", CELL, { ...CELL, size: [5, 5] }))).toBe("receptive fields of several sizes");
  expect(fieldText(content("average", { ...CELL, position: [] }))).toBe("");
});

it("inputs that are shown smaller say so", () => {
  const picture = { rows: 8, columns: 8, colour: false, pool: 4, frame: [[0, 32], [0, 32]] as [[number, number], [number, number]], offset: [0, 0] as [number, number], size: [8, 8] as [number, number], buffer: 0 };
  expect(poolText(content("average", { ...CELL, picture }))).toBe("shown at 1/4");
  expect(poolText(content("pixel", { ...CELL, picture }, { ...CELL, picture: { ...picture, pool: 1 } }))).toBe("shown at full size or 1/4");
  expect(poolText(content("pixel", CELL))).toBe("");
});

it("values are drawn at whole pixels", () => {
  expect(wholeScale(9, 7, 56)).toBe(6);
  expect(wholeScale(60, 7, 56)).toBe(1);
});

it("a response lies over the part of the sample that it belongs to", () => {
  const heat = { rows: 2, columns: 2, buffer: 0 };
  const codes = new Uint8Array([10, 20, 30, 40]);
  expect(heatAt(heat, codes, 0.2, 0.9)).toBe(20);
  expect(heatAt(heat, codes, 0.5, 0.1)).toBe(30);
  expect(heatAt(heat, codes, -0.1, 0.1)).toBe(null);
  expect(heatAt(heat, codes, 0.1, 1)).toBe(null);
});
