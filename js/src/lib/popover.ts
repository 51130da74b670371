// A panel that opens under a button: it closes on Escape, on a second press, and when the pointer goes down
// elsewhere. It is not modal, and only one is open at a time in a widget. With `opens` false something else
// opens it, and the button only takes the focus back.

import { focusedNear, h, type Cleanup } from "./dom";

export interface Popover {
  panel: HTMLElement;
  toggle(): void;
  open(): void;
  close(focusBack?: boolean): void;
}

export function popover(button: HTMLElement, panel: HTMLElement, cleanup: Cleanup, opens = true): Popover {
  panel.dataset.popover = "";
  panel.hidden = true;
  button.setAttribute("aria-expanded", "false");
  const close = (focusBack = true): void => {
    if (panel.hidden) return;
    panel.hidden = true;
    button.setAttribute("aria-expanded", "false");
    if (focusBack) button.focus({ preventScroll: true });
  };
  const open = (): void => {
    for (const other of panel.closest(".app")?.querySelectorAll("[data-popover]:not([hidden])") ?? []) other.dispatchEvent(new CustomEvent("dismiss"));
    panel.hidden = false;
    button.setAttribute("aria-expanded", "true");
    panel.querySelector<HTMLElement>("[role=menuitem], select, input, button")?.focus({ preventScroll: true });
  };
  panel.addEventListener("dismiss", () => close());
  const toggle = (): void => (panel.hidden ? open() : close());
  if (opens) button.addEventListener("click", toggle);
  panel.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && !panel.contains(relatedTarget) && relatedTarget !== button) close(false);
  });
  cleanup.listen(document, "pointerdown", (event: PointerEvent) => {
    const path = event.composedPath();
    if (!path.includes(panel) && !path.includes(button)) close(false);
  });
  return { panel, toggle, open, close };
}

/** A menu: arrow keys move, Escape closes. */
export function menu(label: string, items: (HTMLElement | "rule")[]): HTMLElement {
  const element = h("div", { class: "panel menu", role: "menu", "aria-label": label }, ...items.map((item) => (item === "rule" ? h("hr") : item)));
  element.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const buttons = [...element.querySelectorAll<HTMLButtonElement>("[role=menuitem]:not(:disabled)")];
    const at = buttons.indexOf(focusedNear(element) as HTMLButtonElement);
    buttons[(at + step + buttons.length) % buttons.length]?.focus();
    event.preventDefault();
  });
  return element;
}
