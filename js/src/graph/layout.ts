// Places the visible part of the graph. Each open scope is laid out alone, as a flat graph of its direct
// children (an open scope among them is one box of its own size) with an input and an output port; so only what
// is visible costs time, and no layout is ever compound.

import { formatShortShape } from "../lib/format";
import type { GraphNode } from "../lib/protocol";
import { layered, type Point, type Size } from "./layered";
import { edgesByScope, IN, OUT, ROOT, type ScopeEdge, type Tree } from "./tree";

export const NODE_WIDTH = 142;
export const NODE_HEIGHT = 22;
const COLLAPSED_EXTRA = 3;
const GAP = 15;
const SIDE = 8;
const HEADER = 20;
const BELOW_HEADER = 10;
const ROUND = 18;

export interface PlacedNode {
  node: GraphNode;
  x: number;
  y: number;
  width: number;
  height: number;
  open: boolean;
  depth: number;
}

export interface PlacedEdge {
  points: Point[];
  arrow: boolean;
  skip: boolean;
}

export interface Placed {
  width: number;
  height: number;
  nodes: PlacedNode[];
  edges: PlacedEdge[];
}

/** A laid-out scope: coordinates are relative to its own top left corner. */
interface Box extends Placed {
  /** Where edges enter and leave the box. */
  inX: number;
  outX: number;
}

/** The visible graph; `inX` is where the main chain runs. */
export function layoutGraph(tree: Tree, expanded: ReadonlySet<string>): Box {
  const edges = edgesByScope(tree, expanded);
  return layoutScope(tree, ROOT, expanded, edges, 0);
}

export function isRound(node: GraphNode): boolean {
  return node.kind === "op" && roundSign(node) !== "";
}

/** The sign of an arithmetic op, which is drawn as a small circle. */
export function roundSign(node: GraphNode): string {
  const name = node.cls.replace(/^(__)?i?(\w+?)_?(__)?$/, "$2");
  return { add: "+", mul: "\u00d7", sub: "\u2212", div: "\u00f7", truediv: "\u00f7", matmul: "@" }[name] ?? "";
}

function layoutScope(tree: Tree, scope: string, expanded: ReadonlySet<string>, edges: Map<string, ScopeEdge[]>, depth: number): Box {
  const children = tree.children.get(scope) ?? [];
  const inner = new Map<string, Box>();
  const sizes = new Map<string, Size>();
  for (const child of children) {
    if (child.scope && expanded.has(child.name)) {
      const box = layoutScope(tree, child.name, expanded, edges, depth + 1);
      inner.set(child.name, box);
      sizes.set(child.name, { width: box.width, height: box.height, inX: box.inX, outX: box.outX });
    } else sizes.set(child.name, leafSize(child));
  }
  const flat = layoutFlat(children.map((child) => child.name), sizes, edges.get(scope) ?? []);

  const top = scope === ROOT ? 0 : HEADER;
  // The out-port is a point on the lower border, which needs no more room under it.
  const bottom = scope === ROOT || flat.leaves ? 0 : SIDE;
  const side = scope === ROOT ? 0 : SIDE;
  const placed: Box = {
    width: flat.width + 2 * side,
    height: top + flat.height + bottom,
    nodes: [],
    edges: [],
    inX: side + flat.inX,
    outX: side + flat.outX,
  };
  for (const child of children) {
    const spot = flat.spots.get(child.name);
    const size = sizes.get(child.name);
    if (!spot || !size) continue;
    const x = side + spot.x;
    const y = top + spot.y;
    const box = inner.get(child.name);
    placed.nodes.push({ node: child, x, y, width: size.width, height: size.height, open: box !== undefined, depth });
    if (!box) continue;
    placed.nodes.push(...box.nodes.map((node) => ({ ...node, x: node.x + x, y: node.y + y })));
    placed.edges.push(...box.edges.map((edge) => ({ ...edge, points: edge.points.map((p) => ({ x: p.x + x, y: p.y + y })) })));
  }
  for (const { edge, points, skip } of flat.paths) {
    placed.edges.push({ points: points.map((p) => ({ x: p.x + side, y: p.y + top })), arrow: edge.to !== OUT, skip });
  }
  return placed;
}

function leafSize(node: GraphNode): Size {
  if (isRound(node)) return { width: ROUND, height: ROUND };
  return { width: NODE_WIDTH, height: NODE_HEIGHT + (node.scope ? COLLAPSED_EXTRA : 0) };
}

interface Flat {
  /** True if edges leave through the out-port. */
  leaves: boolean;
  width: number;
  height: number;
  inX: number;
  outX: number;
  /** Top left corners. */
  spots: Map<string, Point>;
  paths: { edge: ScopeEdge; points: Point[]; skip: boolean }[];
}

/** The direct children of one scope, with its ports. */
function layoutFlat(names: string[], sizes: Map<string, Size>, edges: ScopeEdge[]): Flat {
  const joined = new Set(edges.flatMap(({ from, to }) => [from, to]));
  // Before the first forward there are no edges, and what never ran has none: those stand one below the other.
  const alone = names.filter((name) => !joined.has(name));
  const connected = [IN, ...names, OUT].filter((name) => joined.has(name));
  const flat = connected.length ? layered(connected, sizes, edges, GAP) : { width: 0, height: 0, anchors: new Map<string, Point>(), paths: [] };
  const width = Math.max(flat.width, ...alone.map((name) => sizes.get(name)?.width ?? 0));
  const right = (width - flat.width) / 2;
  // The in-port is a point on the header; what it feeds stands a little nearer than a whole gap.
  const up = joined.has(IN) ? GAP - BELOW_HEADER : 0;
  const at = (x: number, y: number): Point => ({ x: x + right, y: Math.max(0, y - up) });
  const spots = new Map<string, Point>();
  for (const [name, { x, y }] of flat.anchors) {
    const size = sizes.get(name);
    if (size) spots.set(name, at(x - (size.inX ?? size.width / 2), y - size.height / 2));
  }
  const paths = flat.paths.map(({ edge, points, skip }) => ({ edge, points: points.map(({ x, y }) => at(x, y)), skip }));
  const portX = (port: string): number => (flat.anchors.get(port)?.x ?? flat.width / 2) + right;
  const centre = connected.length ? portX(OUT) : width / 2;
  let y = connected.length ? flat.height - up + (alone.length ? GAP : 0) : BELOW_HEADER / 2;
  for (const name of alone) {
    const size = sizes.get(name) ?? { width: 0, height: 0 };
    spots.set(name, { x: Math.max(0, Math.min(width - size.width, centre - size.width / 2)), y });
    y += size.height + GAP;
  }
  return { leaves: joined.has(OUT) && !alone.length, width, height: alone.length ? y - GAP : flat.height - up, inX: portX(IN), outX: portX(OUT), spots, paths };
}

/** The right-hand text of a node. */
export function nodeMeta(node: GraphNode, tree: Tree, open: boolean): string {
  // Its forward was called past the hooks, or its weights were used by the module around it.
  if (tree.graph.traced && !node.ran) return /^(never|not) called/.test(node.note) ? "not seen" : "never ran";
  if (node.kind === "input") return node.shapes[0] ? formatShortShape([0, ...node.shapes[0]]) : "input";
  if (node.scope && !open) {
    const inside = tree.inside.get(node.name) ?? 0;
    return `${inside} ${inside === 1 ? "layer" : "layers"}`;
  }
  if (node.scope && /^(Sequential|ModuleList)$/.test(node.cls) && node.shapes[0]) return formatShortShape(node.shapes[0]);
  // `max_pool2d2` says what it is already.
  if (node.kind === "op" && /^\d*$/.test(node.label.slice(node.cls.length)) && node.label.startsWith(node.cls)) return node.calls > 1 ? `${node.calls} calls` : "";
  if (node.cls === node.label) return node.calls > 1 ? `${node.calls} calls` : "";
  return node.calls > 1 ? `${node.cls} \u00d7${node.calls}` : node.cls;
}
