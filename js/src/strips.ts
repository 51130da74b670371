import css from "./css/cards.css";
import { h } from "./lib/dom";
import { widget } from "./lib/root";
import { mountCards } from "./cards/mount";
import { strips } from "./strips/view";

export default widget([css], (root) => {
  const { channel } = root;
  const pane = h("section", { class: "pane c alone", "aria-label": "Layer cards" });
  root.app.append(root.errors, pane);
  const named = (): string[] => channel.get("layers") ?? [];
  return mountCards(root, pane, {
    kinds: [strips],
    layers: () => (named().length ? named() : channel.layers),
    closable: named().length === 0,
    empty: h("div", { class: "empty" }, h("p", {}, "No layer is watched. Name some: ", h("code", {}, "session.watch(\"conv1\")"))),
  });
});
