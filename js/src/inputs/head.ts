// The head of the pane: which inputs of which batch are shown, and pinning that batch.

import { h, setOptions, setText } from "../lib/dom";
import { formatShape } from "../lib/format";
import { icon } from "../lib/icons";
import type { InputsContent } from "../lib/protocol_inputs";
import { sampleText } from "./words";

export class Head {
  private readonly sample = h("span", { class: "mut num" });
  private readonly pin: HTMLButtonElement;
  private readonly of = h("span", { class: "mut iof" });
  private readonly label = h("span", { class: "ilabel" });
  private readonly input = h("select", { class: "sel", "aria-label": "Input" });
  private readonly progress = h("div", { class: "iprogress", role: "progressbar", "aria-label": "The probe is computing", hidden: true });
  readonly element: HTMLElement;
  private content: InputsContent | null = null;

  constructor(events: { pin(on: boolean): void; input(name: string): void }) {
    this.pin = h("button", { type: "button", class: "btn s tog", "aria-pressed": "false", onclick: () => events.pin(!this.content?.pinned) }, icon("pin", 14), "Pin");
    this.input.addEventListener("change", () => events.input(this.input.value));
    this.element = h("header", { class: "ihead" }, h("div", { class: "ihrow" }, h("h2", {}, "Input"), this.sample, h("span", { class: "flex" }), this.pin), h("div", { class: "ihrow second" }, this.input, this.of, this.label), this.progress);
  }

  show(content: InputsContent, alive: boolean, barred: string): void {
    this.content = content;
    setText(this.sample, sampleText(content));
    const { pinned, probe, inputs } = content;
    this.pin.setAttribute("aria-pressed", String(pinned !== null));
    const why = barred || (pinned ? "" : probe.can_pin);
    this.pin.disabled = why !== "";
    this.pin.title = why || (pinned ? "Unpin the batch: show the one that was captured last again" : "Pin this batch: it is run again at each update, with the weights of then");
    setText(this.of, content.of);
    this.of.title = content.of;
    setText(this.label, content.label && `label ${content.label}`);
    this.input.hidden = inputs.length < 2;
    this.input.disabled = !alive;
    setOptions(this.input, inputs.map(({ name, shape }) => [name, `${name} ${formatShape(shape)}`]), content.input);
    this.input.title = inputs.find(({ name }) => name === content.input)?.dtype ?? "";
    this.progress.hidden = !probe.computing;
  }
}
