// Where a value stands in its tensor, as it pastes into Python, and the facts of a parameter in a line.

import { formatCount, formatNonFinite, formatScale, formatShape, formatValue } from "../lib/format";
import type { Arranged, WeightAxis, WeightPanel, WeightStrip } from "../lib/protocol_weights";

/** A place in a picture: along the axes of tile, rows and columns by index, and how many values it stands for. */
export interface Place {
  tile: number;
  row: number;
  col: number;
  rows: number;
  cols: number;
  /** Rows that stand together only in the order drawn. */
  scattered?: boolean;
}

/** `[3, 0, 2, 1]`, or ranges where a place stands for several values. */
export function indexText(axes: WeightAxis[], arranged: Arranged, index: number[], place: Place): string {
  const parts: { from: number; size: number; all: boolean; scattered: boolean }[] = [];
  axes.forEach((axis, i) => {
    const part = (parts[axis.source] ??= { from: 0, size: 1, all: false, scattered: false });
    let at = index[i] ?? 0;
    let size = 1;
    if (i === arranged.tile) at = place.tile;
    else if (i === arranged.y) [at, size, part.scattered] = [place.row, place.rows, place.scattered ?? false];
    else if (i === arranged.x) [at, size] = [place.col, place.cols];
    else if (i === arranged.colour) part.all = true;
    part.from += at * axis.step;
    if (size > 1) part.size = axis.step === 1 ? size : size * axis.step;
  });
  return `[${parts.map(({ from, size, all, scattered }) => (all ? ":" : size === 1 ? String(from) : scattered ? `${size} rows` : `${from}:${from + size}`)).join(", ")}]`;
}

/** What a strip is called in Python, as far as it has a name there. */
export function tensorName(panel: WeightPanel, strip: WeightStrip): string {
  if (strip.key === "value") return panel.name;
  return strip.key === "gradient" ? `${panel.name}.grad` : `${panel.name} ${strip.title.toLowerCase() === "last update" ? "update" : strip.title}`;
}

/** Labels of the tiles of a strip, by place along the tile axis. */
export function tileLabels(axes: WeightAxis[], arranged: Arranged): string[] {
  return axes[arranged.tile]?.labels ?? [];
}

/** Facts of the parameter: name and value, in order. */
export function factsOf(panel: WeightPanel): [name: string, value: string][] {
  const drawn = new Map(panel.strips.filter(({ missing }) => !missing).map((strip) => [strip.key, strip]));
  const value = drawn.get("value");
  if (!value) return [];
  const facts: [string, string][] = [["", `${formatShape(panel.shape)} ${panel.dtype}`]];
  if (value.layout === "number") return facts;
  facts.push(["norm", formatValue(value.norm)]);
  const gradient = drawn.get("gradient");
  if (gradient) facts.push(["gradient norm", formatValue(gradient.norm)]);
  const update = drawn.get("update");
  if (update && value.norm > 0) facts.push(["update / weight", formatValue(update.norm / value.norm)]);
  facts.push(["zeros", shareText(value.zeros, value.numel)]);
  return facts;
}

/** A share in per cent; a few of very many are not called none. */
export function shareText(part: number, whole: number): string {
  if (part === 0) return "0 %";
  const share = (100 * part) / whole;
  if (part === whole) return "100 %";
  return share < 0.1 ? "<0.1 %" : share > 99.9 ? ">99.9 %" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
}

/** What stands under a strip. */
export function footOf(strip: WeightStrip, panel: WeightPanel): string {
  const parts = [strip.note];
  if (strip.own.length) parts.push(`shape ${formatShape(strip.shape)}`);
  if (strip.key !== "value" && strip.dtype !== panel.dtype) parts.push(strip.dtype);
  if (strip.pool > 1) parts.push(strip.layout === "lines" ? `least and largest of ${formatCount(strip.pool)} values a pixel` : `mean of ${strip.pool}\u00d7${strip.pool} values a pixel`);
  if (strip.key !== "value" && strip.zeros) parts.push(`zeros ${shareText(strip.zeros, strip.numel)}`);
  return parts.filter(Boolean).join(" \u00b7 ");
}

export function badText(strip: WeightStrip): string {
  return formatNonFinite(strip.nonfinite);
}

export function scaleEnds(strip: WeightStrip): [low: string, high: string] {
  const high = formatScale(strip.scale);
  return [strip.unsigned || strip.scale === 0 ? "0" : `-${high}`, high];
}
