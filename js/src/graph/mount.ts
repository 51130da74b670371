// The graph pane: head with zoom, filter, drawing, legend.

import { debounce, focusedNear, h, setText, svg, type Part } from "../lib/dom";
import { icon } from "../lib/icons";
import type { GraphNode } from "../lib/protocol";
import type { Root } from "../lib/root";
import { drawGraph, MARGIN, pictureSize, type Marks } from "./draw";
import { matches } from "./filter";
import { InfoCard } from "./info";
import { layoutGraph } from "./layout";
import { Moved } from "./moved";
import { ancestors, buildTree, defaultExpanded, visibleNodes, type Tree } from "./tree";
import { Viewport } from "./viewport";

export function mountGraph(root: Root, host: HTMLElement): Part & { focusFilter(): void } {
  const { channel, cleanup, commands } = root;
  const viewport = new Viewport(cleanup);
  const info = new InfoCard();
  const notice = h("div", { class: "gnote", hidden: true }, "Edges and ops appear after the first forward.");
  const search = h("input", { type: "search", "aria-label": "Filter layers", placeholder: "filter: stage1.* or Conv2d", spellcheck: "false" });
  const foundText = h("span", { role: "status" });
  const watchFound = h("button", { type: "button", class: "btn s" });
  const unwatchFound = h("button", { type: "button", class: "btn s" });
  const found = h("div", { class: "gfound", hidden: true }, foundText, h("span", { class: "flex" }), watchFound, unwatchFound);
  const zoom = (name: "minus" | "plus" | "fit", label: string, run: () => void): HTMLElement =>
    h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: run }, icon(name));
  const movedLegend = h("span", { hidden: true }, movedSample(), "share of units changed");
  host.append(
    h(
      "div",
      { class: "ph" },
      h("h2", {}, "Graph"),
      h("span", { class: "flex" }),
      zoom("minus", "Zoom out", () => viewport.zoomBy(1 / 1.25)),
      viewport.percent,
      zoom("plus", "Zoom in", () => viewport.zoomBy(1.25)),
      zoom("fit", "Fit graph", () => viewport.fit()),
    ),
    h("div", { class: "srch" }, icon("search", 14), search),
    found,
    notice,
    viewport.element,
    legend(movedLegend),
  );
  root.app.append(info.element);

  let tree: Tree = buildTree(channel.get("graph") ?? { version: 0, model: "", traced: false, nodes: [], edges: [] });
  let expanded = defaultExpanded(tree);
  let focused = "";
  /** Scopes that the user opened or closed keep so when the graph is learned anew. */
  const choices = new Map<string, boolean>();

  const watched = (): Set<string> => new Set(channel.layers);
  const counts = (names: Iterable<string>): Map<string, number> => {
    const inside = new Map<string, number>();
    for (const name of names) {
      const node = tree.byName.get(name);
      if (node) for (const scope of ancestors(tree.byName, node)) inside.set(scope, (inside.get(scope) ?? 0) + 1);
    }
    return inside;
  };
  const foundNodes = (): GraphNode[] => matches(tree.graph.nodes, search.value);

  const draw = (): void => {
    const hadFocus = viewport.content.contains(focusedNear(viewport.content));
    const watching = watched();
    const names = search.value.trim() ? new Set(foundNodes().map(({ name }) => name)) : null;
    const marks: Marks = { watched: watching, found: names, foundInside: counts(names ?? []), watchedInside: counts(watching), moved: Moved.of(channel.get("moved"), tree) };
    movedLegend.hidden = marks.moved === null;
    const placed = layoutGraph(tree, expanded);
    const { picture, buttons } = drawGraph(placed, tree, marks);
    viewport.content.replaceChildren(picture, ...buttons);
    viewport.content.classList.toggle("filtered", names !== null);
    viewport.setSize(pictureSize(placed), placed.inX + MARGIN);
    notice.hidden = tree.graph.traced || !tree.graph.nodes.length;
    drawFound(names, watching);
    const entry = buttonOf(focused) ?? viewport.content.querySelector<HTMLElement>(".gn");
    if (entry) entry.tabIndex = 0;
    if (hadFocus) entry?.focus({ preventScroll: true });
  };

  const drawFound = (names: Set<string> | null, watching: Set<string>): void => {
    found.hidden = names === null;
    if (!names) return;
    const on = [...names].filter((name) => watching.has(name)).length;
    const off = names.size - on;
    const alive = channel.kernel.link === "live" || channel.kernel.link === "unknown";
    setText(foundText, names.size ? `${names.size} found` : "Nothing found");
    setText(watchFound, `Watch ${off}`);
    setText(unwatchFound, `Unwatch ${on}`);
    watchFound.hidden = !off;
    unwatchFound.hidden = !on;
    watchFound.disabled = unwatchFound.disabled = !alive;
  };

  const buttonOf = (name: string): HTMLElement | null => viewport.content.querySelector(`.gn[data-node="${CSS.escape(name)}"]`);
  const toggleScope = (name: string, open = !expanded.has(name)): void => {
    if (open) expanded.add(name);
    else expanded.delete(name);
    choices.set(name, open);
    info.hide();
    draw();
  };
  const reveal = (name: string): void => {
    const node = tree.byName.get(name);
    if (!node) return;
    for (const scope of ancestors(tree.byName, node)) expanded.add(scope);
    focused = name;
    draw();
    const button = buttonOf(name);
    if (!button) return;
    viewport.reveal(button);
    button.focus({ preventScroll: true });
  };
  const move = (by: number): void => {
    const order = visibleNodes(tree, expanded).map(({ name }) => name);
    const next = order[Math.max(0, Math.min(order.length - 1, order.indexOf(focused) + by))];
    const button = next === undefined ? null : buttonOf(next);
    if (!button) return;
    viewport.content.querySelectorAll<HTMLElement>(".gn[tabindex='0']").forEach((other) => (other.tabIndex = -1));
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
    viewport.reveal(button);
  };

  watchFound.addEventListener("click", () => {
    const watching = watched();
    channel.look(foundNodes().map(({ name }) => name).filter((name) => !watching.has(name)), true);
  });
  unwatchFound.addEventListener("click", () => {
    const watching = watched();
    channel.look(foundNodes().map(({ name }) => name).filter((name) => watching.has(name)), false);
  });
  const redrawSoon = debounce(() => channel.guard(draw), 80);
  search.addEventListener("input", redrawSoon);
  search.addEventListener("keydown", (event) => {
    const first = event.key === "Enter" ? foundNodes()[0] : undefined;
    if (first) {
      reveal(first.name);
      // The key that moved the focus onto the layer's button must not press it too.
      event.preventDefault();
    }
    if (event.key === "Escape" && search.value) {
      search.value = "";
      draw();
      event.stopPropagation();
    }
  });

  viewport.content.addEventListener("click", (event) => {
    const button = (event.target as HTMLElement).closest<HTMLElement>("button");
    const { scope, node } = button?.dataset ?? {};
    if (scope !== undefined) toggleScope(scope);
    else if (node !== undefined && channel.kernel.link !== "gone" && channel.kernel.link !== "none") channel.look([node], !watched().has(node));
  });
  viewport.content.addEventListener("keydown", (event) => {
    const node = tree.byName.get((event.target as HTMLElement).dataset.node ?? "");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) move(step);
    else if (node?.scope && event.key === "ArrowRight" && !expanded.has(node.name)) toggleScope(node.name, true);
    else if (node?.scope && event.key === "ArrowLeft" && expanded.has(node.name)) toggleScope(node.name, false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const showInfo = (event: Event): void => {
    const button = (event.target as HTMLElement).closest<HTMLElement>(".gn");
    const node = button && tree.byName.get(button.dataset.node ?? "");
    if (!button || !node) return;
    if (event.type === "focusin") focused = node.name;
    const share = Moved.of(channel.get("moved"), tree)?.of(node.name);
    info.show(node, tree, share, clickText(watched().has(node.name), channel.locked !== ""), button, root.app);
  };
  viewport.content.addEventListener("pointerover", showInfo);
  viewport.content.addEventListener("focusin", showInfo);
  viewport.content.addEventListener("pointerout", () => info.hide());
  viewport.content.addEventListener("focusout", () => info.hide());
  cleanup.listen(viewport.element, "scroll", () => info.hide());

  channel.onTrait("graph", () => {
    tree = buildTree(channel.get("graph") ?? tree.graph);
    expanded = defaultExpanded(tree);
    for (const [name, open] of choices) if (tree.byName.has(name)) open ? expanded.add(name) : expanded.delete(name);
    draw();
  });
  channel.onTrait("moved", draw);
  channel.onLayers(draw);
  channel.onLink(draw);
  const observer = new ResizeObserver(() => viewport.resized());
  observer.observe(viewport.element);
  cleanup.add(() => observer.disconnect());
  cleanup.add(() => redrawSoon.cancel());
  const focusFilter = (): void => {
    search.focus();
    search.select();
  };
  commands.set("filter", focusFilter);
  commands.set("fit", () => viewport.fit());
  draw();
  return { focusFilter, destroy: () => info.element.remove() };
}

function clickText(looked: boolean, locked: boolean): string {
  if (locked) return looked ? "Shown on this page; click to hide." : "Click to show on this page.";
  return looked ? "Watched; click to unwatch." : "Click to watch.";
}

function movedSample(): SVGElement {
  return svg("svg", { class: "gs", width: 16, height: 10, "aria-hidden": "true" }, svg("rect", { class: "mvt", y: 3.5, width: 16, height: 3 }), svg("rect", { class: "mv", y: 3.5, width: 6, height: 3 }));
}

function legend(...more: HTMLElement[]): HTMLElement {
  const sample = (cls: string): SVGElement => svg("svg", { class: "gs", width: 12, height: 10, "aria-hidden": "true" }, svg("rect", { class: cls, x: 0.5, y: 0.5, width: 11, height: 9, rx: 2 }));
  return h("div", { class: "glegend" }, h("span", {}, sample("n w"), "watched"), h("span", {}, sample("n dim"), "never ran"), ...more);
}
