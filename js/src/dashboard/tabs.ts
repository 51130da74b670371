// Tabs over the panes: of those that share the centre, and of all where the frame is too narrow to hold any side by
// side. The graph joins the centre before that (the style sheet decides when).

import { h } from "../lib/dom";

export interface Pane {
  key: string;
  title: string;
  element: HTMLElement;
  /** Where it lies in a wide frame: `centre` ones always share their place, a `left` one in a frame of middle width. */
  place: "left" | "centre" | "right";
}

export interface PaneTabs {
  /** Of all panes. */
  element: HTMLElement;
  /** Of those in the centre, in a wide frame and in one of middle width. */
  centre: HTMLElement[];
  show(key: string): void;
}

/** Which class a pane has that is shown among its neighbours in a narrow, a middle and a wide frame. */
const SHOWN = ["chosen", "middle", "central"] as const;

export function paneTabs(panes: Pane[], body: HTMLElement, first: string): PaneTabs {
  const groups = [panes, panes.filter(({ place }) => place !== "right"), panes.filter(({ place }) => place === "centre")];
  const lists = groups.map((group, i) => tabList(group, ["Panes", "Graph and centre", "Centre"][i] ?? "", ["ptabs", "ptabs wide mid", "ptabs wide"][i] ?? "", (key) => show(key)));
  const show = (key: string): void => {
    body.dataset.pane = key;
    groups.forEach((group, i) => {
      if (!group.some((pane) => pane.key === key)) return;
      for (const { element, key: known } of group) element.classList.toggle(SHOWN[i] ?? "", known === key);
      lists[i]?.mark(key);
    });
  };
  show(first);
  const [all, ...centre] = lists.map(({ element }) => element);
  return { element: all as HTMLElement, centre, show };
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
