// The histogram of one tensor: bars, the outline of a second one, a bar of zeros apart, and a cursor over them.

import { h, setText, svg } from "../lib/dom";
import { formatCount } from "../lib/format";
import { icon } from "../lib/icons";
import type { Kind } from "../lib/protocol";
import type { Bars } from "../lib/protocol_statistics";
import { axisFor, tickText, type Axis, type Scale } from "./axis";
import { floatRange, subnormal } from "./bands";
import { barsOf, edge, rangeOf, type Bar, type Counts } from "./bins";
import { heightsFor, type Height, type Heights } from "./heights";

export interface PlotChoice {
  x: Scale;
  y: Scale;
  height: Height;
  bands: boolean;
}

export interface Series {
  bars: Bars;
  counts: Counts;
}

export interface PlotEvents {
  /** The cursor stands on another bar, or on none. */
  point(bar: Bar | null): void;
}

const HEIGHT = 92;
const FOOT = 16;
/** On a linear axis bins are put together until they are so many pixels wide. */
const LEAST_PX = 3;
const TITLES: Record<Kind, string> = { activations: "Activations", gradients: "Gradients" };

export class Plot {
  readonly element: HTMLElement;
  private readonly facts = h("span", { class: "mut" });
  private readonly readout = h("div", { class: "hro", "aria-live": "polite" });
  private readonly missing = h("div", { class: "missing", hidden: true });
  private readonly bandNote = h("div", { class: "foot", hidden: true });
  private readonly top = h("span", { class: "htop" });
  private readonly bands = svg("path", { class: "hband" });
  private readonly fill = svg("path", { class: "hfill" });
  private readonly other = svg("path", { class: "hother" });
  private readonly zero = svg("path", { class: "hzero" });
  private readonly zeroText = svg("text", { class: "hzt" });
  private readonly base = svg("path", { class: "hbase" });
  private readonly cursor = svg("path", { class: "hcur" });
  private readonly ticks = svg("g", { class: "hticks" });
  private readonly picture = svg("svg", { "aria-hidden": "true" }, this.bands, this.fill, this.zero, this.other, this.base, this.cursor, this.zeroText, this.ticks);
  private readonly focus: HTMLElement;
  private series: Series[] = [];
  private shown: { axis: Axis; heights: Heights; bars: Bar[] } | null = null;
  private at: Bar | null = null;
  private samples = "";

  constructor(
    readonly kind: Kind,
    private readonly events: PlotEvents,
  ) {
    this.focus = h("div", { class: "hplot", role: "slider", tabindex: 0, "aria-label": `Bars of ${kind}` });
    this.focus.append(this.picture);
    this.focus.addEventListener("pointermove", (event) => this.point(this.barAt(event.clientX - this.focus.getBoundingClientRect().left)));
    this.focus.addEventListener("pointerleave", () => this.point(null));
    this.focus.addEventListener("blur", () => this.point(null));
    this.focus.addEventListener("keydown", (event) => this.move(event));
    this.element = h("div", { class: "hpanel", "data-kind": kind }, h("div", { class: "sh" }, h("h4", {}, TITLES[kind]), this.facts), this.readout, this.missing, this.top, this.focus, this.bandNote);
  }

  /** What `c` copies. */
  get reading(): string {
    return this.at ? this.barText(this.at) : "";
  }

  show(series: Series[], choice: PlotChoice, width: number): void {
    this.series = series;
    const [first] = series;
    const some = series.filter(({ bars }) => !bars.missing);
    this.missing.hidden = first !== undefined && !first.bars.missing;
    this.focus.hidden = this.readout.hidden = this.top.hidden = !some.length || first?.bars.missing !== "";
    setText(this.missing, first?.bars.missing ?? "");
    this.drawFacts(first?.bars);
    this.bandNote.hidden = true;
    if (this.focus.hidden || width <= 0) return;
    const counts = some.map((one) => one.counts);
    const axis = axisFor(choice.x, width, counts);
    const [from, to] = rangeOf(first?.counts as Counts) ?? [0, 1];
    const least = choice.x === "linear" ? ((to - from) / width) * LEAST_PX : 0;
    const all = some.map((one) => ({ bars: barsOf(one.counts, least), n: one.bars.n }));
    const heights = heightsFor(all, choice.height, choice.y, choice.x, tickText);
    this.shown = { axis, heights, bars: all[0]?.bars ?? [] };
    this.picture.setAttribute("width", String(width));
    this.picture.setAttribute("height", String(HEIGHT + FOOT));
    const zeros = first?.bars.zero && heights.top ? " \u00b7 bar of zeros: its whole height is 100 %" : "";
    const hidden = axis.hidden ? ` \u00b7 ${shareText(axis.hidden)} are nearer to zero than ${tickText(axis.from)} and not drawn` : "";
    setText(this.top, heights.top + zeros + hidden);
    const [drawn, outlined] = all;
    this.fill.setAttribute("d", drawn ? this.area(drawn.bars, drawn.n) : "");
    this.other.setAttribute("d", outlined ? this.outline(outlined.bars, outlined.n) : "");
    this.drawZero(axis, first as Series);
    this.base.setAttribute("d", `M0 ${HEIGHT - 0.5}H${width}${axis.ticks.map(({ x }) => `M${x.toFixed(1)} ${HEIGHT}v3`).join("")}`);
    this.drawTicks(axis);
    this.drawBands(choice.bands, axis, first as Series);
    // The bar under the cursor may be a little different one now.
    this.at = this.at && this.same(this.at);
    this.drawCursor();
  }

  /** Other values are shown: what was said of those before does not hold for them. */
  renew(): void {
    if (!this.at) return;
    this.samples = "";
    this.drawCursor();
    this.events.point(this.at);
  }

  /** What the kernel said of the bar under the cursor. */
  tell(bar: Bar, text: string): void {
    if (this.at !== bar) return;
    this.samples = text;
    this.drawCursor();
  }

  private same(bar: Bar): Bar | null {
    return this.shown?.bars.find(({ sign, low, high }) => sign === bar.sign && low <= bar.high && high >= bar.low) ?? null;
  }

  private drawFacts(bars: Bars | undefined): void {
    const bad = bars?.nonfinite ? `, ${formatCount(bars.nonfinite)} not finite` : "";
    const text = bars?.dtype ? `${formatCount(bars.n)} values${bad} \u00b7 ${bars.dtype}` : "";
    if (this.facts.textContent !== text) this.facts.replaceChildren(...(bad ? [icon("warn", 12)] : []), text);
  }

  private left(bar: Bar): [number, number] {
    const { axis } = this.shown as { axis: Axis };
    if (!bar.sign) {
      const [a, b] = axis.zero;
      const inset = axis.scale === "log" ? Math.min(9, (b - a) / 3) : 0;
      return [a + inset, b - inset];
    }
    return [axis.x(bar.from), axis.x(bar.to)];
  }

  private rect(bar: Bar, n: number): string {
    const [a, b] = this.left(bar);
    const tall = Math.max(1, (this.shown?.heights.of(bar, n) ?? 0) * (HEIGHT - 12));
    return `M${a.toFixed(2)} ${HEIGHT}V${(HEIGHT - tall).toFixed(2)}H${b.toFixed(2)}V${HEIGHT}Z`;
  }

  private area(bars: Bar[], n: number): string {
    return bars.filter(({ sign }) => sign).map((bar) => this.rect(bar, n)).join("");
  }

  /** One line over neighbouring bars. */
  private outline(bars: Bar[], n: number): string {
    let path = "";
    let end = -Infinity;
    for (const bar of bars) {
      const [a, b] = this.left(bar);
      const top = (HEIGHT - Math.max(1, (this.shown?.heights.of(bar, n) ?? 0) * (HEIGHT - 12))).toFixed(2);
      if (Math.abs(a - end) > 0.01) path += `${path && `V${HEIGHT}`}M${a.toFixed(2)} ${HEIGHT}`;
      path += `V${top}H${b.toFixed(2)}`;
      end = b;
    }
    return path && `${path}V${HEIGHT}`;
  }

  private drawZero(axis: Axis, { bars }: Series): void {
    const zero = this.shown?.bars.find(({ sign }) => !sign);
    this.zero.setAttribute("d", zero ? this.rect(zero, bars.n) : "");
    const text = zero ? `${shareText(zero.count / bars.n)} zero` : "";
    setText(this.zeroText, text);
    const middle = (axis.zero[0] + axis.zero[1]) / 2;
    const space = 3.2 * text.length;
    this.zeroText.setAttribute("x", String(Math.max(space, Math.min(axis.width - space, middle))));
    this.zeroText.setAttribute("y", "10");
  }

  private drawTicks(axis: Axis): void {
    this.ticks.replaceChildren(
      ...axis.ticks.map(({ x, text }) => {
        const space = 3.4 * text.length;
        return svg("text", { x: Math.max(space, Math.min(axis.width - space, x)), y: HEIGHT + 13 }, text);
      }),
    );
  }

  private drawBands(on: boolean, axis: Axis, { bars, counts }: Series): void {
    const range = on ? floatRange(bars.dtype) : null;
    this.bandNote.hidden = !on;
    if (on) setText(this.bandNote, range ? `${bars.dtype}: subnormal below ${tickText(range.tiny)} (${shareText(subnormal(counts, range) / bars.n)} of the values), overflow from ${tickText(range.end)}` : `${bars.dtype || "these values"}: no float whose range can be reached here`);
    const [from, to] = rangeOf(counts) ?? [0, 0];
    const below: [number, number][] = range && counts.count && edge(counts.first) < range.tiny ? [[-range.tiny, range.tiny]] : [];
    const parts: [number, number][] = range ? [...below, [range.end, Infinity], [-Infinity, -range.end]] : [];
    const path = parts.map(([low, high]) => {
      const [a, b] = [Math.max(low, from), Math.min(high, to)];
      return a < b ? `M${axis.x(a).toFixed(1)} 0H${axis.x(b).toFixed(1)}V${HEIGHT}H${axis.x(a).toFixed(1)}Z` : "";
    });
    this.bands.setAttribute("d", path.join(""));
  }

  private barAt(x: number): Bar | null {
    const { shown } = this;
    if (!shown) return null;
    const inside = shown.bars.find((bar) => {
      const [a, b] = bar.sign ? this.left(bar) : shown.axis.zero;
      return x >= a && x < b;
    });
    return inside ?? null;
  }

  private point(bar: Bar | null): void {
    if (bar === this.at) return;
    this.at = bar;
    this.samples = "";
    this.drawCursor();
    this.events.point(bar);
  }

  private move(event: KeyboardEvent): void {
    const bars = this.shown?.bars ?? [];
    const at = this.at ? bars.indexOf(this.at) : -1;
    const last = bars.length - 1;
    const next = { ArrowRight: Math.min(last, at + 1), ArrowLeft: at < 0 ? last : Math.max(0, at - 1), Home: 0, End: last }[event.key];
    if (next === undefined) return;
    this.point(bars[next] ?? null);
    event.preventDefault();
    event.stopPropagation();
  }

  private barText(bar: Bar): string {
    const [{ bars } = { bars: null }] = this.series;
    if (!bars) return "";
    const place = bar.sign ? `${bar.sign > 0 ? "[" : "("}${tickText(bar.from, 4)}, ${tickText(bar.to, 4)}${bar.sign > 0 ? ")" : "]"}` : "zero";
    return `${place}: ${valuesText(bar.count)}, ${shareText(bar.count / bars.n)}`;
  }

  private drawCursor(): void {
    const { at, shown } = this;
    if (at && shown) {
      const [a, b] = this.left(at);
      this.cursor.setAttribute("d", `M${(a - 0.5).toFixed(1)} ${HEIGHT}V12H${(b + 0.5).toFixed(1)}V${HEIGHT}`);
    } else this.cursor.setAttribute("d", "");
    const text = at ? this.barText(at) : "";
    this.readout.classList.toggle("idle", !text);
    setText(this.readout, text ? `${text}${this.samples && ` \u00b7 ${this.samples}`}` : this.kind === "activations" ? POINT : "");
    const bars = shown?.bars ?? [];
    this.focus.setAttribute("aria-valuemin", "0");
    this.focus.setAttribute("aria-valuemax", String(Math.max(0, bars.length - 1)));
    this.focus.setAttribute("aria-valuenow", String(Math.max(0, at ? bars.indexOf(at) : 0)));
    this.focus.setAttribute("aria-valuetext", text || `${bars.length} bars: arrow keys read them`);
  }
}

export const POINT = "point at it, or use the arrow keys, to read it";

export function valuesText(count: number): string {
  return count === 1 ? "1 value" : `${formatCount(count)} values`;
}

/** A share in percent; what is there never reads as nothing, nor nearly all as all. */
export function shareText(share: number): string {
  const percent = share * 100;
  if (percent === 0 || percent === 100) return `${percent}%`;
  if (percent < 0.01) return "<0.01%";
  if (percent > 99.9) return ">99.9%";
  return `${percent < 0.1 ? percent.toFixed(2) : percent < 10 ? percent.toFixed(1) : Math.round(percent) === 100 ? "99.9" : percent.toFixed(0)}%`;
}
