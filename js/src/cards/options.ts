// What can be chosen for one card: which axes are channel and batch, which part of complex values is drawn,
// and whether attention weights are formed. The button is there only where there is something to choose.

import { Cleanup, h, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import { popover } from "../lib/popover";
import type { ActionName, AxesChoice, Card, Part } from "../lib/protocol";

interface OptionsHost {
  act(name: ActionName, args: Record<string, unknown>): void;
  choosePart(part: Part): void;
}

const PARTS: Part[] = ["magnitude", "real", "imaginary"];

export class CardOptions {
  readonly button: HTMLButtonElement;
  readonly panel: HTMLElement;
  private readonly cleanup = new Cleanup();
  private readonly channel = h("select", { class: "sel", "aria-label": "Channel axis" });
  private readonly batch = h("select", { class: "sel", "aria-label": "Batch axis" });
  private readonly axesRow = h("div", { class: "opt" }, h("span", {}, "channel axis"), this.channel, h("span", {}, "batch axis"), this.batch);
  private readonly axesNote = h("p", { class: "note" });
  private readonly part = h("select", { class: "sel", "aria-label": "Part of complex values" }, ...PARTS.map((part) => h("option", { value: part }, part)));
  private readonly partRow = h("div", { class: "opt" }, h("span", {}, "complex values"), this.part);
  private readonly attention = h("input", { type: "checkbox" });
  private readonly attentionRow = h("label", { class: "opt check" }, this.attention, "attention weights, one map a head");
  private readonly attentionNote = h("p", { class: "note" }, "Formed beside the forward from the same queries and keys, before dropout; from the next captured batch on, as one more output of this layer.");
  private output = "";
  private drawn = "";

  constructor(
    layer: string,
    private readonly host: OptionsHost,
  ) {
    const label = `Options of ${layer}`;
    this.button = h("button", { type: "button", class: "ib s", "aria-label": label, title: "Axes and other options", "aria-haspopup": "dialog", hidden: true }, icon("settings"));
    this.panel = h("div", { class: "panel options", role: "dialog", "aria-label": label }, this.axesRow, this.axesNote, this.partRow, this.attentionRow, this.attentionNote);
    const pop = popover(this.button, this.panel, this.cleanup);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      pop.close();
      event.preventDefault();
      event.stopPropagation();
    });
    for (const select of [this.channel, this.batch]) select.addEventListener("change", () => this.chooseAxes());
    this.part.addEventListener("change", () => host.choosePart(this.part.value as Part));
    this.attention.addEventListener("change", () => host.act(this.attention.checked ? "watch_attention" : "unwatch_attention", { layers: [layer] }));
  }

  /** `part`: which one of complex values is drawn, where it can be chosen. */
  update(card: Card, part: Part | undefined, alive: boolean, locked: string): void {
    const complex = part !== undefined && card.dtype.startsWith("complex");
    const { axes } = card;
    this.button.hidden = !axes && !complex && card.attention === "none";
    this.part.disabled = !alive;
    for (const control of [this.channel, this.batch, this.attention]) {
      control.disabled = !alive || locked !== "";
      control.title = locked;
    }
    this.partRow.hidden = !complex;
    if (part) this.part.value = part;
    this.attentionRow.hidden = this.attentionNote.hidden = card.attention === "none";
    this.attention.checked = card.attention === "on";
    this.axesRow.hidden = this.axesNote.hidden = !axes;
    if (axes) this.drawAxes(axes, card.shape);
  }

  destroy(): void {
    this.cleanup.run();
  }

  private drawAxes(axes: AxesChoice, shape: number[]): void {
    this.output = axes.output;
    const key = JSON.stringify([axes, shape]);
    if (key === this.drawn) return;
    this.drawn = key;
    setText(this.axesNote, axes.chosen ? "Chosen by you." : axes.known ? "Known from the layer's class, or from the layers around it." : "Nothing tells what the axes of this layer mean: these are presumed.");
    for (const [select, axis] of [[this.channel, axes.channel], [this.batch, axes.batch]] as const) {
      const entries: [string, string][] = [["auto", axes.chosen ? "as the class says" : `auto (${axis === null ? "none" : axis})`]];
      for (let i = 0; i < axes.ndim; i++) entries.push([String(i), shape[i] === undefined ? String(i) : `${i}: size ${shape[i]}`]);
      entries.push(["none", "none"]);
      select.replaceChildren(...entries.map(([value, text]) => h("option", { value }, text)));
      select.value = !axes.chosen ? "auto" : axis === null ? "none" : String(axis);
    }
  }

  private chooseAxes(): void {
    const axis = (value: string): number | string | null => (value === "auto" ? value : value === "none" ? null : Number(value));
    this.host.act("set_axes", { layer: this.output, channel: axis(this.channel.value), batch: axis(this.batch.value) });
  }
}
