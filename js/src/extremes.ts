import { mountCards } from "./cards/mount";
import cardsCss from "./css/cards.css";
import extremesCss from "./css/extremes.css";
import { extremes } from "./extremes/view";
import { h } from "./lib/dom";
import { widget } from "./lib/root";

export default widget([cardsCss, extremesCss], (root) => {
  const pane = h("section", { class: "pane c alone", "aria-label": "Extreme patches of a layer" });
  root.app.append(root.errors, pane);
  return mountCards(root, pane, { kinds: [extremes], layers: () => root.channel.get("layers") ?? [], closable: false, empty: h("div") });
});
