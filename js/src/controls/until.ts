// The form of `Run until…`: epoch and batch are counted from 1 as in the position label, and sent from 0.

import { h, submitOnEnter } from "../lib/dom";
import type { State } from "../lib/protocol";
import { nextPosition } from "./labels";

export function untilPanel(
  send: (args: { phase: string; epoch: number; batch_idx: number }) => void,
  close: () => void,
): { panel: HTMLElement; update(state: State): void } {
  const phase = h("select", { class: "sel", id: "" });
  const epoch = h("input", { class: "inp", type: "number", min: 1, step: 1, required: true });
  const batch = h("input", { class: "inp", type: "number", min: 1, step: 1, required: true });
  const hint = h("span", { class: "hint" });
  const form = h(
    "form",
    { class: "panel until", role: "dialog", "aria-label": "Run until" },
    h("header", {}, h("h3", {}, "Run until")),
    h(
      "div",
      { class: "form" },
      ...labelled("phase", phase),
      ...labelled("epoch", epoch),
      ...labelled("batch", batch, hint),
      h("div", { class: "row" }, h("button", { type: "button", class: "btn s", onclick: close }, "Close"), h("button", { type: "submit", class: "btn s primary" }, "Run")),
    ),
  );
  let state: State | undefined;
  const limits = (): void => {
    const batches = state?.phases[phase.value] ?? null;
    if (batches === null) batch.removeAttribute("max");
    else batch.max = String(batches);
    hint.textContent = batches === null ? "" : ` of ${batches}`;
    const epochs = state?.position?.epochs ?? null;
    if (epochs === null) epoch.removeAttribute("max");
    else epoch.max = String(epochs);
  };
  phase.addEventListener("change", limits);
  submitOnEnter(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ phase: phase.value, epoch: epoch.valueAsNumber - 1, batch_idx: batch.valueAsNumber - 1 });
    close();
  });
  return {
    panel: form,
    update(next) {
      state = next;
      // What the user is filling in stays as it is.
      if (!form.hidden) return;
      const names = Object.keys(next.phases);
      const here = next.position?.phase;
      if (here && !names.includes(here)) names.unshift(here);
      phase.replaceChildren(...names.map((name) => h("option", { selected: name === here }, name)));
      const start = nextPosition(next.position);
      epoch.value = String(start.epoch);
      batch.value = String(start.batch);
      limits();
    },
  };
}

/** A field with its name before it. */
function labelled(name: string, field: HTMLElement, ...after: HTMLElement[]): HTMLElement[] {
  field.setAttribute("aria-label", name);
  return [h("span", { "aria-hidden": "true" }, name), h("span", {}, field, ...after)];
}
