// The bar over the cards: which sample, and how its values are shown.

import { Choice } from "../lib/choice";
import { focusedNear, h, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import type { Shows, Transform } from "../lib/protocol";
import type { Display, DisplayValues } from "./view";

const TRANSFORMS: [Transform, string, string][] = [
  ["none", "Unchanged", "Values as they are"],
  ["abs", "Abs", "Magnitudes"],
  ["square", "Square", "Squared values"],
];

/** What lists of cards share: a sample that is chosen in one is shown in all. */
export class SharedDisplay implements Display {
  sample = 0;
  average = false;
  transform: Transform = "none";
  shows: Shows = "difference";
  private handlers: (() => void)[] = [];

  onChange(handler: () => void): void {
    this.handlers.push(handler);
  }

  set(change: Partial<DisplayValues>): void {
    Object.assign(this, change);
    for (const changed of this.handlers) changed();
  }
}

export class DisplayBar {
  readonly element: HTMLElement;
  private readonly sample = h("input", { class: "inp", type: "number", min: 0, step: 1, value: 0, "aria-label": "Sample in the batch", title: "Sample in the batch, counted from 0" });
  private readonly of = h("span", { class: "mut num" });
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly average = h("button", { type: "button", class: "btn s tog", "aria-pressed": "false", title: "One tile: the mean over the channels" }, "Average");
  private readonly transforms: Choice<Transform>;
  private samples = 0;
  private alive = true;

  constructor(private readonly display: Display) {
    const step = (name: "left" | "right", label: string, by: number): HTMLButtonElement =>
      h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: () => this.choose(Math.min(display.sample, Math.max(0, this.samples - 1)) + by) }, icon(name));
    this.previous = step("left", "Previous sample", -1);
    this.next = step("right", "Next sample", 1);
    this.sample.addEventListener("change", () => this.choose(this.sample.valueAsNumber));
    // Not every browser and host fires `change` for Enter.
    this.sample.addEventListener("keydown", (event) => void (event.key === "Enter" && this.choose(this.sample.valueAsNumber)));
    this.average.addEventListener("click", () => {
      display.set({ average: !display.average });
      this.average.setAttribute("aria-pressed", String(display.average));
    });
    this.transforms = new Choice("Values", TRANSFORMS, display.transform, (transform) => display.set({ transform }));
    this.element = h(
      "div",
      { class: "ph display" },
      h("h2", {}, "Layers"),
      h("span", { class: "flex" }),
      h("span", { class: "sample" }, h("span", { class: "mut" }, "sample"), this.previous, this.sample, this.next, this.of),
      this.transforms.element,
      this.average,
    );
    this.setSamples(0);
  }

  /** Nothing can be asked for when nobody is there to answer. */
  setAlive(alive: boolean): void {
    this.alive = alive;
    this.average.disabled = !alive;
    this.transforms.enable(alive);
    this.setSamples(this.samples);
  }

  setSamples(samples: number): void {
    this.samples = samples;
    this.sample.max = String(Math.max(0, samples - 1));
    this.sample.disabled = samples === 0 || !this.alive;
    // Another pane may know more samples than are kept of these layers.
    const sample = samples ? Math.min(this.display.sample, samples - 1) : this.display.sample;
    this.previous.disabled = sample <= 0 || !this.alive;
    this.next.disabled = sample >= samples - 1 || !this.alive;
    setText(this.of, samples ? `of ${samples}` : "");
    if (focusedNear(this.sample) !== this.sample) this.sample.value = String(sample);
  }

  /** Shows the nearest sample that there is; false if it is another one. */
  choose(sample: number): boolean {
    const next = Math.max(0, Math.min(this.samples - 1, Math.floor(sample)));
    if (!Number.isFinite(next)) return false;
    this.sample.value = String(next);
    this.display.set({ sample: next });
    this.setSamples(this.samples);
    return next === sample;
  }
}
