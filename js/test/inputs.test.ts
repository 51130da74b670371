import { describe, expect, it, vi } from "vitest";
import { scaleFor } from "../src/inputs/bytes";
import { planFeatures } from "../src/inputs/features";
import { levelsOf, rgbOf, hexOf, roughly, valuesOf } from "../src/inputs/levels";
import { outlinePath } from "../src/inputs/outline";
import { lossesText, lossPath } from "../src/inputs/pinned";
import { Sender, type Paint } from "../src/inputs/sender";
import { brushCells, lineCells, placesOf, Stroke } from "../src/inputs/stroke";
import { boxText, changesText, lossText, maskOf, pageText, shareText, thumbText } from "../src/inputs/words";
import { unitPlace } from "../src/strips/unit";
import type { Strip } from "../src/lib/protocol";
import type { InputChoice } from "../src/lib/protocol_inputs";

describe("a stroke", () => {
  it("covers every pixel between two places", () => {
    expect(lineCells([0, 0], [0, 3])).toEqual([[0, 0], [0, 1], [0, 2], [0, 3]]);
    expect(lineCells([2, 2], [2, 2])).toEqual([[2, 2]]);
    for (const to of [[7, 3], [-4, 9], [3, -8], [-5, -5]] as const) {
      const cells = lineCells([0, 0], to);
      expect(cells[cells.length - 1]).toEqual(to);
      cells.slice(1).forEach(([row, column], i) => {
        const [before, left] = cells[i] ?? [0, 0];
        expect(Math.max(Math.abs(row - before), Math.abs(column - left))).toBe(1);
      });
    }
  });
  it("is as wide as its brush and stays inside the picture", () => {
    expect(brushCells([4, 4], 1, 9, 9)).toEqual([[4, 4]]);
    expect(brushCells([4, 4], 2, 9, 9)).toEqual([[4, 4], [4, 5], [5, 4], [5, 5]]);
    expect(brushCells([4, 4], 3, 9, 9)).toHaveLength(9);
    expect(brushCells([0, 0], 5, 9, 9)).toHaveLength(9);
  });
  it("gives a pixel once", () => {
    const stroke = new Stroke(3, 9, 9);
    expect(stroke.to([4, 4])).toHaveLength(9);
    expect(stroke.to([4, 4])).toEqual([]);
    expect(stroke.to([4, 6])).toEqual([[3, 6], [4, 6], [5, 6], [3, 7], [4, 7], [5, 7]]);
  });
  it("is of places in the input", () => {
    expect(placesOf([[1, 2], [3, 4]], 1, [9, 9], null)).toEqual([[1, 3], [2, 4]]);
    expect(placesOf([[1, 2]], 1, [9, 9], 5)).toEqual([[5], [1], [2]]);
    expect(placesOf([[2, 0]], 2, [5, 5], null)).toEqual([[4, 4], [0, 1]]); // the last row is half a pixel
  });
});

describe("levels", () => {
  it("become values of the input", () => {
    expect(valuesOf([0], [-0.42], [2.8])).toEqual([-0.42]);
    expect(valuesOf([255], [0], [255])).toEqual([255]);
    expect(valuesOf([255, 128, 0], [0, 0, -1], [1, 255, 1])).toEqual([1, 128, -1]);
  });
  it("are one for each channel", () => {
    expect(levelsOf([255, 0, 0], 3)).toEqual([255, 0, 0]);
    expect(levelsOf([7, 7, 7], 1)).toEqual([7]);
    expect(levelsOf([255, 0, 0], 1)).toEqual([76]);
    expect(rgbOf(hexOf([1, 128, 255]))).toEqual([1, 128, 255]);
  });
  it("are read with as many digits as they are worth", () => {
    expect([0, 0.4271, -1.2345, 123.4, 0.00001].map(roughly)).toEqual(["0", "0.43", "-1.23", "123", "1.0e-5"]);
  });
});

describe("the sender", () => {
  const setUp = (answer: () => Promise<boolean>) => {
    const frames: (() => void)[] = [];
    const sent: [Paint, boolean][] = [];
    const failed = vi.fn();
    const sender = new Sender({
      send: (paint, join) => {
        sent.push([paint, join]);
        return answer();
      },
      nextFrame: (run) => frames.push(run),
      failed,
    });
    return { frames, sent, failed, sender };
  };
  const piece = (stroke: number, column: number): Paint => ({ stroke, cells: [[0, column]], levels: [1] });

  it("sends a piece a frame, and only when the one before was answered", async () => {
    const answers: ((done: boolean) => void)[] = [];
    const { frames, sent, sender } = setUp(() => new Promise((done) => answers.push(done)));
    sender.add(piece(1, 0));
    sender.add(piece(1, 1));
    expect(sent.map(([{ cells }, join]) => [cells.length, join])).toEqual([[1, false]]);
    sender.add(piece(1, 2));
    sender.add(piece(2, 3));
    expect(frames).toEqual([]);
    for (let i = 0; i < 2; i++) {
      answers.shift()?.(true);
      await new Promise((done) => setTimeout(done));
      expect(sent).toHaveLength(i + 1);
      frames.shift()?.();
    }
    expect(sent.map(([{ stroke, cells }, join]) => [stroke, cells.length, join])).toEqual([[1, 1, false], [1, 2, true], [2, 1, false]]);
  });
  it("forgets what waits when a piece was refused", async () => {
    const { frames, sent, failed, sender } = setUp(() => Promise.resolve(false));
    sender.add(piece(1, 0));
    sender.add(piece(1, 1));
    await new Promise((done) => setTimeout(done));
    frames.shift()?.();
    expect(failed).toHaveBeenCalledOnce();
    expect(sent).toHaveLength(1);
    expect(sender.idle).toBe(true);
  });
});

describe("words", () => {
  it("of samples", () => {
    expect(thumbText({ sample: 3, label: "cat", loss: 1.171, right: false, rows: 0, columns: 0, colour: false, buffer: -1, text: "" })).toBe("sample 3, label cat, loss 1.17, predicted wrongly");
    expect([pageText(0, 24, 256), pageText(24, 24, 256), pageText(0, 4, 4)]).toEqual(["first 24 of 256", "25\u201348 of 256", ""]);
    expect([0, 1, 3].map(changesText)).toEqual(["unmodified", "1 change", "3 changes"]);
  });
  it("of losses and shares never say more than is known", () => {
    expect([0, 0.00001, 0.271, 12.34, 345.6, NaN].map(lossText)).toEqual(["0.00", "1e-5", "0.27", "12.3", "346", "nan"]);
    expect([0, 0.0001, 0.5831, 0.99999, 1].map(shareText)).toEqual([".000", "<.001", ".583", ">.999", "1"]);
  });
  it("which input masks tokens", () => {
    const one = (name: string, shape: number[]): InputChoice => ({ name, shape, dtype: "int64", kind: "tokens" });
    const inputs = [one("ids", [8, 16]), one("attention_mask", [8, 16]), one("mask", [8, 4])];
    expect([maskOf({ inputs, input: "ids" }), maskOf({ inputs, input: "attention_mask" })]).toEqual(["attention_mask", ""]);
  });
  it("of a receptive field", () => {
    expect(boxText([[2, 5], [0, 1]])).toBe("3\u00d71: rows 2\u20134, columns 0");
    expect(boxText([[2, 5]])).toBe("3: places 2\u20134");
  });
});

describe("drawing", () => {
  it("enlarges by whole factors", () => {
    expect([scaleFor(28, 28, 196), scaleFor(28, 28, 280), scaleFor(224, 224, 196), scaleFor(10, 20, 196)]).toEqual([7, 10, 1, 9]);
  });
  it("outlines what was painted", () => {
    expect(outlinePath([[0, 0], [0, 1]])).toBe("M0 0h1M0 1h1M0 0v1M1 0h1M1 1h1M2 0v1");
  });
  it("wraps features where they would be hairs", () => {
    expect(planFeatures(13, 196)).toEqual({ columns: 13, pitch: 15, rows: 1 });
    expect(planFeatures(100, 196)).toMatchObject({ pitch: 7, columns: 28, rows: 4 });
    expect(planFeatures(1, 196)).toEqual({ columns: 1, pitch: 28, rows: 1 });
  });
  it("leaves a gap where a loss is no number", () => {
    expect(lossPath([{ at: 0, loss: 1 }, { at: 1, loss: NaN }, { at: 2, loss: 0 }])).toBe("M0.0 3.0M100.0 23.0");
    expect(lossesText([{ at: 0, loss: 2 }, { at: 1, loss: 1 }])).toBe("loss of this sample at 2 updates, from 2.00 to 1.00");
  });
});

describe("a unit of a strip", () => {
  const strip = (layout: string, axes = "B C H W"): Strip => ({ layout, axes }) as unknown as Strip;
  it("lies where its layout says", () => {
    const spot = { channel: 3, row: 4, col: 5 };
    expect(unitPlace(strip("tiles"), 3, spot, 0)).toEqual({ channel: 3, index: [4, 5] });
    expect(unitPlace(strip("tiles"), 3, null, 0)).toEqual({ channel: 3, index: null });
    expect(unitPlace(strip("slices", "B C D H W"), 3, spot, 2)).toEqual({ channel: 3, index: [2, 4, 5] });
    expect(unitPlace(strip("lines"), 3, spot, 0)).toEqual({ channel: 3, index: [5] });
    expect(unitPlace(strip("bar"), 3, null, 0)).toEqual({ channel: 3, index: [] });
    expect(unitPlace(strip("tokens", "B T C"), 0, spot, 0)).toEqual({ channel: 5, index: [4] });
    expect(unitPlace(strip("ids"), 0, spot, 0)).toBeNull();
  });
});
