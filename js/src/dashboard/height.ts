// The bar under the panes that sets their height.

import { h } from "../lib/dom";

const LEAST = 240;
const MOST = 2000;
const STEP = 32;

export function heightHandle(body: HTMLElement): HTMLElement {
  const handle = h("div", { class: "height", role: "separator", "aria-orientation": "horizontal", "aria-label": "Height of the panes", "aria-valuemin": LEAST, "aria-valuemax": MOST, tabindex: 0, title: "Drag to set the height" });
  const set = (height: number): void => {
    const next = Math.round(Math.max(LEAST, Math.min(MOST, height)));
    body.style.setProperty("--body-h", `${next}px`);
    handle.setAttribute("aria-valuenow", String(next));
  };
  handle.addEventListener("pointerdown", (event) => {
    const start = event.clientY - body.offsetHeight;
    handle.setPointerCapture(event.pointerId);
    const move = (to: PointerEvent): void => set(to.clientY - start);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("lostpointercapture", () => handle.removeEventListener("pointermove", move), { once: true });
    event.preventDefault();
  });
  handle.addEventListener("keydown", (event) => {
    const by = { ArrowDown: STEP, ArrowUp: -STEP }[event.key];
    if (!by) return;
    set(body.offsetHeight + by);
    event.preventDefault();
    event.stopPropagation();
  });
  return handle;
}
