// The card beside a node under the pointer or with the focus.

import { h } from "../lib/dom";
import { formatCount, formatShape } from "../lib/format";
import type { GraphNode } from "../lib/protocol";
import { movedText } from "./moved";
import type { Tree } from "./tree";

export function infoRows(node: GraphNode, tree: Tree): [string, string][] {
  const rows: [string, string][] = [];
  const { traced } = tree.graph;
  if (node.detail) rows.push(["arguments", node.detail]);
  if (node.shapes.length) rows.push([node.shapes.length > 1 ? "outputs" : "output", node.shapes.map(formatShape).join(" ")]);
  if (node.params) rows.push(["parameters", formatCount(node.params)]);
  if (node.scope) rows.push(["inside", `${formatCount(tree.inside.get(node.name) ?? 0)} layers`]);
  if (traced && node.ran && node.calls !== 1) rows.push(["calls", node.calls ? `${node.calls} a forward` : "none in the last forward"]);
  if (traced && !node.ran) rows.push(["ran", "never"]);
  if (node.note) rows.push(["note", node.note]);
  return rows;
}

export class InfoCard {
  readonly element = h("div", { class: "panel info", role: "tooltip", hidden: true });

  /** Shows the card to the right of `anchor`, or where `frame` ends below or above it. */
  show(node: GraphNode, tree: Tree, share: number | undefined, click: string, anchor: HTMLElement, frame: HTMLElement): void {
    const moved: [string, string][] = share === undefined ? [] : [["changed", `${movedText(share)} of its units`]];
    const rows = [...infoRows(node, tree), ...moved].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
    this.element.replaceChildren(
      h("b", {}, node.name),
      h("span", { class: "mut" }, node.kind === "module" ? node.cls : `${node.kind} ${node.cls === node.kind ? "" : node.cls}`),
      h("dl", {}, ...rows),
      h("p", { class: "note" }, click),
    );
    this.element.hidden = false;
    const around = frame.getBoundingClientRect();
    const at = anchor.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const right = at.right - around.left + 8;
    const fits = right + width + 8 <= around.width;
    const below = at.bottom - around.top + 6;
    const above = at.top - around.top - height - 6;
    const left = fits ? right : Math.max(6, Math.min(around.width - width - 8, at.left - around.left + 12));
    const beside = Math.max(6, Math.min(around.height - height - 8, at.top - around.top - 4));
    this.element.style.left = `${left}px`;
    this.element.style.top = `${fits ? beside : below + height > around.height && above > 0 ? above : below}px`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}
