// What can be done with a selected channel, or with one unit of it: changed in the forward, and asked what of the input
// it depends on. Where a unit lies in its layer follows from how the strip is laid out.

import type { Frame } from "../cards/view";
import { Cleanup, h, setText, submitOnEnter } from "../lib/dom";
import { icon } from "../lib/icons";
import { knobNumber } from "../lib/knobs";
import { menu, popover } from "../lib/popover";
import type { Strip } from "../lib/protocol";
import type { Spot } from "./readout";

export interface UnitPlace {
  channel: number;
  /** Along the axes that are neither batch nor channel; null: a unit has yet to be chosen. */
  index: number[] | null;
}

/** `unit` is the value that was clicked in the magnifier; null: none was. */
export function unitPlace({ layout, axes }: Strip, selected: number, unit: Spot | null, depth: number): UnitPlace | null {
  if (layout === "bar") return { channel: selected, index: [] };
  if (layout === "tiles") return { channel: selected, index: unit && [unit.row, unit.col] };
  // Of more axes than three, slices are folded ones.
  if (layout === "slices" && !/\bD H W\b/.test(axes)) return { channel: selected, index: null };
  if (layout === "slices") return { channel: selected, index: unit && [depth, unit.row, unit.col] };
  if (layout === "lines") return { channel: selected, index: unit && [unit.col] };
  // Tokens are one tile: what is a channel elsewhere is a column here.
  return layout === "tokens" && unit && /^B T /.test(axes) ? { channel: unit.col, index: [unit.row] } : null;
}

export class UnitMenu {
  private readonly cleanup = new Cleanup();
  private readonly name = h("span");
  private readonly button = h("button", { type: "button", class: "btn s", "aria-haspopup": "menu" }, this.name, icon("down", 12));
  private readonly value = h("input", { class: "inp", type: "text", inputmode: "decimal", value: "0", size: 5, "aria-label": "Value in place of the channel's" });
  private readonly field: HTMLButtonElement;
  private readonly items: HTMLButtonElement[];
  readonly element: HTMLElement;
  private place: UnitPlace | null = null;

  constructor(
    private readonly layer: string,
    private readonly frame: Frame,
  ) {
    const item = (text: string, run: () => void): HTMLButtonElement =>
      h("button", {
        type: "button",
        role: "menuitem",
        onclick: () => {
          pop.close();
          run();
        },
      }, text);
    this.field = item("Receptive field", () => this.measure());
    this.items = [item("Silence channel", () => this.ablate({ value: 0 })), item("Scale by 0.5", () => this.ablate({ scale: 0.5 })), item("Scale by 2", () => this.ablate({ scale: 2 }))];
    const replace = h("form", { class: "replace" }, h("span", {}, "Replace by"), this.value, h("button", { type: "submit", class: "btn s" }, "Set"));
    submitOnEnter(replace);
    const panel = menu(`Channel of ${layer}`, [...this.items, replace, "rule", this.field]);
    const pop = popover(this.button, panel, this.cleanup);
    replace.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = knobNumber(this.value.value);
      this.value.toggleAttribute("aria-invalid", value === null);
      if (value === null) return;
      pop.close();
      this.ablate({ value });
    });
    panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      pop.close();
      event.preventDefault();
      event.stopPropagation();
    });
    this.element = h("span", { class: "unit", hidden: true }, this.button, panel);
  }

  /** `place`: null where there is nothing to choose from. */
  show(place: UnitPlace | null): void {
    this.place = place;
    this.element.hidden = place === null;
    if (!place) return;
    const barred = this.frame.locked() || (this.frame.alive() ? "" : "There is no kernel to ask.");
    setText(this.name, `ch ${place.channel}`);
    this.button.setAttribute("aria-label", `Channel ${place.channel} of ${this.layer}`);
    this.button.disabled = barred !== "";
    this.button.title = barred || "Change this channel in the forward, or measure a unit's receptive field";
    this.field.disabled = place.index === null;
    const at = place.index?.length ? ` of (${place.index.join(", ")})` : "";
    setText(this.field, place.index ? `Receptive field${at}` : "Receptive field: click a value first");
  }

  destroy(): void {
    this.cleanup.run();
  }

  private ablate(change: Record<string, number>): void {
    if (this.place) void this.frame.act("ablate", { layer: this.layer, channel: this.place.channel, ...change });
  }

  private measure(): void {
    const { place } = this;
    if (place?.index) void this.frame.act("measure_receptive_field", { layer: this.layer, channel: place.channel, index: place.index, sample: this.frame.display.sample });
  }
}
