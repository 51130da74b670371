// The form of `Go back…`: which epoch is to begin again, and what that means.

import { h, setOptions, setText, submitOnEnter } from "../lib/dom";
import type { State } from "../lib/protocol";

export function backPanel(send: (args: { epoch: number }) => void, close: () => void): { panel: HTMLElement; update(state: State): void } {
  const epoch = h("select", { class: "sel", "aria-label": "Epoch" });
  const note = h("p", { class: "note" });
  const go = h("button", { type: "submit", class: "btn s primary" }, "Go back");
  const form = h(
    "form",
    { class: "panel until", role: "dialog", "aria-label": "Go back" },
    h("header", {}, h("h3", {}, "Go back to the beginning of")),
    h("div", { class: "form" }, h("span", {}, "epoch"), epoch, h("div", { class: "row" }, h("button", { type: "button", class: "btn s", onclick: close }, "Close"), go)),
    note,
  );
  submitOnEnter(form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (go.disabled) return;
    send({ epoch: Number(epoch.value) });
    close();
  });
  return {
    panel: form,
    update({ travel, position }) {
      const here = position?.epoch ?? Infinity;
      // The last one before this epoch, unless the user has chosen another meanwhile.
      const before = travel.epochs.filter((at) => at < here).at(-1) ?? travel.epochs.at(-1);
      const kept = travel.epochs.includes(Number(epoch.value)) && !form.hidden ? epoch.value : String(before ?? "");
      setOptions(epoch, travel.epochs.map((at) => [String(at), at > here ? `${at + 1}, of the run that was left` : String(at + 1)]), kept);
      go.disabled = !travel.available;
      epoch.disabled = !travel.available;
      setText(note, travel.available ? `The epoch comes again from its kept state. Statistics and curves of it and of later epochs are dropped. ${travel.kept}` : `Not now: ${travel.reason}.`);
    },
  };
}
