// The dashboard: controls on top, panes side by side or under tabs, and a height that the user sets.

import { mountControls } from "../controls/mount";
import { mountGraph } from "../graph/mount";
import { h, type Part } from "../lib/dom";
import type { Root } from "../lib/root";
import { mountCards } from "../cards/mount";
import { VIEWS } from "../cards/views";
import { SharedDisplay } from "../cards/display";
import { heightHandle } from "./height";
import { mountOfRun } from "./of_run";
import { sidePane } from "./side";
import { paneTabs, type Pane } from "./tabs";

export function mountDashboard(root: Root): Part {
  const { channel } = root;
  const graphPane = h("section", { class: "pane g", "aria-label": "Architecture graph" });
  const layersPane = h("section", { class: "pane c", "aria-label": "Layer cards" });
  const runPane = h("section", { class: "pane c r", "aria-label": "Numbers of the run" });
  const timelinePane = h("section", { class: "pane t", "aria-label": "Timeline of the run" });
  const inputPane = h("section", { class: "pane c i", "aria-label": "Inputs" });
  const body = h("div", { class: "body" });
  const panes: Pane[] = [
    { key: "g", title: "Graph", element: graphPane, place: "left" },
    { key: "c", title: "Layers", element: layersPane, place: "centre" },
    { key: "r", title: "Run", element: runPane, place: "centre" },
    { key: "i", title: "Input", element: inputPane, place: "right" },
  ];
  const tabs = paneTabs(panes, body, "c");
  const side = sidePane(body, "Input");
  body.append(graphPane, h("div", { class: "ptop" }, ...tabs.centre, h("span", { class: "flex" }), side.fold), layersPane, runPane, side.edge, inputPane);
  const controls = mountControls(root, timelinePane, tabs.element, body, heightHandle(body));
  const graph = mountGraph(root, graphPane);
  const chooseLayer = (): void => {
    tabs.show("g");
    graph.focusFilter();
  };
  root.commands.set("filter", chooseLayer);
  const display = new SharedDisplay();
  const cards = mountCards(root, layersPane, {
    kinds: VIEWS,
    display,
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
  const inputs = mountOfRun(root, inputPane, "inputs", "Input", display);
  return {
    destroy: () => {
      run.destroy();
      timeline.destroy();
      inputs.destroy();
      controls.destroy();
      graph.destroy();
      cards.destroy();
    },
  };
}
