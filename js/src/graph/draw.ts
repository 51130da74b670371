// Draws a placed graph: an SVG picture with real buttons over it.

import { h, svg } from "../lib/dom";
import type { GraphNode } from "../lib/protocol";
import { movedLabel, movedText, type Moved } from "./moved";
import { isRound, nodeMeta, roundSign, type Placed, type PlacedEdge, type PlacedNode } from "./layout";
import type { Point } from "./layered";
import type { Tree } from "./tree";

export interface Marks {
  watched: ReadonlySet<string>;
  /** Names that the filter found; null when there is no filter. */
  found: ReadonlySet<string> | null;
  /** For each collapsed scope, how many of the found and of the watched are inside. */
  foundInside: ReadonlyMap<string, number>;
  watchedInside: ReadonlyMap<string, number>;
  /** How far perturbations got; null: there are none. */
  moved: Moved | null;
}

export const MARGIN = 8;

export function drawGraph(placed: Placed, tree: Tree, marks: Marks): { picture: SVGElement; buttons: HTMLElement[] } {
  const { width, height } = pictureSize(placed);
  const inner = svg("g", { transform: `translate(${MARGIN} ${MARGIN})` });
  const scopes = placed.nodes.filter(({ open }) => open);
  const leaves = placed.nodes.filter(({ open }) => !open);
  for (const scope of scopes) inner.append(drawScope(scope, tree, marks));
  for (const edge of placed.edges) inner.append(...drawEdge(edge));
  for (const leaf of leaves) inner.append(drawLeaf(leaf, tree, marks));
  const picture = svg("svg", { class: "gs", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, inner);
  return { picture, buttons: placed.nodes.flatMap((node) => buttonsFor(node, tree, marks)) };
}

export function pictureSize({ width, height }: Placed): { width: number; height: number } {
  return { width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}

function stateClasses({ name }: GraphNode, marks: Marks): string {
  return (marks.watched.has(name) ? " w" : "") + (marks.found?.has(name) ? " f" : "");
}

/** Under a node's name: how much of the bar is filled says which share of its values changed. */
function movedBar(share: number | undefined, x: number, y: number, width: number): SVGElement[] {
  if (share === undefined) return [];
  const filled = share > 0 ? Math.max(1, share * width) : 0;
  return [svg("rect", { class: "mvt", x, y, width, height: 3 }), svg("rect", { class: "mv", x, y, width: filled, height: 3 })];
}

function drawScope({ node, x, y, width, height, depth }: PlacedNode, tree: Tree, marks: Marks): SVGElement {
  const share = marks.moved?.of(node.name);
  const meta = share === undefined ? nodeMeta(node, tree, true) : movedText(share);
  const room = width - 28;
  const label = clip(node.label, Math.min(room, room - textWidth(meta, 5.6) - 8), 6.9) || clip(node.label, room, 6.9);
  const group = svg(
    "g",
    { transform: `translate(${x} ${y})`, class: neverRan(node, tree) ? "dm" : "" },
    svg("rect", { class: `${depth % 2 ? "scope2" : "scope"}${stateClasses(node, marks)}`, width, height, rx: 6 }),
    svg("path", { class: "chev", d: "m8 8 3 3 3-3" }),
    svg("text", { class: "h", x: 19, y: 14 }, label),
  );
  group.append(...movedBar(share, 8, 18, width - 16));
  const used = 19 + textWidth(label, 6.9) + 8;
  if (meta && used + textWidth(meta, 5.6) <= width - 8) group.append(svg("text", { class: "m", x: width - 8, y: 14, "text-anchor": "end" }, meta));
  return group;
}

function drawLeaf({ node, x, y, width, height }: PlacedNode, tree: Tree, marks: Marks): SVGElement {
  const dim = neverRan(node, tree);
  const classes = stateClasses(node, marks) + (dim ? " dim" : "");
  const share = marks.moved?.of(node.name);
  const group = svg("g", { transform: `translate(${x} ${y})`, class: dim ? "dm" : "" });
  if (isRound(node)) {
    const middle = width / 2;
    group.append(
      svg("circle", { class: `n${classes}`, cx: middle, cy: middle, r: middle }),
      svg("text", { class: "sign", x: middle, y: middle + 4, "text-anchor": "middle" }, roundSign(node)),
      ...movedBar(share, 0, height - 1, width),
    );
    return group;
  }
  const body = node.scope ? height - 3 : height;
  group.append(svg("rect", { class: `${node.scope ? "col" : "n"}${classes}`, width, height: body, rx: node.kind === "op" ? body / 2 : 4 }));
  if (node.scope) group.append(svg("path", { class: "e", d: `M4 ${body + 2.5}h${width - 8}` }), svg("path", { class: "chev", d: "m10 8 3 3-3 3" }));
  const left = node.scope ? 20 : 8;
  const inside = node.scope ? scopeMeta(node, marks) : "";
  const meta = share === undefined ? inside || nodeMeta(node, tree, false) : movedText(share);
  // The name matters more than the class: the class gives way first.
  const room = width - left - 8;
  const label = clip(node.label, room, 6.65);
  const rest = clip(meta, room - textWidth(label, 6.65) - 6, 5.7);
  const line = share === undefined ? 15 : 14;
  group.append(svg("text", { x: left, y: line }, label));
  if (rest.length > 2) group.append(svg("text", { class: inside && share === undefined ? "m hot" : "m", x: width - 8, y: line, "text-anchor": "end" }, rest));
  group.append(...movedBar(share, 8, body - 5, width - 16));
  return group;
}

/** A collapsed scope says what it hides of the filter and of the watched. */
function scopeMeta(node: GraphNode, marks: Marks): string {
  const found = marks.foundInside.get(node.name) ?? 0;
  if (found) return `${found} found`;
  const watched = marks.watchedInside.get(node.name) ?? 0;
  return watched ? `${watched} watched` : "";
}

function neverRan(node: GraphNode, tree: Tree): boolean {
  return tree.graph.traced && !node.ran;
}

function drawEdge({ points, arrow, skip }: PlacedEdge): SVGElement[] {
  const end = points[points.length - 1];
  if (!end) return [];
  // An edge back to a module that is called again arrives from below.
  const down = (points[points.length - 2]?.y ?? 0) <= end.y ? 1 : -1;
  const tip = arrow ? [...points.slice(0, -1), { x: end.x, y: end.y - 4 * down }] : points;
  const line = svg("path", { class: skip ? "e res" : "e", d: edgePath(tip) });
  if (!arrow) return [line];
  return [line, svg("path", { class: skip ? "ah res" : "ah", d: `M${end.x - 3} ${end.y - 5 * down}h6l-3 ${5 * down}z` })];
}

/** Down, across half way between two points, and down again, with rounded corners. */
export function edgePath(points: Point[]): string {
  let path = "";
  let last: Point | undefined;
  for (const point of points) {
    if (!last) path = `M${round(point.x)} ${round(point.y)}`;
    else if (Math.abs(last.x - point.x) < 0.5) path += `V${round(point.y)}`;
    else {
      const middle = (last.y + point.y) / 2;
      const across = Math.sign(point.x - last.x);
      const down = Math.sign(point.y - last.y) || 1;
      const corner = Math.min(6, Math.abs(point.y - last.y) / 2, Math.abs(point.x - last.x) / 2);
      path += `V${round(middle - down * corner)}Q${round(last.x)} ${round(middle)} ${round(last.x + across * corner)} ${round(middle)}`;
      path += `H${round(point.x - across * corner)}Q${round(point.x)} ${round(middle)} ${round(point.x)} ${round(middle + down * corner)}V${round(point.y)}`;
    }
    last = point;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

export function textWidth(text: string, perCharacter: number): number {
  return text.length * perCharacter;
}

/** Cuts the middle out of a text that is too long: both ends of a layer's name tell something. */
export function clip(text: string, room: number, perCharacter: number): string {
  const most = Math.floor(room / perCharacter);
  if (text.length <= most) return text;
  if (most < 3) return "";
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}\u2026${text.slice(text.length - (most - 1 - head))}`;
}

function buttonsFor({ node, x, y, width, height, open }: PlacedNode, tree: Tree, marks: Marks): HTMLElement[] {
  const place = (left: number, top: number, w: number, t: number): string => `left:${MARGIN + x + left}px;top:${MARGIN + y + top}px;width:${w}px;height:${t}px`;
  const watched = marks.watched.has(node.name);
  const label = [`${node.name} ${node.cls}`, neverRan(node, tree) && "never ran", watched && "watched", marks.moved && movedLabel(marks.moved.of(node.name))].filter(Boolean).join(", ");
  const handle = node.scope ? 20 : 0;
  const buttons: HTMLElement[] = [];
  if (node.scope) {
    buttons.push(
      h("button", {
        type: "button",
        class: "gx",
        tabindex: -1,
        style: place(0, 0, handle, open ? 20 : height),
        "data-scope": node.name,
        "aria-expanded": String(open),
        "aria-label": `${open ? "Collapse" : "Expand"} ${node.name}`,
      }),
    );
  }
  buttons.push(
    h("button", {
      type: "button",
      class: isRound(node) ? "gn round" : "gn",
      tabindex: -1,
      style: place(handle, 0, width - handle, open ? 20 : height),
      "data-node": node.name,
      "aria-pressed": String(watched),
      "aria-label": label,
    }),
  );
  return buttons;
}
