// Tabs over the panes, for frames too narrow to hold them side by side (the style sheet decides when).

import { h } from "../lib/dom";

export interface Pane {
  key: string;
  title: string;
  element: HTMLElement;
}

export function paneTabs(panes: Pane[], body: HTMLElement, first: string): { element: HTMLElement; show(key: string): void } {
  const buttons = panes.map(({ key, title }) => h("button", { type: "button", role: "tab", onclick: () => show(key) }, title));
  const element = h("div", { class: "ptabs", role: "tablist", "aria-label": "Panes" }, ...buttons);
  const show = (key: string): void => {
    body.dataset.pane = key;
    panes.forEach((pane, i) => {
      const on = pane.key === key;
      pane.element.classList.toggle("chosen", on);
      buttons[i]?.setAttribute("aria-selected", String(on));
      if (buttons[i]) buttons[i].tabIndex = on ? 0 : -1;
    });
  };
  element.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const at = panes.findIndex(({ key }) => key === body.dataset.pane);
    const next = (at + by + panes.length) % panes.length;
    show(panes[next]?.key ?? first);
    buttons[next]?.focus();
    event.preventDefault();
  });
  show(first);
  return { element, show };
}
