import { mountCards } from "./cards/mount";
import cardsCss from "./css/cards.css";
import knobsCss from "./css/knobs.css";
import weightsCss from "./css/weights.css";
import { h } from "./lib/dom";
import { widget } from "./lib/root";
import { weights } from "./weights/view";

export default widget([cardsCss, knobsCss, weightsCss], (root) => {
  const pane = h("section", { class: "pane c alone", "aria-label": "Weights of a layer" });
  root.app.append(root.errors, pane);
  return mountCards(root, pane, { kinds: [weights], layers: () => root.channel.get("layers") ?? [], closable: false, empty: h("div") });
});
