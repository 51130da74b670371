import { mountCards } from "./cards/mount";
import cardsCss from "./css/cards.css";
import curvesCss from "./css/curves.css";
import knobsCss from "./css/knobs.css";
import runCss from "./css/run.css";
import { h } from "./lib/dom";
import { widget } from "./lib/root";
import { run } from "./run/view";

export default widget([cardsCss, curvesCss, knobsCss, runCss], (root) => {
  const pane = h("section", { class: "pane c alone", "aria-label": "Numbers of the run" });
  root.app.append(root.errors, pane);
  return mountCards(root, pane, { kinds: [run], layers: () => root.channel.get("layers") ?? [], closable: false, label: "Run", empty: h("div") });
});
