// Places the visible part of the graph. Each open scope is laid out alone, as a flat graph of its direct
// children (an open scope among them is one box of its own size) with an input and an output port; so only what
// is visible costs time, and no layout is ever compound.

import { Graph as DagreGraph, layout as dagreLayout } from "@dagrejs/dagre";
import { formatShortShape } from "../lib/format";
import type { GraphNode } from "../lib/protocol";
import { edgesByScope, IN, OUT, ROOT, type ScopeEdge, type Tree } from "./tree";

export const NODE_WIDTH = 142;
export const NODE_HEIGHT = 22;
const COLLAPSED_EXTRA = 3;
const GAP = 15;
const SIDE = 8;
const HEADER = 20;
const BELOW_HEADER = 10;
const ROUND = 18;
/** Beyond this many children dagre is too slow; they are then set one below the other. */
const MOST_FOR_DAGRE = 320;

export interface Point {
  x: number;
  y: number;
}

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

export function layoutGraph(tree: Tree, expanded: ReadonlySet<string>): Placed {
  const edges = edgesByScope(tree, expanded);
  return layoutScope(tree, ROOT, expanded, edges, 0);
}

export function isRound(node: GraphNode): boolean {
  return node.kind === "op" && roundSign(node) !== "";
}

/** The sign of an arithmetic op, which is drawn as a small circle. */
export function roundSign(node: GraphNode): string {
  const name = node.cls.replace(/^(__)?i?(\w+?)_?(__)?$/, "$2");
  return { add: "+", mul: "\u00d7", sub: "\u2212", div: "\u00f7", truediv: "\u00f7", matmul: "@", cat: "\u2016" }[name] ?? "";
}

function layoutScope(tree: Tree, scope: string, expanded: ReadonlySet<string>, edges: Map<string, ScopeEdge[]>, depth: number): Box {
  const children = tree.children.get(scope) ?? [];
  const inner = new Map<string, Box>();
  const sizes = new Map<string, { width: number; height: number }>();
  for (const child of children) {
    if (child.scope && expanded.has(child.name)) {
      const box = layoutScope(tree, child.name, expanded, edges, depth + 1);
      inner.set(child.name, box);
      sizes.set(child.name, { width: box.width, height: box.height });
    } else sizes.set(child.name, leafSize(child));
  }
  const flat = layoutFlat(children.map((child) => child.name), sizes, edges.get(scope) ?? []);

  const top = scope === ROOT ? 0 : HEADER;
  const bottom = scope === ROOT ? 0 : SIDE;
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
    placed.nodes.push({ node: child, x, y, ...size, open: box !== undefined, depth });
    if (!box) continue;
    placed.nodes.push(...box.nodes.map((node) => ({ ...node, x: node.x + x, y: node.y + y })));
    placed.edges.push(...box.edges.map((edge) => ({ ...edge, points: edge.points.map((p) => ({ x: p.x + x, y: p.y + y })) })));
  }
  for (const { edge, points, skip } of flat.paths) {
    placed.edges.push({ points: points.map((p) => ({ x: p.x + side, y: p.y + top })), arrow: edge.to !== OUT, skip });
  }
  return placed;
}

function leafSize(node: GraphNode): { width: number; height: number } {
  if (isRound(node)) return { width: ROUND, height: ROUND };
  return { width: NODE_WIDTH, height: NODE_HEIGHT + (node.scope ? COLLAPSED_EXTRA : 0) };
}

interface Flat {
  width: number;
  height: number;
  inX: number;
  outX: number;
  /** Top left corners. */
  spots: Map<string, Point>;
  paths: { edge: ScopeEdge; points: Point[]; skip: boolean }[];
}

function layoutFlat(names: string[], sizes: Map<string, { width: number; height: number }>, edges: ScopeEdge[]): Flat {
  const joined = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const connected = names.filter((name) => joined.has(name));
  // Before the first forward there are no edges, and what never ran has none: those stand one below the other.
  const alone = names.filter((name) => !joined.has(name));
  const flat = connected.length > MOST_FOR_DAGRE ? stackFlat(connected, sizes, edges) : dagreFlat(connected, sizes, edges, joined);
  const widest = Math.max(flat.width, ...alone.map((name) => sizes.get(name)?.width ?? 0));
  const shift = (widest - flat.width) / 2;
  for (const spot of flat.spots.values()) spot.x += shift;
  for (const { points } of flat.paths) for (const point of points) point.x += shift;
  const centre = connected.length ? flat.inX + shift : widest / 2;
  let y = connected.length ? flat.height + (alone.length ? GAP : 0) : BELOW_HEADER / 2;
  for (const name of alone) {
    const size = sizes.get(name) ?? { width: 0, height: 0 };
    flat.spots.set(name, { x: Math.max(0, Math.min(widest - size.width, centre - size.width / 2)), y });
    y += size.height + GAP;
  }
  return { ...flat, width: widest, height: alone.length ? y - GAP : flat.height, inX: centre, outX: flat.outX + shift };
}

function dagreFlat(names: string[], sizes: Map<string, { width: number; height: number }>, edges: ScopeEdge[], joined: Set<string>): Flat {
  if (!names.length) return { width: 0, height: 0, inX: 0, outX: 0, spots: new Map(), paths: [] };
  const graph = new DagreGraph();
  graph.setGraph({ rankdir: "TB", nodesep: 12, edgesep: 12, ranksep: GAP, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { ...(sizes.get(name) ?? { width: 0, height: 0 }) });
  for (const port of [IN, OUT]) if (joined.has(port)) graph.setNode(port, { width: 1, height: 0 });
  for (const { from, to } of edges) if (from !== to) graph.setEdge(from, to, { weight: 1, minlen: 1 });
  dagreLayout(graph);

  // dagre gives the middle of each rank; a tall box in a rank must not be cut by an edge that passes beside it.
  const ranks = new Map<number, number>();
  for (const name of graph.nodes()) {
    const { y = 0, height = 0 } = graph.node(name) as { y?: number; height?: number };
    ranks.set(Math.round(y), Math.max(ranks.get(Math.round(y)) ?? 0, height / 2));
  }
  const firstY = joined.has(IN) ? GAP - BELOW_HEADER : 0;
  const spots = new Map<string, Point>();
  for (const name of names) {
    const { x = 0, y = 0, width, height } = graph.node(name) as { x?: number; y?: number; width: number; height: number };
    spots.set(name, { x: x - width / 2, y: y - height / 2 - firstY });
  }
  const paths = edges
    .filter(({ from, to }) => from !== to)
    .map((edge) => {
      const bends = (graph.edge(edge.from, edge.to) as { points: Point[] }).points.slice(1, -1);
      const from = graph.node(edge.from) as { x: number; y: number; height: number };
      const to = graph.node(edge.to) as { x: number; y: number; height: number };
      const forward = from.y <= to.y;
      const start = { x: from.x, y: from.y + ((forward ? 1 : -1) * from.height) / 2 };
      const end = { x: to.x, y: to.y - ((forward ? 1 : -1) * to.height) / 2 };
      const passes = bends.flatMap(({ x, y }) => {
        const half = ranks.get(Math.round(y));
        return half ? [{ x, y: y - (forward ? half : -half) }, { x, y: y + (forward ? half : -half) }] : [];
      });
      const points = [start, ...passes, end].map(({ x, y }) => ({ x, y: Math.max(0, y - firstY) }));
      return { edge, points, skip: passes.length > 0 };
    });
  const bounds = extent(names, spots, sizes, paths.flatMap(({ points }) => points));
  for (const spot of spots.values()) spot.x -= bounds.left;
  for (const { points } of paths) for (const point of points) point.x -= bounds.left;
  const portX = (port: string): number => (joined.has(port) ? (graph.node(port) as { x: number }).x - bounds.left : bounds.width / 2);
  return { width: bounds.width, height: bounds.bottom, inX: portX(IN), outX: portX(OUT), spots, paths };
}

/** One below the other in the given order; edges that skip a node pass on the right. */
function stackFlat(names: string[], sizes: Map<string, { width: number; height: number }>, edges: ScopeEdge[]): Flat {
  const widest = Math.max(...names.map((name) => sizes.get(name)?.width ?? 0));
  const spots = new Map<string, Point>();
  let y = BELOW_HEADER;
  for (const name of names) {
    const size = sizes.get(name) ?? { width: 0, height: 0 };
    spots.set(name, { x: (widest - size.width) / 2, y });
    y += size.height + GAP;
  }
  const centre = widest / 2;
  const order = new Map(names.map((name, at) => [name, at]));
  order.set(IN, -1).set(OUT, names.length);
  const top = (name: string): number => (name === OUT ? y : spots.get(name)?.y ?? 0);
  const bottom = (name: string): number => (name === IN ? 0 : (spots.get(name)?.y ?? 0) + (sizes.get(name)?.height ?? 0));
  const paths = edges.map((edge) => {
    const apart = (order.get(edge.to) ?? 0) - (order.get(edge.from) ?? 0);
    const start = { x: centre, y: bottom(edge.from) };
    const end = { x: centre, y: top(edge.to) };
    if (apart === 1) return { edge, points: [start, end], skip: false };
    const lane = widest + 8 + 6 * (Math.abs(apart) % 5);
    return { edge, points: [start, { x: lane, y: start.y + GAP }, { x: lane, y: end.y - GAP }, end], skip: true };
  });
  const width = paths.some(({ skip }) => skip) ? widest + 36 : widest;
  return { width, height: y - GAP, inX: centre, outX: centre, spots, paths };
}

function extent(
  names: string[],
  spots: Map<string, Point>,
  sizes: Map<string, { width: number; height: number }>,
  points: Point[],
): { left: number; width: number; bottom: number } {
  let left = Infinity;
  let right = -Infinity;
  let bottom = 0;
  for (const name of names) {
    const spot = spots.get(name);
    const size = sizes.get(name);
    if (!spot || !size) continue;
    left = Math.min(left, spot.x);
    right = Math.max(right, spot.x + size.width);
    bottom = Math.max(bottom, spot.y + size.height);
  }
  for (const { x, y } of points) {
    left = Math.min(left, x - 4);
    right = Math.max(right, x + 4);
    bottom = Math.max(bottom, y);
  }
  return { left, width: right - left, bottom };
}

/** The right-hand text of a node. */
export function nodeMeta(node: GraphNode, tree: Tree, open: boolean): string {
  if (tree.graph.traced && !node.ran) return "never ran";
  if (node.kind === "input") return node.shapes[0] ? formatShortShape([0, ...node.shapes[0]]) : "input";
  if (node.scope && !open) {
    const inside = tree.inside.get(node.name) ?? 0;
    return `${inside} ${inside === 1 ? "layer" : "layers"}`;
  }
  if (node.scope && /^(Sequential|ModuleList)$/.test(node.cls) && node.shapes[0]) return formatShortShape(node.shapes[0]);
  if (node.cls === node.label) return node.calls > 1 ? `${node.calls} calls` : "";
  return node.calls > 1 ? `${node.cls} \u00d7${node.calls}` : node.cls;
}
