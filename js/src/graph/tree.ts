// The graph as a tree of scopes: which nodes are visible when some scopes are collapsed, and between which of
// them the edges then run.

import type { Graph, GraphNode } from "../lib/protocol";

export const ROOT = "";

export interface Tree {
  graph: Graph;
  byName: Map<string, GraphNode>;
  children: Map<string, GraphNode[]>;
  /** How many nodes lie inside a scope, at any depth. */
  inside: Map<string, number>;
}

export function buildTree(graph: Graph): Tree {
  const byName = new Map(graph.nodes.map((node) => [node.name, node]));
  const children = new Map<string, GraphNode[]>();
  const inside = new Map<string, number>();
  for (const node of graph.nodes) {
    // A parent that is not listed is taken as the root, so that no node is lost.
    const parent = byName.has(node.parent) ? node.parent : ROOT;
    const siblings = children.get(parent);
    if (siblings) siblings.push(node);
    else children.set(parent, [node]);
  }
  for (const node of graph.nodes) {
    for (const scope of ancestors(byName, node)) inside.set(scope, (inside.get(scope) ?? 0) + 1);
  }
  return { graph, byName, children, inside };
}

/** The scopes around a node, from the innermost to the outermost. */
export function ancestors(byName: Map<string, GraphNode>, node: GraphNode): string[] {
  const names: string[] = [];
  for (let at = byName.get(node.parent); at; at = byName.get(at.parent)) names.push(at.name);
  return names;
}

/** Nodes in reading order, with those inside collapsed scopes left out. */
export function visibleNodes(tree: Tree, expanded: ReadonlySet<string>, scope = ROOT): GraphNode[] {
  return (tree.children.get(scope) ?? []).flatMap((node) =>
    node.scope && expanded.has(node.name) ? [node, ...visibleNodes(tree, expanded, node.name)] : [node],
  );
}

/** What is open at first: level by level, as long as no more than `most` nodes are visible. */
export function defaultExpanded(tree: Tree, most = 60): Set<string> {
  const expanded = new Set<string>();
  let level = (tree.children.get(ROOT) ?? []).filter((node) => node.scope);
  let visible = (tree.children.get(ROOT) ?? []).length;
  while (level.length) {
    const within = level.flatMap((scope) => tree.children.get(scope.name) ?? []);
    visible += within.length;
    if (visible > most) break;
    for (const scope of level) expanded.add(scope.name);
    level = within.filter((node) => node.scope);
  }
  return expanded;
}

/** An edge inside one scope, between two of its children; `IN` and `OUT` are the scope's own ports. */
export interface ScopeEdge {
  from: string;
  to: string;
}

export const IN = "\u0000in";
export const OUT = "\u0000out";

/**
 * Splits every edge of the graph into its pieces, one a scope that it passes: up from the producer through the
 * out-ports, across at the level where both ends live, and down through the in-ports to the consumer. Pieces
 * inside a collapsed scope are dropped, and equal pieces are one.
 */
export function edgesByScope(tree: Tree, expanded: ReadonlySet<string>): Map<string, ScopeEdge[]> {
  const { graph, byName } = tree;
  const pieces = new Map<string, Map<string, ScopeEdge>>();
  const add = (scope: string, from: string, to: string): void => {
    let edges = pieces.get(scope);
    if (!edges) pieces.set(scope, (edges = new Map()));
    edges.set(`${from}\u0001${to}`, { from, to });
  };
  // The chain root, ..., parent, node of names, cut at the first collapsed scope.
  const chains = new Map<GraphNode, string[]>();
  const chainOf = (node: GraphNode): string[] => {
    const known = chains.get(node);
    if (known) return known;
    const chain = [...ancestors(byName, node).reverse(), node.name];
    const cut = chain.findIndex((name) => byName.get(name)?.scope && !expanded.has(name));
    const visible = [ROOT, ...(cut < 0 ? chain : chain.slice(0, cut + 1))];
    chains.set(node, visible);
    return visible;
  };
  for (const [producer, consumer] of graph.edges) {
    const from = graph.nodes[producer];
    const to = graph.nodes[consumer];
    if (!from || !to) continue;
    const up = chainOf(from);
    const down = chainOf(to);
    let level = 0;
    while (level + 1 < up.length && level + 1 < down.length && up[level + 1] === down[level + 1]) level++;
    const source = up[level + 1];
    const target = down[level + 1];
    // Both ends hide in one collapsed scope.
    if (source === undefined || target === undefined) continue;
    add(up[level] ?? ROOT, source, target);
    for (let i = level + 1; i + 1 < up.length; i++) add(up[i] ?? ROOT, up[i + 1] ?? "", OUT);
    for (let i = level + 1; i + 1 < down.length; i++) add(down[i] ?? ROOT, IN, down[i + 1] ?? "");
  }
  return new Map([...pieces].map(([scope, edges]) => [scope, [...edges.values()]]));
}
