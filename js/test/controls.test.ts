import { describe, expect, it } from "vitest";
import { allowed, bannerText, nextPosition, pillOf, progressBars } from "../src/controls/labels";
import type { State } from "../src/lib/protocol";

const position = { phase: "train", epoch: 2, batch_idx: 136, batches: 203, epochs: 10 };
const state = { status: "paused", detail: "", position, shown: position } as State;

describe("what the controls allow", () => {
  it("follows the status", () => {
    const of = (status: State["status"], more: Partial<State> = {}) => allowed({ status, locked: "", no_loop: "", ...more }, "live");
    expect(of("paused")).toEqual({ step: true, run: true, stop: false, refresh: true, settings: true });
    expect(of("running")).toMatchObject({ step: false, run: false, stop: true, refresh: true });
    for (const status of ["waiting", "finished", "failed"] as const) expect(of(status)).toMatchObject({ step: false, run: false, stop: false, refresh: false });
    expect(of("closed").settings).toBe(false);
    expect(of("paused", { locked: "locked" })).toEqual({ step: false, run: false, stop: false, refresh: true, settings: false });
    expect(of("running", { locked: "locked" }).stop).toBe(false);
    expect(of("paused", { no_loop: "a frozen moment" })).toEqual({ step: false, run: false, stop: false, refresh: false, settings: true });
  });
  it("is nothing without a kernel", () => {
    for (const link of ["gone", "lost", "none"] as const) expect(Object.values(allowed({ status: "paused", locked: "", no_loop: "" }, link))).not.toContain(true);
  });
});

it("the pill says that the kernel is gone before anything else", () => {
  expect(pillOf("running", "gone")).toMatchObject({ text: "kernel gone", hollow: true });
  expect(pillOf("running", "none").text).toBe("saved picture");
  expect(pillOf("running", "unknown").text).toBe("running");
});

it("a banner explains what the user did not choose", () => {
  expect(bannerText(state, "live")).toBe("");
  expect(bannerText(state, "gone")).toMatch(/^Kernel gone. The view is frozen at epoch 3, train, batch 137;/);
  expect(bannerText(state, "none")).toMatch(/^Saved picture, no kernel/);
  expect(bannerText({ ...state, status: "closed", detail: "Replaced." }, "live")).toBe("Replaced.");
});

describe("progress", () => {
  const progress = { epoch_done: 5, epoch_total: null, epoch_left_s: null, run_done: 50, run_total: 100, run_left_s: 61, batch_s: 2 };
  it("has no share while the total is unknown", () => {
    const { epoch, run } = progressBars({ progress, position: { ...position, batches: null }, standing: "after" });
    expect(epoch).toEqual({ label: "epoch", share: null, count: "5 batches", left: "" });
    expect(run).toEqual({ label: "run", share: 0.5, count: "50/100", left: "1 min 1 s left" });
  });
  it("is the phase's while only that is known", () => {
    const bar = (standing: State["standing"]) => progressBars({ progress, position: { ...position, batch_idx: 3, batches: 8 }, standing }).epoch;
    expect(bar("after")).toEqual({ label: "train", share: 0.5, count: "4/8", left: "8 s left" });
    expect(bar("before")).toMatchObject({ count: "3/8", left: "10 s left" });
  });
  it("is the epoch's once that is known", () => {
    const { epoch } = progressBars({ progress: { ...progress, epoch_total: 10, epoch_left_s: 10 }, position, standing: "after" });
    expect(epoch).toEqual({ label: "epoch", share: 0.5, count: "5/10", left: "10 s left" });
  });
});

it("run until starts at the next batch", () => {
  expect(nextPosition(position)).toEqual({ epoch: 3, batch: 138 });
  expect(nextPosition({ ...position, batch_idx: 202 })).toEqual({ epoch: 4, batch: 1 });
  expect(nextPosition(null)).toEqual({ epoch: 1, batch: 1 });
});
