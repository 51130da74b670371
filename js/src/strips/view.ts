// The view Strips: activations and gradients of one sample, and everything the pointer and the keyboard do in them.

import type { CardView, Frame, ViewHost, ViewKind } from "../cards/view";
import { h, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import type { Card, Part, Probed, Strip, StripsContent, StripsOptions } from "../lib/protocol";
import { ExactStore } from "./exact";
import { ProbedLine } from "./probed";
import { pagingOf, wantedChannels, type Showing } from "./paging";
import { pixelsFor, rangeText } from "./plan";
import { blockMean, type Reading, type Spot } from "./readout";
import { CUSTOM, Section } from "./section";
import { UnitMenu, unitPlace } from "./unit";

/** Always there; strips of the user's own instruments follow. */
const KINDS = ["activations", "gradients"];
/** A tile is fetched when the pointer stays, not when it only passes. */
const DWELL = 50;

class StripsView implements CardView {
  readonly element: HTMLElement;
  readonly tools: HTMLElement;
  readonly ofOneCall = true;
  part: Part = "magnitude";
  private depth = 0;
  private scrollTop = 0;
  private selected: number | null = null;
  /** A value of the selected channel that was clicked in the magnifier. */
  private unit: Spot | null = null;
  private cursor: { spot: Spot; kind: string; fine: boolean } | null = null;
  private settled: number | null = null;
  private dwell: ReturnType<typeof setTimeout> | undefined;
  private card: Card | null = null;
  private strips: Strip[] | null = null;
  private probed: Probed | null = null;
  private buffers: Uint8Array[] = [];
  private text = "";
  private width = 0;
  private readonly frame: Frame;
  private readonly exact: ExactStore;
  private readonly range = h("span", { class: "num" });
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly slice = h("input", { type: "range", min: 0, value: 0 });
  private readonly sliceText = h("span", { class: "num" });
  private readonly about = h("span", { class: "mono" });
  private readonly sliceRow: HTMLElement;
  private readonly channels: HTMLElement;
  private readonly dock = h("div", { class: "dock" });
  private readonly sections: Section[];
  private readonly list = h("div", {});
  private readonly probedLine: ProbedLine;
  private readonly unitMenu: UnitMenu;

  constructor(host: ViewHost) {
    this.frame = host.frame;
    this.exact = new ExactStore(host, () => host.drawSoon());
    this.slice.setAttribute("aria-label", `Slice of ${host.layer}`);
    const pager = (name: "left" | "right", label: string, by: number): HTMLButtonElement =>
      h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: () => this.page(by) }, icon(name));
    this.previous = pager("left", "Previous channels", -1);
    this.next = pager("right", "Next channels", 1);
    this.sliceRow = h("label", { class: "slice", hidden: true }, "slice", this.slice, this.sliceText);
    this.channels = h("div", { class: "rng" }, this.range, this.previous, this.next);
    this.tools = h("div", { class: "vt" }, this.about, this.sliceRow, this.channels);
    this.sections = KINDS.map((kind) => this.makeSection(kind));
    this.list.append(...this.sections.map(({ element }) => element));
    this.probedLine = new ProbedLine(host.layer, host.frame);
    this.unitMenu = new UnitMenu(host.layer, host.frame);
    this.sections[0]?.addTool(this.unitMenu.element);
    this.element = h("div", {}, this.probedLine.element, this.dock, this.list);
    this.slice.addEventListener("input", () => this.change(() => (this.depth = Number(this.slice.value))));
    this.drawSections();
    this.drawTools();
  }

  receive(card: Card, buffers: Uint8Array[], snapshot: number): void {
    const { strips, probed } = card.content as StripsContent;
    this.exact.begin(probed?.number ?? snapshot);
    this.card = card;
    this.strips = strips;
    this.probed = probed;
    this.buffers = buffers;
  }

  options(): StripsOptions {
    const { sample, average, transform, shows } = this.frame.display;
    const samples = this.samples;
    return {
      sample: samples ? Math.min(sample, samples - 1) : sample,
      average,
      transform,
      part: this.part,
      ...wantedChannels(this.showing),
      px: pixelsFor(this.strip?.layout, this.width || 480, devicePixelRatio),
      depth: this.depth,
      shows,
    };
  }

  get samples(): number {
    return this.strip?.samples ?? 0;
  }

  get reading(): string {
    return this.cursor ? this.text : "";
  }

  draw(): void {
    this.slice.disabled = !this.frame.alive();
    this.drawSections();
    for (const section of this.sections) section.scrollTo(this.scrollTop);
    this.element.classList.toggle("magnified", this.selected !== null);
    this.drawTools();
    this.drawReading();
    this.drawProbe();
  }

  destroy(): void {
    clearTimeout(this.dwell);
    this.unitMenu.destroy();
  }

  private drawProbe(): void {
    this.probedLine.show(this.probed);
    this.element.dataset.probe = String(this.probed?.number ?? "");
    // Only the first output of a layer can be changed in a forward.
    const strip = this.card?.leaf === 0 && !this.frame.display.average ? this.strips?.find(({ kind, missing }) => kind === "activations" && !missing) : undefined;
    this.unitMenu.show(strip && this.selected !== null ? unitPlace(strip, this.selected, this.unit, this.depth) : null);
  }

  private makeSection(kind: string): Section {
    return new Section(kind, {
      hover: (spot) => this.point(spot, kind, false),
      hoverFine: (spot) => this.point(spot, kind, true),
      select: (channel) => this.select(channel),
      choose: (spot) => this.choose(spot),
      scrolled: (top) => this.scroll(top),
    });
  }

  /** A section for each strip of an instrument; instruments may come while the card is open. */
  private followStrips(kinds: string[]): void {
    const known = this.sections.map(({ kind }) => kind);
    const wanted = [...KINDS, ...kinds.filter((kind) => kind.startsWith(CUSTOM))];
    if (String(known) === String(wanted)) return;
    const sections = wanted.map((kind) => this.sections.find((section) => section.kind === kind) ?? this.makeSection(kind));
    this.sections.splice(0, this.sections.length, ...sections);
    this.list.replaceChildren(...sections.map(({ element }) => element));
  }

  private drawSections(): void {
    const received = new Map(this.strips?.map((strip) => [strip.kind, strip]));
    this.followStrips([...received.keys()]);
    this.drawOwn(received);
    const reasons = KINDS.map((kind) => received.get(kind)?.missing ?? (this.strips ? "not captured" : "Waiting for the kernel\u2026"));
    // One sentence that holds for both tensors is said once.
    const [first, second] = this.sections;
    const both = reasons[0] !== "" && reasons[0] === reasons[1];
    if (second) second.element.hidden = both;
    if (both) return first?.wait(reasons[0] ?? "", "Activations and gradients");
    KINDS.forEach((kind, i) => this.drawStrip(this.sections[i], received.get(kind), reasons[i] ?? ""));
  }

  private drawOwn(received: Map<string, Strip>): void {
    for (const section of this.sections.slice(KINDS.length)) {
      const strip = received.get(section.kind);
      this.drawStrip(section, strip, strip?.missing ?? "not evaluated");
    }
  }

  private drawStrip(section: Section | undefined, strip: Strip | undefined, reason: string): void {
    if (!strip || reason) section?.wait(reason);
    else if (section) this.drawSection(section, strip);
  }

  private drawSection(section: Section, strip: Strip): void {
    const { display, theme, warn, ink } = this.frame;
    // The mean is one tile, whichever channel was magnified before.
    const selected = this.selected !== null && display.average ? 0 : this.selected;
    const exact = selected !== null && this.frame.alive() && strip.layout !== "bar" && strip.layout !== "scalar" && strip.layout !== "ids" ? this.exactTile(strip, selected).all() : null;
    const codes = this.buffers[strip.buffer] ?? new Uint8Array(0);
    const look = { theme, warn, unsigned: strip.unsigned };
    section.show({ strip, codes, average: display.average, look, ink, ratio: devicePixelRatio, selected, exact }, this.width);
  }

  /** The card got another width: true if more or fewer tiles fit now. */
  measure(): boolean {
    // A hidden section has no width.
    const width = Math.min(...this.sections.map((section) => section.width || Infinity));
    if (!Number.isFinite(width) || width === this.width) return false;
    this.width = width;
    return true;
  }

  /** True if something was open that Escape closes. */
  escape(): boolean {
    if (this.selected === null) return false;
    this.select(this.selected);
    return true;
  }

  private get strip(): Strip | undefined {
    return this.strips?.find(({ missing }) => !missing);
  }

  private get showing(): Showing {
    return { strip: this.strip, average: this.frame.display.average, width: this.width, ratio: devicePixelRatio, scrollTop: this.scrollTop };
  }

  private change(set: () => void): void {
    set();
    this.drawTools();
    this.frame.wantSoon();
  }

  private scroll(top: number): void {
    if (Math.abs(top - this.scrollTop) < 0.5) return;
    this.scrollTop = top;
    for (const section of this.sections) section.scrollTo(top);
    this.drawTools();
    this.frame.wantSoon();
  }

  private page(by: number): void {
    const { page, last, pitch } = pagingOf(this.showing);
    const rows = Math.round((this.scrollTop + by * page) / pitch);
    this.scroll(Math.max(0, Math.min(last, rows * pitch)));
  }

  private choose(unit: Spot): void {
    this.unit = unit;
    this.drawReading();
    this.drawProbe();
  }

  private select(channel: number): void {
    this.unit = null;
    this.selected = this.selected === channel ? null : channel;
    this.element.classList.toggle("magnified", this.selected !== null);
    this.draw();
    if (this.measure()) this.draw();
    this.frame.wantSoon();
  }

  private point(spot: Spot | null, kind: string, fine: boolean): void {
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
    const { sample, average, transform, part, depth, shows } = this.options();
    const of = JSON.stringify([this.card?.call, this.card?.leaf, sample, average, transform, part, depth, shows]);
    return this.exact.tile({ kind: strip.kind, of, channel, full: strip.layout === "bar" ? [1, 1] : strip.full });
  }

  private drawReading(): void {
    const { cursor } = this;
    const parts: string[] = [];
    for (const section of this.sections) {
      section.mark(cursor?.spot ?? this.unit);
      const reading = cursor && section.strip ? this.readingOf(section, section.strip, cursor) : { value: null, exact: false };
      const text = section.read(cursor?.spot ?? null, reading, cursor?.fine ?? false, this.frame.display.average);
      if (cursor?.kind === section.kind) this.text = text;
      const short = section.kind === "gradients" ? "grad" : section.title;
      if (text) parts.push(section.kind !== "activations" && parts.length ? text.replace(/^.*?(?=[=\u2248])/, `${short} `) : text);
    }
    if (!parts.length) parts.push("", "point at a value");
    this.dock.replaceChildren(...parts.map((part, i) => h("span", { class: i ? "mut" : "" }, part)));
  }

  private readingOf(section: Section, strip: Strip, { spot, fine }: { spot: Spot; fine: boolean }): Reading {
    if (this.frame.alive() && (this.settled === spot.channel || this.selected === spot.channel)) {
      const tile = this.exactTile(strip, spot.channel);
      const pooled = !fine && (strip.pool[0] > 1 || strip.pool[1] > 1) && strip.layout !== "bar";
      const value = pooled ? blockMean((row, col) => tile.at(row, col), spot, strip.pool, strip.full) : tile.at(spot.row, spot.col);
      if (value !== undefined && value !== null) return { value, exact: true };
    }
    // What is on screen of a line is a least and a largest value, or of a pixel a mean: all rounded to a byte.
    return { value: section.approximate(spot), exact: false };
  }

  private drawTools(): void {
    const { strip } = this;
    const depth = strip?.depth ?? 0;
    const presumed = this.card?.axes && !this.card.axes.known ? " (presumed)" : "";
    setText(this.about, strip ? [strip.axes + presumed, strip.dtype, strip.kept].filter(Boolean).join(" \u00b7 ") : "");
    this.sliceRow.hidden = depth < 2;
    this.slice.max = String(Math.max(0, depth - 1));
    this.slice.value = String(this.depth);
    setText(this.sliceText, `${this.depth} of 0\u2013${depth - 1}`);
    const { page, first, count, last, channels: all } = pagingOf(this.showing);
    const noun = strip?.layout === "bar" ? "features" : strip?.axes.split(" ").includes("heads") ? "heads" : "channels";
    const { average } = this.frame.display;
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
    this.channels.hidden = this.about.hidden = !strip || strip.layout === "scalar";
  }
}

export const strips: ViewKind = { key: "strips", title: "Strips", make: (host) => new StripsView(host) };
