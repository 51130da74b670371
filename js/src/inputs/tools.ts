// The Perturb tools: what the pointer paints with, changes of a whole sample, and undoing them.

import { focusedNear, h, isField, setText, submitOnEnter } from "../lib/dom";
import { icon, type IconName } from "../lib/icons";
import { knobNumber } from "../lib/knobs";
import type { InputsContent } from "../lib/protocol_inputs";
import { greyOf, hexOf, rgbOf, roughly, valuesOf, type Rgb } from "./levels";
import { SIZES } from "./stroke";
import { changesText } from "./words";

export type Tool = "brush" | "eraser" | "none";

interface Events {
  changed(): void;
  noise(amount: number): void;
  zero(channel: number | null): void;
  undo(): void;
  clear(): void;
  original(on: boolean): void;
}

const SWATCHES: [string, Rgb][] = [["Black", [0, 0, 0]], ["Grey", [128, 128, 128]], ["White", [255, 255, 255]]];
/** Channels that a list can hold; of more, a number is typed. */
const MOST_CHANNELS = 64;

export class Tools {
  tool: Tool = "brush";
  size = 1;
  colour: Rgb = [255, 255, 255];
  private readonly state = h("span", { class: "istate", role: "status" });
  private readonly brush = this.pick("brush", "Brush", "brush");
  private readonly eraser = this.pick("eraser", "Eraser", "eraser");
  private readonly sizes = h("select", { class: "sel", "aria-label": "Brush size", title: "Brush size in pixels" }, ...SIZES.map((size) => h("option", { value: size }, `${size} px`)));
  private readonly swatches = SWATCHES.map(([name, colour]) => h("button", { type: "button", class: "iswatch", "aria-label": name, style: `--c:${hexOf(colour)}`, onclick: () => this.paintWith(colour) }));
  private readonly picker = h("input", { type: "color", class: "ipick", "aria-label": "Colour of the brush", title: "Colour of the brush" });
  private readonly level = h("input", { type: "range", min: 0, max: 255, "aria-label": "Level of the brush" });
  private readonly levelText = h("span", { class: "num mut" });
  private readonly levelRow = h("label", { class: "ilevel" }, this.level, this.levelText);
  private readonly undo = this.button("undo", "Undo", () => this.events.undo());
  private readonly clear = this.button("trash", "Clear all changes", () => this.events.clear());
  private readonly amount = h("input", { class: "inp", type: "text", inputmode: "decimal", value: "0.1", "aria-label": "Standard deviation of the noise", title: "Standard deviation, in units of the input" });
  private readonly noise = h("form", { class: "iform" }, h("button", { type: "submit", class: "btn s", title: "Add Gaussian noise to the sample" }, "Add noise"), this.amount);
  private readonly channel = h("input", { class: "inp", type: "number", min: 0, value: 0, "aria-label": "Channel to set to zero" });
  private readonly channels = h("select", { class: "sel", "aria-label": "Channel to set to zero" });
  private readonly zero = h("form", { class: "iform" }, h("button", { type: "submit", class: "btn s", title: "Set a whole channel of the sample to zero" }, "Zero"), this.channels, this.channel);
  private readonly original = h("button", { type: "button", class: "btn s tog", "aria-pressed": "false", title: "Show the input without the changes" }, "Original");
  private readonly reason = h("p", { class: "inote", hidden: true });
  private readonly list = h("ol", { class: "ichanges", "aria-label": "Changes", tabindex: 0 });
  readonly element: HTMLElement;

  constructor(private readonly events: Events) {
    this.sizes.addEventListener("change", () => {
      this.size = Number(this.sizes.value);
      events.changed();
    });
    this.picker.addEventListener("input", () => this.paintWith(rgbOf(this.picker.value)));
    this.level.addEventListener("input", () => this.paintWith([Number(this.level.value), Number(this.level.value), Number(this.level.value)]));
    this.original.addEventListener("click", () => events.original(this.original.getAttribute("aria-pressed") !== "true"));
    for (const form of [this.noise, this.zero]) submitOnEnter(form);
    this.noise.addEventListener("submit", (event) => {
      event.preventDefault();
      const amount = knobNumber(this.amount.value);
      const bad = amount === null || amount < 0;
      this.amount.toggleAttribute("aria-invalid", bad);
      if (!bad) events.noise(amount);
    });
    this.zero.addEventListener("submit", (event) => {
      event.preventDefault();
      events.zero(this.channels.hidden && this.channel.hidden ? null : Number(this.channels.hidden ? this.channel.value : this.channels.value));
    });
    const bar = h(
      "div",
      { class: "itoolbar", role: "toolbar", "aria-label": "Perturb tools" },
      h("div", { class: "ish" }, h("h4", {}, "Perturb"), h("span", { class: "flex" }), this.state, this.undo, this.clear),
      h("div", { class: "itools" }, this.brush, this.eraser, this.sizes, ...this.swatches, this.picker, this.levelRow, this.noise, this.zero, this.original),
    );
    bar.addEventListener("keydown", (event) => this.key(event, bar));
    this.element = h("section", { class: "isec", "aria-label": "Perturb" }, bar, this.reason, this.list);
    this.mark();
  }

  /** `barred`: why nothing can be changed, else empty. */
  show(content: InputsContent, original: boolean, barred: string): void {
    const { picture, signal, kind, perturbations } = content;
    const off = barred !== "";
    const paints = picture !== null && picture.paint.length > 0;
    const colour = paints && picture.paint.length === 3;
    for (const part of [this.brush, this.eraser, this.sizes, ...this.swatches]) part.hidden = !paints;
    this.picker.hidden = !colour;
    this.levelRow.hidden = !paints || colour;
    this.noise.hidden = kind === "tokens" || kind === "other";
    const channels = picture?.channels ?? signal?.total ?? 0;
    this.zero.hidden = channels === 0;
    this.channels.hidden = channels < 2 || channels > MOST_CHANNELS;
    this.channel.hidden = channels <= MOST_CHANNELS;
    this.channel.max = String(channels - 1);
    if (this.channels.length !== channels && !this.channels.hidden) this.channels.replaceChildren(...Array.from({ length: channels }, (_, i) => h("option", { value: i }, `ch ${i}`)));
    // Nothing can be painted on what is shown without the changes.
    for (const part of [this.brush, this.eraser, this.sizes, this.picker, this.level, ...this.swatches]) (part as HTMLButtonElement).disabled = off || original;
    for (const form of [this.noise, this.zero]) for (const part of form.elements as HTMLCollectionOf<HTMLButtonElement>) part.disabled = off;
    const nothing = off || perturbations.length === 0;
    const focused = (this.undo.getRootNode() as Document | ShadowRoot).activeElement;
    this.undo.disabled = this.clear.disabled = nothing;
    // A disabled button would drop the focus to the page, and the dashboard's keys with it.
    if (nothing && (focused === this.undo || focused === this.clear)) {
      [this.brush, ...this.noise.querySelectorAll<HTMLElement>("button")].find((part) => part.offsetWidth > 0)?.focus({ preventScroll: true });
    }
    this.original.hidden = perturbations.length === 0 && !original;
    this.original.setAttribute("aria-pressed", String(original));
    this.reason.hidden = !off && !(original && paints);
    setText(this.reason, barred || "The input without the changes is shown: nothing can be painted on it.");
    setText(this.state, changesText(perturbations.length));
    this.list.hidden = perturbations.length === 0;
    const key = JSON.stringify(perturbations);
    if (this.list.dataset.key !== key) {
      this.list.dataset.key = key;
      this.list.replaceChildren(...perturbations.map(({ text }) => h("li", { title: text }, h("code", {}, text))));
      this.list.scrollTop = this.list.scrollHeight;
    }
    if (paints) setText(this.levelText, roughly(valuesOf([greyOf(this.colour)], picture.black.slice(0, 1), picture.white.slice(0, 1))[0] ?? 0));
    this.mark();
  }

  private button(name: IconName, label: string, run: () => void): HTMLButtonElement {
    return h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: run }, icon(name));
  }

  private pick(name: IconName, label: string, tool: Tool): HTMLButtonElement {
    const button = this.button(name, label, () => {
      this.tool = this.tool === tool ? "none" : tool;
      this.mark();
      this.events.changed();
    });
    button.classList.add("tog");
    return button;
  }

  private paintWith(colour: Rgb): void {
    this.colour = colour;
    if (this.tool !== "brush") this.tool = "brush";
    this.mark();
    this.events.changed();
  }

  private mark(): void {
    this.brush.setAttribute("aria-pressed", String(this.tool === "brush"));
    this.eraser.setAttribute("aria-pressed", String(this.tool === "eraser"));
    this.swatches.forEach((swatch, i) => swatch.setAttribute("aria-pressed", String(hexOf(SWATCHES[i]?.[1] ?? this.colour) === hexOf(this.colour))));
    this.picker.value = hexOf(this.colour);
    this.level.value = String(greyOf(this.colour));
  }

  private key(event: KeyboardEvent, bar: HTMLElement): void {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || isField(event.target)) return;
    const all = [...bar.querySelectorAll<HTMLElement>("button, select, input")].filter((part) => part.offsetWidth > 0 && !(part as HTMLButtonElement).disabled);
    const at = all.indexOf(focusedNear(bar) as HTMLElement);
    all[(at + by + all.length) % all.length]?.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
