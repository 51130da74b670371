// One tensor of a card, activations or gradients: head with read-out and scale, the strip, its magnifier.

import type { Ink } from "../cards/view";
import { mapGradient } from "../lib/colormap";
import { h, setText } from "../lib/dom";
import { formatNonFinite, formatScale, formatValue } from "../lib/format";
import { icon } from "../lib/icons";
import { decode } from "../lib/pixels";
import type { Strip } from "../lib/protocol";
import { Bars } from "./bars";
import { Magnifier } from "./magnifier";
import type { Look } from "./paint";
import { planBar, planTiles } from "./plan";
import { readingText, spotText, type Reading, type Spot } from "./readout";
import { TileGrid, type GridEvents } from "./tilegrid";
import { TokenList } from "./tokens";

export interface SectionEvents extends GridEvents {
  /** A value in the magnifier, where no values are pooled. */
  hoverFine(spot: Spot | null): void;
  /** A value in the magnifier was clicked. */
  choose(spot: Spot): void;
}

export interface SectionPicture {
  strip: Strip;
  codes: Uint8Array;
  average: boolean;
  look: Look;
  ink: Ink;
  ratio: number;
  selected: number | null;
  /** Exact values of the selected channel, when they are here. */
  exact: ArrayLike<number> | null;
}

const TITLES: Record<string, string> = { activations: "Activations", gradients: "Gradients" };

/** Before the name of an instrument of the user's, in the kind of its strip. */
export const CUSTOM = "custom ";

export class Section {
  readonly title: string;
  private readonly heading: HTMLElement;
  private readonly readout = h("span", { class: "ro" });
  private readonly bad = h("span", { class: "bad", hidden: true });
  private readonly low = h("span");
  private readonly high = h("span");
  private readonly map = h("i", { class: "map", "aria-hidden": "true" });
  private readonly legend = h("span", { class: "leg", role: "img" }, this.low, this.map, this.high);
  private readonly missing = h("div", { class: "missing", hidden: true });
  private readonly number = h("div", { class: "scalar mono", hidden: true });
  private readonly foot = h("div", { class: "foot", hidden: true });
  private readonly grid: TileGrid;
  private readonly bars: Bars;
  private readonly magnifier: Magnifier;
  private readonly tokens = new TokenList();
  private readonly head: HTMLElement;
  private readonly main: HTMLElement;
  readonly element: HTMLElement;
  private picture: SectionPicture | null = null;

  constructor(
    readonly kind: string,
    events: SectionEvents,
  ) {
    this.title = TITLES[kind] ?? kind.slice(CUSTOM.length);
    this.grid = new TileGrid(events);
    this.bars = new Bars(events);
    this.magnifier = new Magnifier((spot) => events.hoverFine(spot), (spot) => events.choose(spot));
    this.heading = h("h4", kind.startsWith(CUSTOM) ? { title: "a layer tensor of your own" } : {}, this.title);
    this.head = h("div", { class: "sh" }, this.heading, this.bad, this.readout, this.legend);
    this.main = h(
      "div",
      { class: "secmain" },
      this.head,
      this.missing,
      this.number,
      this.grid.element,
      this.bars.element,
      this.tokens.element,
      this.foot,
    );
    this.element = h("div", { class: "sec", "data-kind": kind }, this.main, this.magnifier.element);
  }

  /** Something that stands in the head. */
  addTool(tool: HTMLElement): void {
    this.heading.after(tool);
  }

  get width(): number {
    return this.main.clientWidth;
  }

  /** There is nothing to draw, and why; `title` may name both tensors where one sentence is for both. */
  wait(text: string, title = this.title): void {
    this.picture = null;
    setText(this.heading, title);
    this.only(this.missing);
    setText(this.missing, text);
  }

  show(picture: SectionPicture, width: number): void {
    const { strip, look } = picture;
    if (strip.missing) return this.wait(strip.missing);
    this.picture = picture;
    setText(this.heading, this.title);
    this.drawHead(strip, look);
    if (strip.layout === "scalar") this.drawScalar(strip);
    else if (strip.layout === "ids") this.drawTokens(strip);
    else if (strip.layout === "bar") this.drawBars(picture, width);
    else this.drawTiles(picture, width);
  }

  scrollTo(top: number): void {
    this.grid.scrollTo(top);
    this.bars.scrollTo(top);
  }

  mark(spot: Spot | null): void {
    this.grid.mark(spot);
    this.bars.mark(spot);
    this.magnifier.mark(spot);
  }

  /** Shows a read-out and returns it as text. */
  read(spot: Spot | null, reading: Reading, fine: boolean, average: boolean): string {
    const text = spot && this.picture ? this.text(spot, reading, fine, average) : "";
    setText(this.readout, text);
    return text;
  }

  /** What the byte on screen says of a value. */
  approximate(spot: Spot): number | null {
    const code = this.picture && this.codesOf(spot.channel)?.[this.offset(spot)];
    return code === undefined || code === null || !this.picture ? null : decode(code, this.picture.strip.scale);
  }

  get strip(): Strip | null {
    return this.picture?.strip ?? null;
  }

  private text(spot: Spot, reading: Reading, fine: boolean, average: boolean): string {
    const { layout, pool, full } = (this.picture as SectionPicture).strip;
    const pooled = !fine && (pool[0] > 1 || pool[1] > 1);
    return readingText(spotText(layout, spot, fine ? [1, 1] : pool, full, average), reading, pooled);
  }

  private offset(spot: Spot): number {
    const { strip } = this.picture as SectionPicture;
    return Math.floor(spot.row / strip.pool[0]) * strip.tile[1] + Math.floor(spot.col / strip.pool[1]);
  }

  private readonly codesOf = (channel: number): Uint8Array | null => {
    if (!this.picture) return null;
    const { strip, codes } = this.picture;
    const at = channel - strip.first;
    if (at < 0 || at >= strip.count) return null;
    const size = strip.tile[0] * strip.tile[1];
    let tile = this.tileCodes.get(channel);
    if (this.tileCodesOf !== codes) {
      this.tileCodes.clear();
      this.tileCodesOf = codes;
      tile = undefined;
    }
    if (!tile) this.tileCodes.set(channel, (tile = codes.subarray(at * size, (at + 1) * size)));
    return tile;
  };
  /** One subarray a tile and buffer, so that a tile that did not change is known by identity. */
  private readonly tileCodes = new Map<number, Uint8Array>();
  private tileCodesOf: Uint8Array | null = null;

  private drawHead(strip: Strip, look: Look): void {
    const scale = formatScale(strip.scale);
    const low = strip.unsigned || strip.scale === 0 ? "0" : `-${scale}`;
    setText(this.low, low);
    setText(this.high, scale);
    this.legend.setAttribute("aria-label", `colour scale from ${low} to ${scale}`);
    this.map.style.background = mapGradient(look.theme, look.unsigned);
    const counts = formatNonFinite(strip.nonfinite);
    this.bad.hidden = !counts;
    if (counts) this.bad.replaceChildren(icon("warn", 13), counts);
    const [down, across] = strip.pool;
    const pooled = strip.layout === "lines" ? (across > 1 ? `min and max of ${across} values a point` : "") : down * across > 1 ? `mean of ${down}\u00d7${across} values a pixel` : "";
    const foot = [strip.about, pooled].filter(Boolean).join(" \u00b7 ");
    this.foot.hidden = !foot;
    setText(this.foot, foot);
  }

  private drawScalar(strip: Strip): void {
    this.only(this.number);
    const text = strip.value === null ? formatNonFinite(strip.nonfinite).replace(/^1 /, "") || "not finite" : formatValue(strip.value);
    setText(this.number, text);
    this.legend.hidden = true;
  }

  private drawTokens(strip: Strip): void {
    this.only(this.tokens.element);
    if (strip.tokens) this.tokens.show(strip.tokens);
  }

  private drawBars(picture: SectionPicture, width: number): void {
    this.only(this.bars.element);
    const { strip, look, ratio, codes, ink, average } = picture;
    const plan = planBar(average ? 1 : strip.channels, width);
    this.headOver(plan.width);
    this.bars.show({ plan, strip, selected: picture.selected, title: this.title, look, ratio, codes, colors: { zero: ink.zero, ring: ink.line } });
  }

  private drawTiles(picture: SectionPicture, width: number): void {
    this.only(this.grid.element);
    const { strip, look, ink, ratio, selected, average, exact } = picture;
    const plan = planTiles(strip.layout, strip.tile, average ? 1 : strip.channels, width, ratio);
    this.headOver(plan.columns * (plan.cell + plan.gap) - plan.gap);
    this.grid.show({ plan, strip, title: this.title, average, look, ink, ratio, selected, codesOf: this.codesOf });
    if (selected === null) return this.magnifier.show(null);
    const label = strip.layout === "tokens" ? "all" : average ? "mean" : `ch ${selected}`;
    this.magnifier.show({ strip, channel: selected, title: this.title, label, look, ink, ratio, values: exact, codes: this.codesOf(selected) });
  }

  /** The scale stands over the end of its strip, where that is wide enough for the read-out as well. */
  private headOver(width: number): void {
    this.head.style.maxWidth = `${Math.max(480, width)}px`;
  }

  /** Shows one of the bodies and hides the others. */
  private only(body: HTMLElement): void {
    for (const other of [this.missing, this.number, this.grid.element, this.bars.element, this.tokens.element]) other.hidden = other !== body;
    this.legend.hidden = body === this.missing || body === this.number || body === this.tokens.element;
    if (body === this.missing) this.bad.hidden = this.foot.hidden = true;
    if (body !== this.grid.element) this.magnifier.show(null);
  }
}
