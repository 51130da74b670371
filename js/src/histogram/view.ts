// The view Histogram: the statistics of a layer, histograms of one row of them, and rows for its channels.

import { OfferLine } from "../cards/offer";
import { scopeText } from "../cards/scope";
import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { Choice } from "../lib/choice";
import { h, setText } from "../lib/dom";
import type { Card, Kind } from "../lib/protocol";
import type { Bars, Figure, HistogramContent, HistogramOptions, InBin, InBinAsk } from "../lib/protocol_statistics";
import type { Scale } from "./axis";
import type { Bar } from "./bins";
import type { Height } from "./heights";
import { Plot, type PlotChoice, type Series } from "./plot";
import { RowsPanel } from "./rows";
import { rowLabel, StatsTable } from "./table";

const KINDS: Kind[] = ["activations", "gradients"];
const BATCH = "batch";
/** The kernel is asked for samples when the pointer stays, not when it only passes. */
const DWELL = 120;
const NARROW = 440;
const SIDE_BY_SIDE = 780;
/** Two columns more where values are not finite. */
const ROOM_FOR_BAD = 240;

class HistogramView implements CardView {
  readonly element: HTMLElement;
  private readonly scope = h("span");
  readonly tools = h("div", { class: "vt" }, this.scope);
  private source = "";
  private compare = "";
  private rowsOf: Kind = "activations";
  private readonly choice: PlotChoice = { x: "log", y: "linear", height: "density", bands: false };
  private content: HistogramContent | null = null;
  private buffers: Uint8Array[] = [];
  private fresh = false;
  private width = 0;
  private snapshot = -1;
  private dwell: ReturnType<typeof setTimeout> | undefined;
  private readonly offer: OfferLine;
  private readonly legend = h("span", { class: "hlegend" });
  private readonly table: StatsTable;
  private readonly plots: Plot[];
  private readonly rows: RowsPanel;
  private readonly body: HTMLElement;

  constructor(private readonly host: ViewHost) {
    this.offer = new OfferLine(host);
    this.table = new StatsTable(host.layer, {
      draw: (key) => this.choose(() => (this.source = key)),
      compare: (key) => this.choose(() => (this.compare = key)),
    });
    this.plots = KINDS.map((kind) => new Plot(kind, { point: (bar) => this.point(kind, bar) }));
    this.rows = new RowsPanel(host.layer, host.frame, { kind: (kind) => this.choose(() => (this.rowsOf = kind)), changed: () => host.drawSoon() });
    const bands = h("input", { type: "checkbox" });
    bands.addEventListener("change", () => this.redraw(() => (this.choice.bands = bands.checked)));
    const scale = (label: string, entries: [Scale, string, string][], value: Scale, set: (key: Scale) => void): HTMLElement => new Choice(label, entries, value, (key) => this.redraw(() => set(key))).element;
    const tools = h(
      "div",
      { class: "htools" },
      scale("Value axis", [["log", "log x", "Values on a signed log axis"], ["linear", "linear x", "Values on a linear axis"]], "log", (key) => (this.choice.x = key)),
      scale("Height axis", [["linear", "linear y", "Heights on a linear axis"], ["log", "log y", "Heights on a log axis"]], "linear", (key) => (this.choice.y = key)),
      new Choice<Height>("Height is", [["density", "density", "Share of all values by the bar's width"], ["count", "count", "Values in a bar"]], "density", (key) => this.redraw(() => (this.choice.height = key))).element,
      h("label", { class: "hcheck" }, bands, "Show subnormal / overflow"),
      this.legend,
    );
    this.body = h("div", { class: "hbody" }, h("div", { class: "hplots" }, ...this.plots.map(({ element }) => element)), this.rows.element);
    this.element = h("div", { class: "histogram" }, this.offer.element, this.table.element, tools, this.body);
    this.draw();
  }

  options(): HistogramOptions {
    return { source: this.source, compare: this.compare, rows: this.rowsOf };
  }

  receive(card: Card, buffers: Uint8Array[], snapshot: number): void {
    const content = card.content as HistogramContent;
    this.content = content;
    setText(this.scope, scopeText(card));
    this.buffers = buffers;
    this.snapshot = snapshot;
    this.fresh = true;
    // It opened on the phase in training: from then on it follows that phase, and does not leave it for the next.
    if (!this.source && content.chosen && content.chosen !== BATCH) this.source = `${content.chosen.slice(0, content.chosen.lastIndexOf(":"))}:`;
  }

  get reading(): string {
    return this.rows.reading || this.plots.map(({ reading }) => reading).find(Boolean) || "";
  }

  measure(): boolean {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  draw(): void {
    const { content } = this;
    this.offer.show(content);
    const some = content !== null && content.figures.length > 0;
    for (const element of this.element.children) if (element !== this.offer.element) (element as HTMLElement).hidden = !some;
    if (!content || !some) return;
    const card = this.element.closest<HTMLElement>(".card");
    const bad = content.rows.some(({ activations: a, gradients: g }) => [a, g].some((numbers) => numbers.nan + numbers.posinf + numbers.neginf > 0));
    const form = (card?.clientWidth ?? 1000) <= NARROW ? "narrow" : this.width < SIDE_BY_SIDE + (bad ? ROOM_FOR_BAD : 0) ? "mid" : "wide";
    const [chosen, other] = content.figures;
    this.table.show(content.rows, content.chosen, other?.key ?? "", form);
    this.drawLegend(content, other);
    this.body.classList.toggle("stacked", this.width < 560);
    const width = this.plots[0]?.element.clientWidth ?? 0;
    for (const plot of this.plots) plot.show(this.series(plot.kind, [chosen, other]), this.choice, width);
    const { channels } = content;
    if (channels) this.rows.show(channels, new Float32Array(this.bytes(channels.buffer)), this.choice.x, this.rows.element.clientWidth);
    if (this.fresh) for (const plot of this.plots) plot.renew();
    this.fresh = false;
  }

  destroy(): void {
    clearTimeout(this.dwell);
  }

  private series(kind: Kind, figures: (Figure | undefined)[]): Series[] {
    return figures.flatMap((figure) => {
      if (!figure) return [];
      const bars: Bars = figure[kind];
      const counts = { zero: bars.zero, first: bars.first, count: bars.count, sides: new Float64Array(this.bytes(bars.buffer)) };
      return [{ bars, counts }];
    });
  }

  /** A copy: what comes over the wire may begin anywhere, and numbers may not. */
  private bytes(buffer: number): ArrayBuffer {
    return (this.buffers[buffer] ?? new Uint8Array(0)).slice().buffer as ArrayBuffer;
  }

  private drawLegend(content: HistogramContent, other: Figure | undefined): void {
    const label = (key: string | undefined): string => {
      const row = content.rows.find((one) => one.key === key);
      return row ? rowLabel(row) : "";
    };
    const entries: [string, string][] = [["lfill", label(content.chosen)], ...(other ? [["lline", label(other.key)] as [string, string]] : [])];
    const key = JSON.stringify(entries);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    this.legend.replaceChildren(...entries.map(([cls, text]) => h("span", {}, h("i", { class: cls, "aria-hidden": "true" }), text)));
  }

  private choose(set: () => void): void {
    set();
    this.host.frame.wantSoon();
  }

  private redraw(set: () => void): void {
    set();
    this.host.drawSoon();
  }

  private point(kind: Kind, bar: Bar | null): void {
    clearTimeout(this.dwell);
    if (!bar || !this.host.frame.alive()) return;
    const plot = this.plots[KINDS.indexOf(kind)];
    const { content, snapshot } = this;
    if (content?.chosen !== BATCH) return plot?.tell(bar, "samples are known for the current batch only");
    this.dwell = setTimeout(() => {
      const ask: InBinAsk = { kind, sign: bar.sign, low: bar.low, high: bar.high };
      this.host.fetch<InBin>(ask).then(({ reply }) => {
        // The samples of a later batch would not belong to the picture on screen.
        if (reply.snapshot === snapshot && this.content?.chosen === BATCH) plot?.tell(bar, samplesText(reply));
      }, () => undefined);
    }, DWELL);
  }
}

function samplesText({ missing, samples, total, of }: InBin): string {
  if (missing) return missing;
  const named = samples.map(([sample, values]) => `${sample} (${values})`).join(", ");
  return `in ${total} of ${of} samples: ${named}${total > samples.length ? ", \u2026" : ""}`;
}

export const histogram: ViewKind = { key: "histogram", title: "Histogram", make: (host) => new HistogramView(host) };
