// Settings: how often the tensors on screen follow while training runs, and what the statistics collect.

import { h, submitOnEnter } from "../lib/dom";
import type { State, StatsScope, UpdateFrequency } from "../lib/protocol";
import type { Root } from "../lib/root";

const SCOPES: [StatsScope, string][] = [
  ["watched", "of the watched layers"],
  ["all", "of every layer"],
  ["none", "of none"],
];

export function settingsPanel(
  root: Root,
  send: (args: { unit: UpdateFrequency["unit"]; n: number; phase: string | null }) => void,
  collect: (scope: StatsScope) => void,
): { panel: HTMLElement; update(state: State): void } {
  const count = h("input", { class: "inp", type: "number", min: 1, step: 1, required: true, "aria-label": "Update every how many" });
  const unit = h("select", { class: "sel", "aria-label": "Unit of the update frequency" }, h("option", { value: "batch" }, "batches"), h("option", { value: "epoch" }, "epochs"));
  const phase = h("select", { class: "sel", "aria-label": "Phase of the update frequency" });
  const scopes = SCOPES.map(([scope, text]) => {
    const radio = h("input", { type: "radio", name: "stats-scope", value: scope, onchange: () => collect(scope) });
    return { radio, row: h("label", { class: "pick" }, radio, text) };
  });
  let collected: StatsScope | null = null;
  const panel = h(
    "form",
    { class: "panel settings", role: "dialog", "aria-label": "Settings" },
    h("header", {}, h("h3", {}, "Update while running")),
    h("div", { class: "line-form" }, "every", count, unit, "of", phase, h("button", { type: "submit", class: "btn s" }, "Apply")),
    h("p", { class: "note" }, "How often the layers on screen follow while training runs. A pause always shows its batch."),
    h("div", { role: "radiogroup", "aria-label": "Statistics of every batch" }, h("h3", { class: "next" }, "Statistics of every batch"), ...scopes.map(({ row }) => row)),
    h("p", { class: "note" }, "Takes effect at once, with the next batch. What was collected stays, and so do the cards."),
    h("p", { class: "note" }, h("button", { type: "button", class: "btn s", onclick: () => root.commands.run("keys") }, "Keys ", h("kbd", {}, "?"))),
  );
  // An epoch has one first batch, whatever its phase.
  const limit = (): void => {
    phase.disabled = unit.value === "epoch";
    if (phase.disabled) phase.value = "";
  };
  unit.addEventListener("change", limit);
  submitOnEnter(panel);
  panel.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ unit: unit.value as UpdateFrequency["unit"], n: count.valueAsNumber, phase: phase.value || null });
    panel.dispatchEvent(new CustomEvent("dismiss"));
  });
  return {
    panel,
    update(state) {
      // Until the kernel has answered, what was clicked stays clicked.
      if (state.stats_scope !== collected) for (const { radio } of scopes) radio.checked = radio.value === state.stats_scope;
      collected = state.stats_scope;
      if (!panel.hidden) return;
      const { unit: current, n, phase: of } = state.update_frequency;
      count.value = String(n);
      unit.value = current;
      phase.replaceChildren(h("option", { value: "" }, "any phase"), ...Object.keys(state.phases).map((name) => h("option", { value: name, selected: name === of }, name)));
      limit();
    },
  };
}
