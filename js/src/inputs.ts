import { mountCards } from "./cards/mount";
import cardsCss from "./css/cards.css";
import inputsCss from "./css/inputs.css";
import { inputs } from "./inputs/view";
import { h } from "./lib/dom";
import { widget } from "./lib/root";

export default widget([cardsCss, inputsCss], (root) => {
  const pane = h("section", { class: "pane c alone", "aria-label": "Inputs" });
  root.app.append(root.errors, pane);
  return mountCards(root, pane, { kinds: [inputs], layers: () => root.channel.get("layers") ?? [], closable: false, label: "Input", empty: h("div") });
});
