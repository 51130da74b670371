// The views of a card: tabs, or a select where the card is too narrow for them (the style sheet decides which).

import { focusedNear, h } from "../lib/dom";
import type { ViewName } from "../lib/protocol";
import type { ViewKind } from "./view";

let cards = 0;

export class ViewTabs {
  readonly element: HTMLElement;
  private readonly select: HTMLSelectElement;
  private readonly buttons: HTMLButtonElement[];
  private readonly id = `nsw-card-${++cards}`;

  constructor(
    layer: string,
    private readonly kinds: ViewKind[],
    private readonly choose: (key: ViewName) => void,
  ) {
    this.buttons = kinds.map(({ key, title }) =>
      h("button", { type: "button", role: "tab", id: this.tabId(key), "aria-controls": this.panelId(key), onclick: () => choose(key) }, title),
    );
    const list = h("div", { class: "ctabs", role: "tablist", "aria-label": `View of ${layer}` }, ...this.buttons);
    this.select = h("select", { class: "sel vsel", "aria-label": `View of ${layer}` }, ...kinds.map(({ key, title }) => h("option", { value: key }, title)));
    this.select.addEventListener("change", () => choose(this.select.value as ViewName));
    list.addEventListener("keydown", (event) => this.move(event));
    this.element = h("div", { class: "views", hidden: kinds.length < 2 }, list, this.select);
  }

  tabId(key: ViewName): string {
    return `${this.id}-tab-${key}`;
  }

  panelId(key: ViewName): string {
    return `${this.id}-panel-${key}`;
  }

  show(key: ViewName): void {
    const inside = this.buttons.some((button) => button === focusedNear(button));
    this.kinds.forEach((kind, i) => {
      const button = this.buttons[i];
      if (!button) return;
      const on = kind.key === key;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
      if (on && inside) button.focus();
    });
    this.select.value = key;
  }

  private move(event: KeyboardEvent): void {
    const last = this.buttons.length - 1;
    const at = this.buttons.findIndex((button) => button.tabIndex === 0);
    const next = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
    const kind = next === undefined ? undefined : this.kinds[next];
    if (!kind) return;
    this.choose(kind.key);
    event.preventDefault();
    event.stopPropagation();
  }
}
