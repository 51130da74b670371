// What is said of a patch.

import { formatValue, positionText } from "../lib/format";
import type { ExtremesContent, PatchCell } from "../lib/protocol_extremes";

/** The response as it pastes into Python. */
export function valueText(cell: PatchCell): string {
  return cell.text || (cell.value === null ? "nan" : formatValue(cell.value));
}

/** `ch 3 (4, 7) = 2.31`; a mean over a sample has no place. */
export function reading(channel: number, cell: PatchCell, averaged: boolean): string {
  const place = cell.position.length === 1 ? ` (${cell.position[0]},)` : cell.position.length ? ` (${cell.position.join(", ")})` : "";
  return `ch ${channel}${averaged ? " mean" : place} = ${valueText(cell)}`;
}

/** Which batch, and which of its samples. */
export function originText(cell: PatchCell): string {
  const position = { phase: cell.phase, epoch: cell.epoch, batch_idx: cell.batch_idx, batches: null, epochs: null };
  return `${positionText(position)}, sample ${cell.sample}${cell.forward > 1 ? ` of forward ${cell.forward}` : ""}`;
}

/** Everything else that is known of it, in one line. */
export function detailText(cell: PatchCell): string {
  const parts = [originText(cell)];
  if (cell.dataset_index !== null) parts.push(`dataset index ${cell.dataset_index}`);
  if (cell.label !== null) parts.push(`${cell.label_name} ${cell.label}`);
  if (cell.call > 1) parts.push(`call ${cell.call}`);
  const field = boxText(cell);
  if (field) parts.push(field);
  return parts.join(" \u00b7 ");
}

/** Rows and columns of the input that the unit sees. */
function boxText({ box, position, tokens }: PatchCell): string {
  if (!position.length || !box.length) return "";
  const names = box.length === 1 ? [tokens ? "token" : "place"] : box.length === 2 ? ["row", "column"] : ["slice", "row", "column"];
  const spans = box.map(([from, to], i) => (to - from === 1 ? `${names[i]} ${from}` : `${names[i]}s ${from}\u2013${to - 1}`));
  return `sees ${spans.join(", ")}`;
}

function cellsOf(content: ExtremesContent): PatchCell[] {
  return content.patches.flatMap(({ largest, smallest }) => [...largest, ...smallest]);
}

/** How much smaller the inputs are shown than they are. */
export function poolText(content: ExtremesContent): string {
  const pools = [...new Set(cellsOf(content).map(({ picture, signal }) => picture?.pool ?? signal?.pool ?? 1))].sort((a, b) => a - b);
  if (pools.every((pool) => pool === 1)) return "";
  return `shown at ${pools.map((pool) => (pool === 1 ? "full size" : `1/${pool}`)).join(" or ")}`;
}

/** What is true of all patches of the page. */
export function fieldText(content: ExtremesContent): string {
  const cells = cellsOf(content);
  const pixels = cells.filter(({ position }) => position.length);
  const [first] = pixels;
  if (content.by === "average" || !first || content.kind === "tokens" || !first.size.length) return "";
  const sizes = new Set(pixels.map(({ size }) => size.join(" \u00d7 ")));
  const reasons = [...new Set(pixels.map(({ approximated }) => approximated).filter(Boolean))];
  const size = sizes.size === 1 ? `receptive field ${[...sizes][0]}` : "receptive fields of several sizes";
  return reasons.length ? `${size}, approximated: ${reasons.join("; ")}` : size;
}
