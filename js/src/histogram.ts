import { mountCards } from "./cards/mount";
import cardsCss from "./css/cards.css";
import histogramCss from "./css/histogram.css";
import { histogram } from "./histogram/view";
import { h } from "./lib/dom";
import { widget } from "./lib/root";

export default widget([cardsCss, histogramCss], (root) => {
  const pane = h("section", { class: "pane c alone", "aria-label": "Statistics of a layer" });
  root.app.append(root.errors, pane);
  return mountCards(root, pane, { kinds: [histogram], layers: () => root.channel.get("layers") ?? [], closable: false, empty: h("div") });
});
