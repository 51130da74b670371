// Layered drawing of a flat graph (Sugiyama's steps): ranks by longest path, an order in each rank with few
// crossings, then positions that keep the main chain straight and long edges vertical, on its right.

export interface Size {
  width: number;
  height: number;
  /** Where edges enter at the top and leave at the bottom, from the left; the middle if not given. */
  inX?: number;
  outX?: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface FlatEdge {
  from: string;
  to: string;
}

export interface Layered {
  width: number;
  height: number;
  /** Of each node the point where edges enter, at half its height. */
  anchors: Map<string, Point>;
  /** For each edge given, from the bottom of its producer to the top of its consumer. */
  paths: { edge: FlatEdge; points: Point[]; skip: boolean }[];
}

/** A node, or the place where a long edge passes a rank. */
interface Item {
  name: string | null;
  rank: number;
  /** Room to the left and right of `x`, which is where edges enter. */
  left: number;
  right: number;
  height: number;
  /** Where edges leave, relative to `x`. */
  outX: number;
  x: number;
  up: Item[];
  down: Item[];
}

interface Line {
  edge: FlatEdge;
  items: Item[];
  backward: boolean;
}

const NODE_GAP = 14;
const LANE_GAP = 12;
const SWEEPS = 8;
/** Edges that would need more passing places than this in all run outside, beside everything. */
const MOST_PASSES = 8000;

export function layered(names: string[], sizes: ReadonlyMap<string, Size>, edges: FlatEdge[], rankGap: number): Layered {
  const real = edges.filter(({ from, to }) => from !== to);
  const forward = withoutCycles(names, real);
  const ranks = assignRanks(names, forward);
  const items = new Map<string, Item>();
  for (const name of names) items.set(name, itemOf(name, ranks.get(name) ?? 0, sizes.get(name)));

  const span = ({ from, to }: FlatEdge): number => (ranks.get(to) ?? 0) - (ranks.get(from) ?? 0);
  const lines: Line[] = [];
  const outside: Line[] = [];
  const rows: Item[][] = [];
  for (const item of items.values()) (rows[item.rank] ??= []).push(item);
  let passes = 0;
  for (const { edge, from, to, backward } of [...forward].sort((a, b) => span(a) - span(b))) {
    const first = items.get(from);
    const last = items.get(to);
    if (!first || !last) continue;
    const line: Line = { edge, items: [first, last], backward };
    passes += last.rank - first.rank - 1;
    if (passes > MOST_PASSES) {
      outside.push(line);
      continue;
    }
    const between = Array.from({ length: last.rank - first.rank - 1 }, (_, i) => itemOf(null, first.rank + i + 1, undefined));
    line.items = [first, ...between, last];
    for (const item of between) rows[item.rank]?.push(item);
    line.items.forEach((item, i) => {
      const next = line.items[i + 1];
      if (next) {
        item.down.push(next);
        next.up.push(item);
      }
    });
    lines.push(line);
  }
  const layers = Array.from({ length: Math.max(0, ...ranks.values()) + 1 }, (_, rank) => rows[rank] ?? []);
  order(layers);
  position(layers, lines);
  return assemble(layers, lines, outside, rankGap);
}

function itemOf(name: string | null, rank: number, size: Size | undefined): Item {
  const { width, height, inX = width / 2, outX = width / 2 } = size ?? { width: 0, height: 0 };
  return { name, rank, left: inX, right: width - inX, height, outX: outX - inX, x: 0, up: [], down: [] };
}

/** Every edge pointing forward; those that close a cycle (a module called again) are turned round. */
function withoutCycles(names: string[], edges: FlatEdge[]): { edge: FlatEdge; from: string; to: string; backward: boolean }[] {
  const out = new Map<string, FlatEdge[]>();
  for (const edge of edges) out.set(edge.from, [...(out.get(edge.from) ?? []), edge]);
  const state = new Map<string, "open" | "done">();
  const back = new Set<FlatEdge>();
  for (const root of names) {
    if (state.has(root)) continue;
    // An explicit stack: a chain of thousands of nodes would be too deep for recursion.
    const stack: { name: string; next: number }[] = [{ name: root, next: 0 }];
    state.set(root, "open");
    while (stack.length) {
      const top = stack[stack.length - 1] as { name: string; next: number };
      const edge = out.get(top.name)?.[top.next++];
      if (!edge) {
        state.set(top.name, "done");
        stack.pop();
      } else if (state.get(edge.to) === "open") back.add(edge);
      else if (!state.has(edge.to)) {
        state.set(edge.to, "open");
        stack.push({ name: edge.to, next: 0 });
      }
    }
  }
  return edges.map((edge) => (back.has(edge) ? { edge, from: edge.to, to: edge.from, backward: true } : { edge, from: edge.from, to: edge.to, backward: false }));
}

/** Longest path from the sources; what the first source does not feed then moves down to where it is used. */
function assignRanks(names: string[], edges: FlatEdge[]): Map<string, number> {
  const incoming = new Map(names.map((name) => [name, 0]));
  const out = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const { from, to } of edges) {
    incoming.set(to, (incoming.get(to) ?? 0) + 1);
    out.get(from)?.push(to);
  }
  const sources = names.filter((name) => !incoming.get(name));
  const ranks = new Map(names.map((name) => [name, 0]));
  const queue = [...sources];
  const main = new Set(sources.slice(0, 1));
  for (let i = 0; i < queue.length; i++) {
    const name = queue[i] as string;
    for (const to of out.get(name) ?? []) {
      ranks.set(to, Math.max(ranks.get(to) ?? 0, (ranks.get(name) ?? 0) + 1));
      if (main.has(name)) main.add(to);
      const left = (incoming.get(to) ?? 1) - 1;
      incoming.set(to, left);
      if (left === 0) queue.push(to);
    }
  }
  for (const name of queue.reverse()) {
    const fed = (out.get(name) ?? []).map((to) => ranks.get(to) ?? 1);
    if (fed.length && !main.has(name)) ranks.set(name, Math.min(...fed) - 1);
  }
  return ranks;
}

/** Barycentre sweeps. Ties keep their order, in which passing edges come last and so go to the right. */
function order(layers: Item[][]): void {
  const place = new Map<Item, number>();
  const number = (layer: Item[]): void => layer.forEach((item, i) => place.set(item, i));
  layers.forEach(number);
  const sort = (layer: Item[], side: "up" | "down"): void => {
    const key = new Map(layer.map((item, i) => [item, item[side].length ? mean(item[side].map((other) => place.get(other) ?? 0)) : i]));
    layer.sort((a, b) => (key.get(a) ?? 0) - (key.get(b) ?? 0) || Number(a.name === null) - Number(b.name === null));
    number(layer);
  };
  let best = layers.map((layer) => [...layer]);
  let fewest = Infinity;
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    if (sweep % 2 === 0) for (let rank = 1; rank < layers.length; rank++) sort(layers[rank] ?? [], "up");
    else for (let rank = layers.length - 2; rank >= 0; rank--) sort(layers[rank] ?? [], "down");
    const count = crossings(layers, place);
    if (count < fewest) {
      fewest = count;
      best = layers.map((layer) => [...layer]);
    }
  }
  best.forEach((layer, rank) => (layers[rank] = layer));
}

function crossings(layers: Item[][], place: Map<Item, number>): number {
  let count = 0;
  for (const layer of layers) {
    const ends = layer.flatMap((item) => item.down.map((other) => place.get(other) ?? 0).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i++) for (let j = i + 1; j < ends.length; j++) if ((ends[i] ?? 0) > (ends[j] ?? 0)) count++;
  }
  return count;
}

function gapBetween(a: Item, b: Item): number {
  return a.right + b.left + (a.name !== null && b.name !== null ? NODE_GAP : LANE_GAP);
}

/** Moves every rank towards its neighbours, as near as the order and the gaps allow, down and up by turns. */
function position(layers: Item[][], lines: Line[]): void {
  for (const layer of layers) place(layer, () => undefined);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of layers) place(layer, (item) => wish(item, item.up));
    for (const layer of [...layers].reverse()) place(layer, (item) => wish(item, item.down));
  }
  straighten(layers, lines);
}

/** Where an item would like to be: a node follows nodes before passing edges, an edge follows itself. */
function wish(item: Item, neighbours: Item[]): number | undefined {
  const alike = neighbours.filter((other) => (other.name === null) === (item.name === null));
  if (item.name === null) return alike.length ? mean(alike.map(({ x }) => x)) : undefined;
  const followed = alike.length ? alike : neighbours;
  return followed.length ? mean(followed.map(({ x }) => x)) : undefined;
}

/** Least squares under fixed order and gaps: neighbours that would overlap are pooled into one block. */
function place(layer: Item[], wanted: (item: Item) => number | undefined): void {
  const blocks: { sum: number; weight: number; items: { item: Item; offset: number }[] }[] = [];
  let offset = 0;
  let before: Item | undefined;
  for (const item of layer) {
    if (before) offset += gapBetween(before, item);
    before = item;
    const target = wanted(item);
    const weight = target === undefined ? 0.01 : item.name === null ? 0.2 : 1;
    blocks.push({ sum: ((target ?? item.x) - offset) * weight, weight, items: [{ item, offset }] });
    for (let last = blocks.length - 1; last > 0; last--) {
      const right = blocks[last];
      const left = blocks[last - 1];
      if (!left || !right || left.sum / left.weight <= right.sum / right.weight) break;
      left.sum += right.sum;
      left.weight += right.weight;
      left.items.push(...right.items);
      blocks.pop();
    }
  }
  for (const { sum, weight, items } of blocks) for (const { item, offset: at } of items) item.x = sum / weight + at;
}

/** Gives all passing places of a long edge one x where the neighbours leave room for it. */
function straighten(layers: Item[][], lines: Line[]): void {
  for (const { items } of lines) {
    const passing = items.slice(1, -1);
    if (passing.length < 2) continue;
    let low = -Infinity;
    let high = Infinity;
    for (const item of passing) {
      const layer = layers[item.rank] ?? [];
      const at = layer.indexOf(item);
      const left = layer[at - 1];
      const right = layer[at + 1];
      if (left) low = Math.max(low, left.x + gapBetween(left, item));
      if (right) high = Math.min(high, right.x - gapBetween(item, right));
    }
    if (low > high) continue;
    const x = Math.max(low, Math.min(high, mean(passing.map((item) => item.x))));
    for (const item of passing) item.x = x;
  }
}

function assemble(layers: Item[][], lines: Line[], outside: Line[], rankGap: number): Layered {
  const tops: number[] = [];
  const heights = layers.map((layer) => Math.max(0, ...layer.map(({ height }) => height)));
  let y = 0;
  for (const height of heights) {
    tops.push(y);
    y += height + rankGap;
  }
  const all = layers.flat();
  const left = Math.min(...all.map((item) => item.x - item.left));
  const right = Math.max(...all.map((item) => item.x + item.right));
  const middle = (item: Item): number => (tops[item.rank] ?? 0) + (heights[item.rank] ?? 0) / 2;
  const anchors = new Map<string, Point>();
  for (const item of all) {
    item.x -= left;
    if (item.name !== null) anchors.set(item.name, { x: item.x, y: middle(item) });
  }
  const bottomOf = (item: Item): Point => ({ x: item.x + item.outX, y: middle(item) + item.height / 2 });
  const topOf = (item: Item): Point => ({ x: item.x, y: middle(item) - item.height / 2 });
  const paths: Layered["paths"] = lines.map(({ edge, items, backward }) => {
    const first = items[0] as Item;
    const last = items[items.length - 1] as Item;
    // Straight down a whole rank: a tall box in it must not be cut by an edge that passes beside it.
    const passing = items.slice(1, -1).flatMap((item) => [
      { x: item.x, y: tops[item.rank] ?? 0 },
      { x: item.x, y: (tops[item.rank] ?? 0) + (heights[item.rank] ?? 0) },
    ]);
    const points = [bottomOf(first), ...passing, topOf(last)];
    return { edge, points: backward ? points.reverse() : points, skip: passing.length > 0 };
  });
  let lane = right - left;
  for (const { edge, items, backward } of outside) {
    const first = items[0] as Item;
    const last = items[items.length - 1] as Item;
    lane = lane >= right - left + 40 ? right - left + 4 : lane + 4;
    const points = [bottomOf(first), { x: lane, y: bottomOf(first).y + rankGap }, { x: lane, y: topOf(last).y - rankGap }, topOf(last)];
    paths.push({ edge, points: backward ? points.reverse() : points, skip: true });
  }
  const widest = Math.max(right - left, ...paths.flatMap(({ points }) => points.map(({ x }) => x + 3)));
  return { width: widest, height: Math.max(0, y - rankGap), anchors, paths };
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
