// The card of one layer: head, both strips, and everything the pointer and the keyboard do in them.

import { copyText, h, setText } from "../lib/dom";
import { formatShape } from "../lib/format";
import { icon } from "../lib/icons";
import type { ActionName, Card, CardWant, Kind, Part, Strip, Transform } from "../lib/protocol";
import type { ExactStore } from "./exact";
import { CardOptions } from "./options";
import type { Ink, Look } from "./paint";
import { pagingOf, wantedChannels, type Showing } from "./paging";
import { pixelsFor, rangeText } from "./plan";
import { blockMean, type Reading, type Spot } from "./readout";
import { Section } from "./section";

export interface Display {
  sample: number;
  average: boolean;
  transform: Transform;
}

/** What a card needs from the view it lies in. */
export interface CardHost {
  display: Display;
  look(unsigned: boolean): Look;
  ink(): Ink;
  exact: ExactStore;
  alive(): boolean;
  wantSoon(): void;
  close: ((layer: string) => void) | null;
  act(name: ActionName, args: Record<string, unknown>): void;
}

const KINDS: Kind[] = ["activations", "gradients"];
/** A tile is fetched when the pointer stays, not when it only passes. */
const DWELL = 50;

export class LayerCard {
  readonly element: HTMLElement;
  visible = false;
  private call = 1;
  private leaf = 0;
  private depth = 0;
  private part: Part = "magnitude";
  private awaitsMaps = false;
  private scrollTop = 0;
  private selected: number | null = null;
  private cursor: { spot: Spot; kind: Kind; fine: boolean } | null = null;
  private settled: number | null = null;
  private dwell: ReturnType<typeof setTimeout> | undefined;
  private data: Card | null = null;
  private buffers: Uint8Array[] = [];
  private text = "";
  private width = 0;
  private readonly subtitle = h("span", { class: "cls" });
  private readonly calls = h("select", { class: "sel", hidden: true });
  private readonly leaves = h("select", { class: "sel", hidden: true });
  private readonly note = h("div", { class: "cnote", hidden: true });
  private readonly range = h("span", { class: "num" });
  private readonly options: CardOptions;
  private readonly close: HTMLButtonElement | null;
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly slice = h("input", { type: "range", min: 0, value: 0 });
  private readonly sliceText = h("span", { class: "num" });
  private readonly about = h("span", { class: "mono" });
  private readonly sliceRow: HTMLElement;
  private readonly tools: HTMLElement;
  private readonly dock = h("div", { class: "dock" });
  private readonly sections: Section[];

  constructor(
    readonly layer: string,
    private readonly host: CardHost,
  ) {
    this.calls.setAttribute("aria-label", `Call of ${layer}`);
    this.leaves.setAttribute("aria-label", `Output of ${layer}`);
    this.slice.setAttribute("aria-label", `Slice of ${layer}`);
    const pager = (name: "left" | "right", label: string, by: number): HTMLButtonElement =>
      h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: () => this.page(by) }, icon(name));
    this.previous = pager("left", "Previous channels", -1);
    this.next = pager("right", "Next channels", 1);
    this.sliceRow = h("label", { class: "slice", hidden: true }, "slice", this.slice, this.sliceText);
    this.tools = h("div", { class: "ct" }, this.about, this.sliceRow, h("div", { class: "rng" }, this.range, this.previous, this.next));
    this.sections = KINDS.map(
      (kind) =>
        new Section(kind, {
          hover: (spot) => this.point(spot, kind, false),
          hoverFine: (spot) => this.point(spot, kind, true),
          select: (channel) => this.select(channel),
          scrolled: (top) => this.scroll(top),
        }),
    );
    this.close = this.host.close && h("button", { type: "button", class: "ib s", "aria-label": `Close ${layer}`, title: "Close (unwatch)", onclick: () => this.host.close?.(layer) }, icon("close"));
    this.options = new CardOptions(layer, { act: (name, args) => this.act(name, args), choosePart: (part) => this.change(() => (this.part = part)) });
    this.element = h(
      "section",
      { class: "card", role: "region", "aria-label": `layer ${layer}`, tabindex: -1 },
      h("header", { class: "ch" }, h("h3", {}, layer), this.subtitle, h("span", { class: "flex" }), this.leaves, this.calls, this.options.button, this.close),
      this.options.panel,
      this.tools,
      h("div", { class: "cb" }, this.note, this.dock, ...this.sections.map(({ element }) => element)),
    );
    this.calls.addEventListener("change", () => this.change(() => (this.call = Number(this.calls.value))));
    this.leaves.addEventListener("change", () => this.change(() => (this.leaf = Number(this.leaves.value))));
    this.slice.addEventListener("input", () => this.change(() => (this.depth = Number(this.slice.value))));
    this.drawSections();
    this.drawTools();
  }

  /** The tensors of this card, and the buffers that its strips point into. */
  receive(card: Card, buffers: Uint8Array[]): void {
    this.data = card;
    this.buffers = buffers;
    if (card.calls > 0) this.call = Math.min(this.call, card.calls);
    this.leaf = Math.max(0, Math.min(this.leaf, card.leaves.length - 1));
    // Who has asked for attention weights wants to see them when they come.
    const maps = card.leaves.findIndex((name) => name.endsWith(".attention_weights"));
    if (this.awaitsMaps && maps >= 0) {
      this.awaitsMaps = false;
      if (maps !== this.leaf) this.change(() => (this.leaf = maps));
    }
  }

  want(): CardWant {
    const { sample, average, transform } = this.host.display;
    const strip = this.strip;
    const samples = strip?.samples ?? 0;
    return {
      layer: this.layer,
      call: this.call,
      leaf: this.leaf,
      sample: samples ? Math.min(sample, samples - 1) : sample,
      average,
      transform,
      part: this.part,
      ...wantedChannels(this.showing),
      px: pixelsFor(strip?.layout, this.width || 480, devicePixelRatio),
      depth: this.depth,
    };
  }

  /** Samples to choose from, as far as this card knows. */
  get samples(): number {
    return this.strip?.samples ?? 0;
  }

  draw(): void {
    this.measure();
    this.drawHead();
    for (const control of [this.calls, this.leaves, this.slice, this.close]) if (control) control.disabled = !this.host.alive();
    this.drawSections();
    for (const section of this.sections) section.scrollTo(this.scrollTop);
    this.element.classList.toggle("magnified", this.selected !== null);
    this.drawTools();
    this.drawReading();
  }

  private drawSections(): void {
    const received = new Map(this.data?.strips.map((strip) => [strip.kind, strip]));
    const reasons = KINDS.map((kind) => received.get(kind)?.missing ?? (this.data ? "not captured" : "Waiting for the kernel\u2026"));
    // One sentence that holds for both tensors is said once.
    const [first, second] = this.sections;
    const both = reasons[0] !== "" && reasons[0] === reasons[1];
    if (second) second.element.hidden = both;
    if (both) return first?.wait(reasons[0] ?? "", "Activations and gradients");
    this.sections.forEach((section, i) => {
      const strip = received.get(section.kind);
      if (!strip || reasons[i]) section.wait(reasons[i] ?? "");
      else this.drawSection(section, strip);
    });
  }

  private drawSection(section: Section, strip: Strip): void {
    const { display } = this.host;
    // The mean is one tile, whichever channel was magnified before.
    const selected = this.selected !== null && display.average ? 0 : this.selected;
    const exact = selected !== null && this.host.alive() && strip.layout !== "bar" && strip.layout !== "scalar" && strip.layout !== "ids" ? this.exactTile(strip, selected).all() : null;
    const codes = this.buffers[strip.buffer] ?? new Uint8Array(0);
    const look = this.host.look(strip.unsigned);
    section.show({ strip, codes, average: display.average, look, ink: this.host.ink(), ratio: devicePixelRatio, selected, exact }, this.width);
  }

  /** The card got another width: true if more or fewer tiles fit now. */
  measure(): boolean {
    // A hidden section has no width.
    const width = Math.min(...this.sections.map((section) => section.width || Infinity));
    if (!Number.isFinite(width) || width === this.width) return false;
    this.width = width;
    return true;
  }

  async copy(): Promise<boolean> {
    return this.text !== "" && copyText(this.text, this.element);
  }

  private act(name: ActionName, args: Record<string, unknown>): void {
    this.awaitsMaps = name === "watch_attention";
    this.host.act(name, args);
  }

  destroy(): void {
    this.options.destroy();
  }

  get pointedAt(): boolean {
    return this.cursor !== null;
  }

  /** True if something was open that Escape closes. */
  closeMagnifier(): boolean {
    if (this.selected === null) return false;
    this.select(this.selected);
    return true;
  }

  private get strip(): Strip | undefined {
    return this.data?.strips.find(({ missing }) => !missing);
  }

  private get showing(): Showing {
    return { strip: this.strip, average: this.host.display.average, width: this.width, ratio: devicePixelRatio, scrollTop: this.scrollTop };
  }

  private change(set: () => void): void {
    set();
    this.drawTools();
    this.host.wantSoon();
  }

  private scroll(top: number): void {
    if (Math.abs(top - this.scrollTop) < 0.5) return;
    this.scrollTop = top;
    for (const section of this.sections) section.scrollTo(top);
    this.drawTools();
    this.host.wantSoon();
  }

  private page(by: number): void {
    const { page, last, pitch } = pagingOf(this.showing);
    const rows = Math.round((this.scrollTop + by * page) / pitch);
    this.scroll(Math.max(0, Math.min(last, rows * pitch)));
  }

  private select(channel: number): void {
    this.selected = this.selected === channel ? null : channel;
    this.element.classList.toggle("magnified", this.selected !== null);
    this.draw();
    if (this.measure()) this.draw();
    this.host.wantSoon();
  }

  private point(spot: Spot | null, kind: Kind, fine: boolean): void {
    if (spot?.channel !== this.cursor?.spot.channel) {
      clearTimeout(this.dwell);
      if (spot && this.settled !== spot.channel) {
        this.dwell = setTimeout(() => {
          this.settled = spot.channel;
          this.drawReading();
        }, DWELL);
      }
    }
    this.cursor = spot && { spot, kind, fine };
    this.drawReading();
  }

  private exactTile(strip: Strip, channel: number): ReturnType<ExactStore["tile"]> {
    return this.host.exact.tile({ kind: strip.kind, want: { ...this.want(), first: channel, count: 1 }, channel, full: strip.layout === "bar" ? [1, 1] : strip.full });
  }

  private drawReading(): void {
    const { cursor } = this;
    const parts: string[] = [];
    for (const section of this.sections) {
      section.mark(cursor?.spot ?? null);
      const reading = cursor && section.strip ? this.reading(section, section.strip, cursor) : { value: null, exact: false };
      const text = section.read(cursor?.spot ?? null, reading, cursor?.fine ?? false, this.host.display.average);
      if (cursor?.kind === section.kind) this.text = text;
      if (text) parts.push(section.kind === "gradients" && parts.length ? text.replace(/^.*?(?=[=\u2248])/, "grad ") : text);
    }
    if (!parts.length) parts.push("", "point at a value");
    this.dock.replaceChildren(...parts.map((part, i) => h("span", { class: i ? "mut" : "" }, part)));
  }

  private reading(section: Section, strip: Strip, { spot, fine }: { spot: Spot; fine: boolean }): Reading {
    if (this.host.alive() && (this.settled === spot.channel || this.selected === spot.channel)) {
      const tile = this.exactTile(strip, spot.channel);
      const pooled = !fine && (strip.pool[0] > 1 || strip.pool[1] > 1) && strip.layout !== "bar";
      const value = pooled ? blockMean((row, col) => tile.at(row, col), spot, strip.pool, strip.full) : tile.at(spot.row, spot.col);
      if (value !== undefined && value !== null) return { value, exact: true };
    }
    // What is on screen of a line is a least and a largest value, or of a pixel a mean: all rounded to a byte.
    return { value: section.approximate(spot), exact: false };
  }

  private drawHead(): void {
    const { data, strip } = this;
    if (!data) return;
    // The shape first: of a long class and a long name only the beginning may be seen.
    const cls = this.layer.replace(/\d+$/, "").endsWith(data.cls) ? "" : data.cls;
    setText(this.subtitle, [strip ? formatShape(strip.shape) : "", cls].filter(Boolean).join(" "));
    this.subtitle.title = [data.detail && `${data.cls}(${data.detail})`, strip && `${strip.axes} ${strip.dtype}`].filter(Boolean).join("\n");
    this.calls.hidden = data.calls <= 1;
    options(this.calls, Array.from({ length: data.calls }, (_, i) => [String(i + 1), `call ${i + 1} of ${data.calls}`]), String(this.call));
    this.leaves.hidden = data.leaves.length <= 1;
    options(this.leaves, data.leaves.map((name, i) => [String(i), name.slice(this.layer.length) || "output"]), String(this.leaf));
    this.leaves.title = data.leaves[this.leaf] ?? "";
    this.note.hidden = !data.note;
    setText(this.note, data.note);
    this.options.update(data, strip, this.part, this.host.alive());
  }

  private drawTools(): void {
    const { strip } = this;
    const depth = strip?.depth ?? 0;
    const presumed = this.data?.axes && !this.data.axes.known ? " (presumed)" : "";
    setText(this.about, strip ? [strip.axes + presumed, strip.dtype, strip.kept].filter(Boolean).join(" \u00b7 ") : "");
    this.sliceRow.hidden = depth < 2;
    this.slice.max = String(Math.max(0, depth - 1));
    this.slice.value = String(this.depth);
    setText(this.sliceText, `${this.depth} of 0\u2013${depth - 1}`);
    const { page, first, count, last, channels: all } = pagingOf(this.showing);
    const noun = strip?.layout === "bar" ? "features" : strip?.axes.split(" ").includes("heads") ? "heads" : "channels";
    const { average } = this.host.display;
    const text = ({ layout, full, shape, channels, axes }: Strip): string => {
      if (layout === "scalar") return "";
      if (layout === "ids") return `${full[1]} tokens`;
      if (layout === "tokens") {
        const rows = axes.split(" ").find((name) => name === "layers" || name === "steps") ?? "tokens";
        return average ? `${full[0]} ${rows}, mean of ${shape[shape.length - 1] ?? 0} features` : `${full[0]} ${rows} \u00d7 ${full[1]} features`;
      }
      return average ? `mean of ${channels} ${noun}` : rangeText(first, count, all, noun);
    };
    setText(this.range, strip ? text(strip) : "");
    const pages = page > 0 && last > 0;
    this.previous.hidden = this.next.hidden = !pages;
    this.previous.disabled = this.scrollTop <= 0;
    this.next.disabled = this.scrollTop >= last - 1;
    this.tools.hidden = !strip || strip.layout === "scalar";
  }
}

function options(select: HTMLSelectElement, entries: [string, string][], value: string): void {
  const key = JSON.stringify(entries);
  if (select.dataset.entries !== key) {
    select.dataset.entries = key;
    select.replaceChildren(...entries.map(([id, text]) => h("option", { value: id }, text)));
  }
  select.value = value;
}
