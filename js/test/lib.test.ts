import { describe, expect, it } from "vitest";
import { lutFor, mapColor, packed, parseHex, ZERO } from "../src/lib/colormap";
import * as format from "../src/lib/format";
import { Commands, commandOf, keyList } from "../src/lib/keys";
import { bytesOf, decode, encode, encodeAll, floatsOf, splitBuffers } from "../src/lib/pixels";
import { luminanceOf } from "../src/lib/theme";

describe("colour maps", () => {
  it("have their stops exactly, and the neutral at zero", () => {
    expect(mapColor("light", false, 0)).toEqual(parseHex("#f3f3f5"));
    expect(mapColor("dark", false, 0)).toEqual(parseHex("#2d2e2f"));
    expect(mapColor("light", false, -1)).toEqual(parseHex("#093da1"));
    expect(mapColor("light", false, 0.25)).toEqual(parseHex("#f0b6a1"));
    expect(mapColor("light", true, 1)).toEqual(parseHex("#172849"));
    expect(lutFor("light", false)[ZERO]).toBe(packed(parseHex("#f3f3f5")));
  });
  it("step evenly in lightness on both arms", () => {
    const light = (share: number): number => {
      const [r, g, b] = mapColor("light", false, share).map((v) => ((v / 255 + 0.055) / 1.055) ** 2.4) as [number, number, number];
      return Math.cbrt(0.2126 * r + 0.7152 * g + 0.0722 * b);
    };
    for (const share of [0.2, 0.5, 0.8, 1]) expect(Math.abs(light(share) - light(-share))).toBeLessThan(0.05);
    for (let share = 0.05; share <= 1; share += 0.05) expect(light(share)).toBeLessThan(light(share - 0.05));
  });
  it("clamps", () => expect(mapColor("dark", false, 3)).toEqual(parseHex("#ffa47a")));
});

describe("pixels", () => {
  it("decode as protocol.py says", () => {
    expect(decode(0, 1)).toBeNaN();
    expect(decode(1, 1)).toBe(-Infinity);
    expect(decode(2, 1)).toBe(Infinity);
    expect(decode(129, 5)).toBe(0);
    expect(decode(255, 2)).toBe(2);
    expect(decode(3, 2)).toBe(-2);
  });
  it("encode back", () => {
    for (let code = 0; code < 256; code++) expect(encode(decode(code, 0.37), 0.37)).toBe(code);
    expect([...encodeAll([NaN, 0, 1, -9], 1)]).toEqual([0, 129, 255, 3]);
    expect(encode(0, 0)).toBe(129);
  });
  it("cut joined buffers and copy unaligned floats", () => {
    const joined = new DataView(Uint8Array.from([1, 2, 3, 4, 5]).buffer);
    expect(splitBuffers(joined, [2, 0, 3]).map((part) => [...part])).toEqual([[1, 2], [], [3, 4, 5]]);
    const raw = new Uint8Array(9);
    new DataView(raw.buffer).setFloat32(1, 1.5, true);
    expect([...floatsOf(new DataView(raw.buffer, 1, 8), "float32")]).toEqual([1.5, 0]);
    expect(bytesOf(undefined).length).toBe(0);
  });
});

describe("numbers", () => {
  it("paste into Python", () => {
    expect([-0.4271, -0.0016915, 0, 1.5e-5, -2, 123456.7, NaN, -Infinity, 12.3456].map(format.formatValue)).toEqual(["-0.4271", "-0.001692", "0", "1.500e-5", "-2", "1.235e5", "nan", "-inf", "12.346"]);
    for (const value of [-0.4271, 3e-9, 2e7]) expect(Number(format.formatValue(value))).toBeCloseTo(value, 4);
  });
  it("are short beside a scale", () => expect([2.09, 1.6e-4, 0, 133.2, 0.494].map(format.formatScale)).toEqual(["2.09", "1.6e-4", "0", "133", "0.494"]));
  it("have units", () => {
    expect([999, 11.8e6, 1500, 2.5e9].map(format.formatBytes)).toEqual(["999 B", "11.8 MB", "1.5 kB", "2.5 GB"]);
    expect([0.41, 0.004, 12.34].map(format.formatSeconds)).toEqual(["0.41 s", "4 ms", "12.3 s"]);
    expect([0.2, 59.4, 341, 7300, 90000].map(format.formatLeft)).toEqual(["<1 s", "59 s", "5 min 41 s", "2 h 1 min", "1 d 1 h"]);
    expect([[32, 64], [10], []].map(format.formatShape)).toEqual(["(32, 64)", "(10,)", "()"]);
    expect(format.formatNonFinite({ nan: 12, posinf: 0, neginf: 3 })).toBe("12 NaN, 3 -Inf");
  });
});

describe("positions", () => {
  const position = { phase: "train", epoch: 2, batch_idx: 136, batches: 203, epochs: 10 };
  it("count from one for people and from zero for Python", () => {
    expect(format.positionLabel(position)).toEqual({ epoch: ["3", "/10"], phase: "train", standing: "", batch: ["137", "/203"], exact: 'epoch=2, phase="train", batch_idx=136' });
    expect(format.positionLabel({ ...position, batches: null, epochs: null }, "before")).toMatchObject({ epoch: ["3", ""], standing: "before ", batch: ["137", ""] });
  });
  it("name the shown batch only where it differs", () => {
    expect(format.shownText(position, "in", position)).toBe("");
    expect(format.shownText(position, "after", position)).toBe("");
    expect(format.shownText(position, "in", { ...position, batch_idx: 99 })).toBe("batch 100");
    expect(format.shownText({ ...position, phase: "val", batch_idx: 0 }, "before", { ...position, batch_idx: 202 })).toBe("train, batch 203");
    expect(format.shownText({ ...position, epoch: 3 }, "before", position)).toBe("epoch 3, train, batch 137");
    expect(format.shownText(position, "in", null)).toBe("");
  });
});

describe("keys", () => {
  const press = (key: string, more = {}): Parameters<typeof commandOf>[0] => ({ key, ctrlKey: false, metaKey: false, altKey: false, ...more });
  it("act outside fields and without modifiers", () => {
    expect(commandOf(press("n"), false)).toBe("step_batch");
    expect(commandOf(press("n"), true)).toBeNull();
    expect(commandOf(press("Escape"), true)).toBe("leave");
    expect(commandOf(press("c", { ctrlKey: true }), false)).toBeNull();
    expect(commandOf(press("x"), false)).toBeNull();
  });
  it("are listed for what a widget has", () => {
    const commands = new Commands();
    commands.set("run", () => undefined);
    commands.set("copy", () => false);
    expect(keyList((command) => commands.has(command)).map(([key]) => key)).toEqual(["r", "c"]);
    expect(commands.run("run")).toBe(true);
    expect(commands.run("copy")).toBe(false);
    expect(commands.run("stop")).toBe(false);
  });
});

it("reads the lightness of a colour", () => {
  expect(luminanceOf("rgb(255, 255, 255)")).toBeCloseTo(1);
  expect(luminanceOf("rgba(0, 0, 0, 0)")).toBeNull();
});
