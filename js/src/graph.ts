import css from "./css/graph.css";
import { mountGraph } from "./graph/mount";
import { h } from "./lib/dom";
import { widget } from "./lib/root";

export default widget([css], (root) => {
  const pane = h("section", { class: "pane g alone", "aria-label": "Architecture graph" });
  root.app.append(root.errors, pane);
  return mountGraph(root, pane);
});
