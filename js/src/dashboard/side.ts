// The pane at the right: a button folds it away, and a bar beside it sets its width.

import { h } from "../lib/dom";
import { icon } from "../lib/icons";

const LEAST = 180;
const MOST = 640;
const USUAL = 221;
const STEP = 28;

export interface Side {
  /** Stands in the row of tabs, so that a folded pane can be had back. */
  fold: HTMLButtonElement;
  /** Lies at the pane's edge. */
  edge: HTMLElement;
}

export function sidePane(body: HTMLElement, name: string): Side {
  const fold = h("button", { type: "button", class: "ib s tog fold", "aria-label": `${name} pane` }, icon("side"));
  const set = (folded: boolean): void => {
    body.classList.toggle("folded", folded);
    fold.setAttribute("aria-pressed", String(!folded));
    fold.title = `${folded ? "Show" : "Fold away"} the ${name.toLowerCase()} pane`;
  };
  fold.addEventListener("click", () => set(!body.classList.contains("folded")));
  set(false);

  let width = USUAL;
  const edge = h("div", { class: "edge", role: "separator", "aria-orientation": "vertical", "aria-label": `Width of the ${name.toLowerCase()} pane`, "aria-valuemin": LEAST, "aria-valuemax": MOST, tabindex: 0, title: "Drag to set the width" });
  const resize = (to: number): void => {
    width = Math.round(Math.max(LEAST, Math.min(MOST, body.clientWidth * 0.6 || MOST, to)));
    body.style.setProperty("--side-w", `${width}px`);
    edge.setAttribute("aria-valuenow", String(width));
  };
  edge.setAttribute("aria-valuenow", String(width));
  edge.addEventListener("pointerdown", (event) => {
    const start = event.clientX + width;
    edge.setPointerCapture(event.pointerId);
    const move = (to: PointerEvent): void => resize(start - to.clientX);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true });
    event.preventDefault();
  });
  edge.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (!by) return;
    resize(width + by);
    event.preventDefault();
    event.stopPropagation();
  });
  return { fold, edge };
}
