// The dashboard: controls on top, panes side by side or under tabs, and a height that the user sets.

import { mountControls } from "../controls/mount";
import { mountGraph } from "../graph/mount";
import { h, type Part } from "../lib/dom";
import type { Root } from "../lib/root";
import { mountCards } from "../cards/mount";
import { VIEWS } from "../cards/views";
import { heightHandle } from "./height";
import { mountOfRun } from "./of_run";
import { paneTabs, type Pane } from "./tabs";

export function mountDashboard(root: Root): Part {
  const { channel } = root;
  const graphPane = h("section", { class: "pane g", "aria-label": "Architecture graph" });
  const layersPane = h("section", { class: "pane c", "aria-label": "Layer cards" });
  const runPane = h("section", { class: "pane c r", "aria-label": "Numbers of the run" });
  const timelinePane = h("section", { class: "pane t", "aria-label": "Timeline of the run" });
  const centre = h("div", { class: "centre" }, layersPane, runPane);
  const body = h("div", { class: "body" }, graphPane, centre);
  const panes: Pane[] = [
    { key: "g", title: "Graph", element: graphPane },
    { key: "c", title: "Layers", element: layersPane },
    { key: "r", title: "Run", element: runPane },
  ];
  const tabs = paneTabs(panes, body, "c");
  centre.prepend(tabs.centre);
  const controls = mountControls(root, timelinePane, tabs.element, body, heightHandle(body));
  const graph = mountGraph(root, graphPane);
  const chooseLayer = (): void => {
    tabs.show("g");
    graph.focusFilter();
  };
  root.commands.set("filter", chooseLayer);
  const cards = mountCards(root, layersPane, {
    kinds: VIEWS,
    layers: () => channel.layers,
    closable: true,
    empty: h(
      "div",
      { class: "empty" },
      h("p", {}, "Watch a layer: click a node in the graph."),
      h("button", { type: "button", class: "btn", onclick: chooseLayer }, "Find a layer"),
    ),
  });
  const run = mountOfRun(root, runPane, "run", "Run");
  const timeline = mountOfRun(root, timelinePane, "timeline", "Timeline");
  return {
    destroy: () => {
      run.destroy();
      timeline.destroy();
      controls.destroy();
      graph.destroy();
      cards.destroy();
    },
  };
}
