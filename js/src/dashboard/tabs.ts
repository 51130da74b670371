// Tabs over the panes: of the two that share the centre where the frame is wide, of all where it is too narrow to hold
// any side by side (the style sheet decides when).

import { h } from "../lib/dom";

export interface Pane {
  key: string;
  title: string;
  element: HTMLElement;
}

export interface PaneTabs {
  /** Of all panes. */
  element: HTMLElement;
  /** Of those in the centre, which are all but the first. */
  centre: HTMLElement;
  show(key: string): void;
}

export function paneTabs(panes: Pane[], body: HTMLElement, first: string): PaneTabs {
  const lists = [tabList(panes, "Panes", "ptabs", (key) => show(key)), tabList(panes.slice(1), "Centre", "ptabs wide", (key) => show(key))] as const;
  const show = (key: string): void => {
    body.dataset.pane = key;
    if (key !== panes[0]?.key) body.dataset.centre = key;
    for (const pane of panes) {
      pane.element.classList.toggle("chosen", pane.key === key);
      pane.element.classList.toggle("central", pane.key === body.dataset.centre);
    }
    lists[0].mark(key);
    lists[1].mark(body.dataset.centre ?? first);
  };
  show(first);
  return { element: lists[0].element, centre: lists[1].element, show };
}

function tabList(panes: Pane[], label: string, cls: string, show: (key: string) => void): { element: HTMLElement; mark(key: string): void } {
  let current = "";
  const buttons = panes.map(({ key, title }) => h("button", { type: "button", role: "tab", onclick: () => show(key) }, title));
  const element = h("div", { class: cls, role: "tablist", "aria-label": label }, ...buttons);
  element.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = (panes.findIndex(({ key }) => key === current) + by + panes.length) % panes.length;
    show(panes[next]?.key ?? current);
    buttons[next]?.focus();
    event.preventDefault();
  });
  const mark = (key: string): void => {
    current = key;
    panes.forEach((pane, i) => {
      const on = pane.key === key;
      buttons[i]?.setAttribute("aria-selected", String(on));
      if (buttons[i]) buttons[i].tabIndex = on ? 0 : -1;
    });
  };
  return { element, mark };
}
