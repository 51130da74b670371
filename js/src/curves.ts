import { mountCards } from "./cards/mount";
import cardsCss from "./css/cards.css";
import curvesCss from "./css/curves.css";
import { curves } from "./curves/view";
import { h } from "./lib/dom";
import { widget } from "./lib/root";

export default widget([cardsCss, curvesCss], (root) => {
  const pane = h("section", { class: "pane c alone", "aria-label": "Curves of a layer" });
  root.app.append(root.errors, pane);
  return mountCards(root, pane, { kinds: [curves], layers: () => root.channel.get("layers") ?? [], closable: false, empty: h("div") });
});
