// The channels of a layer as rows over one axis: how dense their values lie, which are dead or not finite.

import type { Frame } from "../cards/view";
import { Choice } from "../lib/choice";
import { lutFor, ZERO } from "../lib/colormap";
import { h, setText, svg } from "../lib/dom";
import { formatCount } from "../lib/format";
import { icon } from "../lib/icons";
import type { Kind } from "../lib/protocol";
import type { ChannelRows } from "../lib/protocol_statistics";
import { axisFor, tickText, type Axis, type Scale } from "./axis";
import { binOf, countAt, edge, type Counts } from "./bins";
import { filterChannels, indexText, parseIndices, rowCounts, SATURATED, type ChannelFilter, type Chosen } from "./channels";
import { shareText, valuesText } from "./plot";

const TALL = 12;
/** Of very many channels all rows fit on a screen. */
const ALL_TALL = 480;
const FILTERS: [ChannelFilter, string, string][] = [
  ["all", "all", "All channels that have a histogram of their own"],
  ["dead", "dead", "Every value of the channel was zero; of all channels"],
  ["non-finite", "not finite", "Channels with values that are NaN or infinite"],
  ["saturated", "saturated", `More than ${SATURATED * 100} % of the channel's finite values lie in the bin of its largest or of its least value, and it is not dead`],
  ["index", "by index\u2026", "Channels by number, such as 3, 8-12"],
];

/** A count in a few letters: `47k`. */
const short = (count: number): string => (count < 1e4 ? String(count) : count < 1e6 ? `${Math.floor(count / 1e3)}k` : `${Math.floor(count / 1e6)}M`);

export interface RowsEvents {
  /** The rows of the other tensor are wanted. */
  kind(kind: Kind): void;
  changed(): void;
}

export class RowsPanel {
  readonly element: HTMLElement;
  private readonly kinds: Choice<Kind>;
  private readonly filter: Choice<ChannelFilter>;
  private readonly index = h("input", { class: "inp", type: "text", placeholder: "3, 8-12", hidden: true });
  private readonly heading = h("h4", {}, "Channels");
  private readonly scaleText = h("span", { class: "mut" });
  private readonly readout = h("div", { class: "hro", "aria-live": "polite" });
  private readonly missing = h("div", { class: "missing", hidden: true });
  private readonly labels = h("div", { class: "rlabels", "aria-hidden": "true" });
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly marks = h("div", { class: "rmarks" });
  private readonly lines = svg("svg", { class: "rlines", "aria-hidden": "true" });
  private readonly ticks = svg("svg", { class: "hticks rticks", "aria-hidden": "true" });
  private readonly heat: HTMLElement;
  private readonly grid: HTMLElement;
  private readonly about = h("div", { class: "foot" });
  private rows: ChannelRows | null = null;
  private counts: Float32Array = new Float32Array(0);
  private chosen: Chosen = { rows: [], beyond: [] };
  private axis: Axis | null = null;
  private tall = TALL;
  private cursor: { row: number; x: number } | null = null;

  constructor(
    private readonly layer: string,
    private readonly frame: Frame,
    events: RowsEvents,
  ) {
    this.kinds = new Choice("Rows of", [["activations", "activations", "Rows of the activations"], ["gradients", "gradients", "Rows of the gradients"]], "activations", (kind) => events.kind(kind));
    this.filter = new Choice("Show channels", FILTERS, "all", (key) => {
      this.index.hidden = key !== "index";
      if (key === "index") this.index.focus();
      events.changed();
    });
    this.index.setAttribute("aria-label", `Channels of ${layer} by index`);
    this.index.addEventListener("input", () => events.changed());
    this.heat = h("div", { class: "heat", role: "slider", tabindex: 0, "aria-orientation": "vertical" }, this.canvas);
    this.heat.append(this.lines);
    this.heat.addEventListener("pointermove", (event) => {
      const box = this.heat.getBoundingClientRect();
      this.point({ row: Math.floor((event.clientY - box.top) / this.tall), x: event.clientX - box.left });
    });
    this.heat.addEventListener("pointerleave", () => this.point(null));
    this.heat.addEventListener("blur", () => this.point(null));
    this.heat.addEventListener("keydown", (event) => this.move(event));
    this.grid = h("div", { class: "rgrid" }, this.labels, this.heat, this.marks, h("span"));
    this.grid.append(this.ticks);
    this.element = h(
      "div",
      { class: "hpanel rows" },
      h("div", { class: "sh" }, this.heading, this.scaleText),
      h("div", { class: "rtools" }, this.kinds.element, this.filter.element, this.index),
      this.readout,
      this.missing,
      this.grid,
      this.about,
    );
  }

  /** `width`: of the whole panel. */
  show(rows: ChannelRows, counts: Float32Array, scale: Scale, width: number): void {
    this.rows = rows;
    this.counts = counts;
    setText(this.heading, rows.axis[0]?.toUpperCase() + rows.axis.slice(1));
    const indices = parseIndices(this.index.value);
    this.index.setAttribute("aria-invalid", String(indices === null));
    this.index.title = indices === null ? "Write channels such as 3, 8-12" : "";
    this.chosen = rows.missing ? { rows: [], beyond: [] } : filterChannels(rows, counts, this.filter.value, indices ?? []);
    this.filter.setText("dead", rows.dead.length ? `dead ${rows.dead.length}` : "dead");
    this.missing.hidden = !rows.missing;
    setText(this.missing, rows.missing);
    this.grid.hidden = this.readout.hidden = this.chosen.rows.length === 0;
    this.drawAbout();
    setText(this.scaleText, "");
    if (this.grid.hidden || width <= 0) return;
    this.drawRows(scale, width);
    this.drawReading();
  }

  private drawAbout(): void {
    const { rows, chosen } = this;
    const filter = this.filter.value;
    const parts: string[] = [];
    if (rows && !rows.missing) {
      if (rows.rows < rows.channels) parts.push(`first ${rows.rows} of ${formatCount(rows.channels)} ${rows.axis} have rows (more, from the next phase on: session.set_watch_performance(channel_limit=${Math.min(4096, rows.channels)}))`);
      if (chosen.beyond.length) parts.unshift(`${filter === "dead" ? "dead, without a row" : "without a row"}: ${indexText(chosen.beyond)}`);
      if (!chosen.rows.length && !chosen.beyond.length) parts.unshift(filter === "index" ? `no ${rows.axis} of these numbers` : `none of the ${filter === "dead" ? formatCount(rows.channels) : rows.rows} ${rows.axis} is ${filter === "non-finite" ? "not finite" : filter}`);
    }
    this.about.classList.toggle("said", chosen.beyond.length > 0);
    setText(this.about, parts.join(" \u00b7 "));
    this.about.hidden = !parts.length;
  }

  private row(channel: number): Counts {
    return rowCounts(this.rows as ChannelRows, this.counts, channel);
  }

  private drawRows(scale: Scale, width: number): void {
    const rows = this.rows as ChannelRows;
    const { rows: channels } = this.chosen;
    const wide = Math.max(40, width - 20 - 78 - 12);
    this.tall = Math.max(3, Math.min(TALL, Math.floor(ALL_TALL / (channels.length || 1))));
    this.grid.style.setProperty("--tall", `${this.tall}px`);
    const counts = channels.map((channel) => this.row(channel));
    // One axis and one scale for all channels, whichever are shown.
    const everywhere = Array.from({ length: rows.rows }, (_, channel) => this.row(channel));
    const axis = (this.axis = axisFor(scale, wide, everywhere));
    const total = (one: Counts): number => {
      let sum = one.zero;
      for (let i = 0; i < one.sides.length; i++) sum += one.sides[i] ?? 0;
      return sum;
    };
    const octaves = (bin: number): number => Math.log2(edge(bin + 1) / edge(bin));
    const density = (one: Counts, sign: -1 | 1, bin: number, n: number): number => (n ? countAt(one, sign, bin) / n / octaves(bin) : 0);
    let most = 0;
    for (const one of everywhere) {
      const n = total(one);
      for (let bin = one.first; bin < one.first + one.count; bin++) most = Math.max(most, density(one, 1, bin, n), density(one, -1, bin, n));
    }
    setText(this.scaleText, most ? `density of log value, 0 to ${tickText(most)} an octave` : "");
    const lut = lutFor(this.frame.theme, true);
    const ratio = devicePixelRatio;
    const columns = Math.max(1, Math.round(wide * ratio));
    const tall = Math.round(this.tall * ratio);
    this.canvas.width = columns;
    this.canvas.height = Math.max(1, tall * channels.length);
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${this.tall * channels.length}px`;
    const places = Array.from({ length: columns }, (_, i) => {
      const { sign, magnitude } = axis.at((i + 0.5) / ratio);
      return { sign, bin: binOf(magnitude) };
    });
    const context = this.canvas.getContext("2d");
    counts.forEach((one, line) => {
      if (!context) return;
      const n = total(one);
      const image = context.createImageData(columns, Math.max(1, tall - 1));
      const pixels = new Uint32Array(image.data.buffer);
      for (let i = 0; i < columns; i++) {
        const { sign, bin } = places[i] ?? { sign: 0 as const, bin: 0 };
        const share = sign ? density(one, sign, bin, n) / (most || 1) : n ? one.zero / n : 0;
        pixels[i] = lut[Math.max(3, ZERO + Math.round(Math.sqrt(share) * 126))] ?? 0;
      }
      for (let y = 1; y < image.height; y++) pixels.copyWithin(y * columns, 0, columns);
      context.putImageData(image, 0, line * tall);
    });
    this.drawMarks(rows, channels, wide);
    this.ticks.setAttribute("width", String(wide));
    this.ticks.setAttribute("height", "15");
    this.ticks.replaceChildren(...axis.ticks.map(({ x, text }) => svg("text", { x: Math.max(3.4 * text.length, Math.min(wide - 3.4 * text.length, x)), y: 11 }, text)));
  }

  private drawMarks(rows: ChannelRows, channels: number[], wide: number): void {
    const height = this.tall * channels.length;
    this.lines.setAttribute("width", String(wide));
    this.lines.setAttribute("height", String(height));
    const dead = new Set(rows.dead);
    const path = channels.map((channel, line) => (dead.has(channel) ? `M0 ${(line + 0.5) * this.tall}H${wide}` : "")).join("");
    this.lines.replaceChildren(svg("path", { class: "rdead", d: path }), svg("path", { class: "hcur" }));
    const marks = channels.map((channel) => [dead.has(channel) ? "dead" : "", rows.nonfinite[channel] ? `${short(rows.nonfinite[channel] ?? 0)} NaN/Inf` : ""].filter(Boolean).join(" "));
    const key = JSON.stringify([channels, marks, this.tall]);
    if (this.marks.dataset.key === key) return;
    this.marks.dataset.key = key;
    const every = Math.ceil(11 / this.tall);
    this.labels.replaceChildren(...channels.map((channel, line) => h("span", {}, line % every ? "" : String(channel))));
    this.marks.replaceChildren(
      ...channels.map((channel, line) => {
        const mark = marks[line] ?? "";
        const element = h("span", { title: mark && `${channel}: ${mark}` }, mark && h("span", { class: "vh" }, `${channel} `), mark);
        if (mark.includes("NaN")) element.prepend(icon("warn", 11));
        return element;
      }),
    );
  }

  private point(cursor: { row: number; x: number } | null): void {
    this.cursor = cursor && cursor.row >= 0 && cursor.row < this.chosen.rows.length ? cursor : null;
    this.drawReading();
  }

  private move(event: KeyboardEvent): void {
    const { row, x } = this.cursor ?? { row: -1, x: (this.axis?.width ?? 0) / 2 };
    const last = this.chosen.rows.length - 1;
    const wide = this.axis?.width ?? 0;
    const next = { ArrowDown: [Math.min(last, row + 1), x], ArrowUp: [Math.max(0, row - 1), x], ArrowRight: [Math.max(0, row), Math.min(wide - 1, x + 6)], ArrowLeft: [Math.max(0, row), Math.max(0, x - 6)] }[event.key] as [number, number] | undefined;
    if (!next) return;
    this.point({ row: next[0], x: next[1] });
    event.preventDefault();
    event.stopPropagation();
  }

  get reading(): string {
    return this.cursor ? this.text(this.cursor) : "";
  }

  private text({ row, x }: { row: number; x: number }): string {
    const channel = this.chosen.rows[row];
    if (channel === undefined || !this.axis || !this.rows) return "";
    const counts = this.row(channel);
    const name = `${this.rows.axis.replace(/s$/, "")} ${channel}`;
    if (this.rows.dead.includes(channel)) return `${name}: dead, every value was zero`;
    let n = counts.zero;
    for (let i = 0; i < counts.sides.length; i++) n += counts.sides[i] ?? 0;
    const { sign, magnitude } = this.axis.at(x);
    if (!sign) return `${name}: zero: ${valuesText(counts.zero)}, ${shareText(n ? counts.zero / n : 0)}`;
    const bin = binOf(magnitude);
    const count = countAt(counts, sign, bin);
    const ends = sign > 0 ? `[${tickText(edge(bin), 4)}, ${tickText(edge(bin + 1), 4)})` : `(${tickText(-edge(bin + 1), 4)}, ${tickText(-edge(bin), 4)}]`;
    return `${name}: ${ends}: ${valuesText(count)}, ${shareText(n ? count / n : 0)}`;
  }

  private drawReading(): void {
    const { cursor, rows } = this;
    const text = cursor ? this.text(cursor) : "";
    setText(this.readout, text);
    const ring = this.lines.querySelector(".hcur");
    ring?.setAttribute("d", cursor ? `M0 ${cursor.row * this.tall}H${this.axis?.width ?? 0}v${this.tall - 1}H0Z` : "");
    const channels = this.chosen.rows;
    const dead = [...channels.filter((channel) => rows?.dead.includes(channel)), ...(rows?.dead ?? []).filter((channel) => channel >= (rows?.rows ?? 0))];
    this.heat.setAttribute("aria-label", `Rows of ${channels.length} ${rows?.axis ?? "channels"} of ${this.layer}${dead.length ? `; dead: ${indexText(dead)}` : ""}`);
    this.heat.setAttribute("aria-valuemin", "0");
    this.heat.setAttribute("aria-valuemax", String(Math.max(0, channels.length - 1)));
    this.heat.setAttribute("aria-valuenow", String(cursor?.row ?? 0));
    this.heat.setAttribute("aria-valuetext", text || "arrow keys read the rows");
  }
}
