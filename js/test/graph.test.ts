import { describe, expect, it } from "vitest";
import { globToRegExp, matches } from "../src/graph/filter";
import { clip, edgePath } from "../src/graph/draw";
import { layered } from "../src/graph/layered";
import { layoutGraph, nodeMeta, roundSign, type PlacedNode } from "../src/graph/layout";
import { Moved, movedText } from "../src/graph/moved";
import { buildTree, defaultExpanded, edgesByScope, IN, OUT, visibleNodes } from "../src/graph/tree";
import type { Graph, GraphNode, Pair } from "../src/lib/protocol";

function node(name: string, more: Partial<GraphNode> = {}): GraphNode {
  const parent = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "";
  return { name, label: name.slice(parent ? parent.length + 1 : 0), parent, kind: "module", cls: "Conv2d", detail: "", params: 0, shapes: [], calls: 1, ran: true, scope: false, note: "", ...more };
}

function graph(nodes: GraphNode[], edges: [string, string][], traced = true): Graph {
  const at = (name: string): number => nodes.findIndex((n) => n.name === name);
  return { version: 1, model: "Net", traced, nodes, edges: edges.map(([a, b]): Pair => [at(a), at(b)]) };
}

const residual = graph(
  [node("x", { kind: "input", cls: "input" }), node("block", { scope: true, cls: "Block" }), node("block.conv1"), node("block.conv2"), node("block.add", { kind: "op", cls: "add" }), node("head", { cls: "Linear" }), node("aux", { ran: false })],
  [["x", "block.conv1"], ["block.conv1", "block.conv2"], ["block.conv2", "block.add"], ["x", "block.add"], ["block.add", "head"]],
);
const find = (nodes: PlacedNode[], name: string): PlacedNode => nodes.find((placed) => placed.node.name === name) as PlacedNode;

describe("scopes", () => {
  const tree = buildTree(residual);
  it("lift edges to where both ends live, through ports", () => {
    const edges = edgesByScope(tree, new Set(["block"]));
    expect(edges.get("")).toEqual([{ from: "x", to: "block" }, { from: "block", to: "head" }]);
    expect(edges.get("block")).toContainEqual({ from: IN, to: "block.add" });
    expect(edges.get("block")).toContainEqual({ from: "block.add", to: OUT });
  });
  it("hide what lies inside a collapsed one", () => {
    expect([...edgesByScope(tree, new Set()).keys()]).toEqual([""]);
    expect(visibleNodes(tree, new Set()).map((n) => n.name)).toEqual(["x", "block", "head", "aux"]);
    expect(tree.inside.get("block")).toBe(3);
  });
  it("open by level while few nodes are visible", () => {
    expect([...defaultExpanded(tree)]).toEqual(["block"]);
    expect([...defaultExpanded(tree, 6)]).toEqual([]);
  });
});

describe("layout", () => {
  const tree = buildTree(residual);
  const placed = layoutGraph(tree, new Set(["block"]));
  it("keeps the chain straight and the residual edge on its right", () => {
    const middle = (name: string): number => find(placed.nodes, name).x + find(placed.nodes, name).width / 2;
    for (const name of ["block.conv1", "block.conv2", "block.add", "head"]) expect(middle(name)).toBeCloseTo(middle("x"));
    const skip = placed.edges.filter((edge) => edge.skip);
    expect(skip).toHaveLength(1);
    const conv = find(placed.nodes, "block.conv1");
    expect(Math.max(...(skip[0]?.points.map((p) => p.x) ?? []))).toBeGreaterThan(conv.x + conv.width);
  });
  it("fits a small pane", () => expect(placed.width).toBeLessThan(212));
  it("nests without overlap, and puts what never ran below", () => {
    const block = find(placed.nodes, "block");
    for (const name of ["block.conv1", "block.conv2", "block.add"]) {
      const inner = find(placed.nodes, name);
      expect(inner.x).toBeGreaterThanOrEqual(block.x);
      expect(inner.x + inner.width).toBeLessThanOrEqual(block.x + block.width);
      expect(inner.y + inner.height).toBeLessThanOrEqual(block.y + block.height);
    }
    expect(find(placed.nodes, "aux").y).toBeGreaterThan(find(placed.nodes, "head").y);
    expect(nodeMeta(find(placed.nodes, "aux").node, tree, false)).toBe("never ran");
  });
  it("stacks an untraced model", () => {
    const untraced = layoutGraph(buildTree(graph([node("a", { ran: false }), node("b", { ran: false })], [], false)), new Set());
    expect(untraced.edges).toEqual([]);
    expect(find(untraced.nodes, "b").y).toBeGreaterThan(find(untraced.nodes, "a").y + 22);
  });
});

describe("layered", () => {
  const size = { width: 100, height: 20 };
  it("never overlaps nodes of a rank", () => {
    const names = Array.from({ length: 40 }, (_, i) => `n${i}`);
    const edges = names.flatMap((_, i) => [1, 3, 7].filter((by) => i + by < 40).map((by) => ({ from: `n${i}`, to: `n${i + by}` })));
    const { anchors, paths } = layered([...names, "a", "b", "c"], new Map([...names, "a", "b", "c"].map((n) => [n, size])), [...edges, { from: "n0", to: "a" }, { from: "n0", to: "b" }, { from: "a", to: "c" }], 15);
    const all = [...anchors.values()];
    for (const p of all) for (const q of all) if (p !== q && p.y === q.y) expect(Math.abs(p.x - q.x)).toBeGreaterThanOrEqual(100);
    expect(paths).toHaveLength(edges.length + 3);
  });
  it("puts a side chain just above where it is used", () => {
    const names = ["in", "a", "b", "c", "mask", "eq"];
    const edges = [["in", "a"], ["a", "b"], ["b", "c"], ["mask", "eq"], ["eq", "c"]].map(([from, to]) => ({ from: from as string, to: to as string }));
    const { anchors } = layered(names, new Map(names.map((n) => [n, size])), edges, 15);
    expect(anchors.get("eq")?.y).toBe(anchors.get("b")?.y);
    expect(anchors.get("mask")?.y).toBe(anchors.get("a")?.y);
  });
  it("copes with a cycle, as of a module that is called again", () => {
    const { paths, anchors } = layered(["a", "r", "b"], new Map(["a", "r", "b"].map((n) => [n, size])), [{ from: "a", to: "r" }, { from: "r", to: "b" }, { from: "b", to: "r" }], 15);
    expect(paths).toHaveLength(3);
    expect(new Set([...anchors.values()].map((p) => p.y)).size).toBe(3);
  });
});

describe("filter", () => {
  const names = (filter: string): string[] => matches(residual.nodes, filter).map((n) => n.name);
  it("knows globs, classes and parts of names", () => {
    expect(names("block.*")).toEqual(["block.conv1", "block.conv2", "block.add"]);
    expect(names("conv2d")).toEqual(["block.conv1", "block.conv2", "aux"]);
    expect(names("Linear add")).toEqual(["block.add", "head"]);
    expect(names("Block")).toContain("block");
    expect(names("")).toEqual([]);
  });
  it("translates patterns", () => {
    expect(globToRegExp("a.[0-2]?").test("a.1x")).toBe(true);
    expect(globToRegExp("a.[!0]*").test("a.0")).toBe(false);
    expect(globToRegExp("a.b").test("aXb")).toBe(false);
  });
});

it("draws edges with rounded corners", () => {
  expect(edgePath([{ x: 5, y: 0 }, { x: 5, y: 10 }])).toBe("M5 0V10");
  expect(edgePath([{ x: 0, y: 0 }, { x: 20, y: 20 }])).toBe("M0 0V4Q0 10 6 10H14Q20 10 20 16V20");
});

it("cuts the middle of a long name", () => {
  expect(clip("a_rather_long_name", 70, 7)).toBe("a_rat\u2026name");
  expect(clip("short", 70, 7)).toBe("short");
});

it("draws arithmetic as signs", () => {
  expect(["add", "__add__", "iadd_", "mul", "relu"].map((cls) => roundSign(node("op", { kind: "op", cls })))).toEqual(["+", "+", "+", "\u00d7", ""]);
});

describe("moved shares", () => {
  const tree = buildTree(residual);
  it("of a scope are the largest of what is in it", () => {
    const moved = Moved.of({ "block.conv1": 0.5, "block.conv2": 0.004, head: 0 }, tree);
    expect(["block", "block.conv1", "head", "aux"].map((name) => moved?.of(name))).toEqual([0.5, 0.5, 0, undefined]);
    expect(Moved.of({}, tree)).toBeNull();
    expect(Moved.of(undefined, tree)).toBeNull();
  });
  it("say all and nothing only where it is so", () => {
    expect([0, 0.004, 0.37, 0.999, 1].map(movedText)).toEqual(["0 %", "<1 %", "37 %", ">99 %", "100 %"]);
  });
});
