// What the pane says in words, apart from drawing it.

import { formatCount, formatValue } from "../lib/format";
import type { FieldShown, InputsContent, ModelAnswer, Thumb } from "../lib/protocol_inputs";

export function sampleText({ samples, sample }: InputsContent): string {
  return samples ? `sample ${sample} of ${samples}` : "";
}

/** A loss where space is short. */
export function lossText(loss: number | null): string {
  if (loss === null) return "";
  if (!Number.isFinite(loss)) return formatValue(loss);
  const size = Math.abs(loss);
  return size >= 1e4 || (size > 0 && size < 0.005) ? loss.toExponential(0).replace("e+", "e") : loss.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

export function shareText(share: number): string {
  if (!Number.isFinite(share)) return "nan";
  if (share >= 0.9995) return share >= 1 ? "1" : ">.999";
  return share > 0 && share < 0.0005 ? "<.001" : share.toFixed(3).replace(/^0/, "");
}

export function thumbText({ sample, label, loss, right, text }: Thumb): string {
  const parts = [`sample ${sample}`, label && `label ${label}`, loss !== null && `loss ${lossText(loss)}`, right === false && "predicted wrongly", right === true && "predicted rightly", text];
  return parts.filter(Boolean).join(", ");
}

/** `first 24 of 256`, or `25–48 of 256`; empty where all are there. */
export function pageText(first: number, count: number, samples: number): string {
  if (first === 0 && count >= samples) return "";
  return first === 0 ? `first ${count} of ${formatCount(samples)}` : `${formatCount(first + 1)}\u2013${formatCount(first + count)} of ${formatCount(samples)}`;
}

export function changesText(changes: number): string {
  return changes === 0 ? "unmodified" : changes === 1 ? "1 change" : `${formatCount(changes)} changes`;
}

export function lossLine({ loss, loss_before }: ModelAnswer): string {
  if (loss === null) return "";
  const text = (value: number): string => (Math.abs(value) < 10 && Math.abs(value) >= 0.005 ? value.toFixed(3) : lossText(value));
  const before = loss_before !== null && loss_before !== loss ? `${text(loss_before)} \u2192 ` : "";
  return `loss ${before}${text(loss)}`;
}

/** Which loss it is, and how that is known. */
export function lossNote({ loss_name, loss_note }: ModelAnswer): string {
  return [loss_name, loss_note].filter(Boolean).join(": ");
}

export function classesText({ classes, total }: ModelAnswer): string {
  return classes.length < total ? `${classes.length} of ${formatCount(total)} classes: the likeliest` : "";
}

/** A box of the input: `3×5 values, rows 2–4, columns 0–4`. */
export function boxText(box: FieldShown["theoretical"]): string {
  if (!box) return "";
  const names = box.length === 1 ? ["places"] : box.length === 2 ? ["rows", "columns"] : ["slices", "rows", "columns"];
  const spans = box.map(([from, to], i) => `${names[i] ?? `axis ${i}`} ${to - from > 1 ? `${from}\u2013${to - 1}` : from}`);
  return `${box.map(([from, to]) => to - from).join("\u00d7")}: ${spans.join(", ")}`;
}

/** The input that says which tokens count: of the same shape, with "mask" in its name; empty: there is none. */
export function maskOf({ inputs, input }: Pick<InputsContent, "inputs" | "input">): string {
  const shape = inputs.find(({ name }) => name === input)?.shape.join();
  return inputs.find((one) => one.name !== input && one.name.toLowerCase().includes("mask") && one.shape.join() === shape)?.name ?? "";
}
