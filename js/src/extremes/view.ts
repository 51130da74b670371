// The view Extremes: for each channel of a layer the inputs that drove it to its largest and smallest responses.

import { OfferLine } from "../cards/offer";
import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { Choice } from "../lib/choice";
import { mapGradient } from "../lib/colormap";
import { focusedNear, h, setOptions, setText } from "../lib/dom";
import { formatCount, formatScale } from "../lib/format";
import { icon } from "../lib/icons";
import type { Card } from "../lib/protocol";
import type { By, ChannelPatches, ExtremesContent, ExtremesOptions, PatchCell } from "../lib/protocol_extremes";
import { patchButton, signalLines } from "./cell";
import { detailText, fieldText, originText, poolText, reading } from "./words";

/** Channels on one page. */
const PAGE = 8;
/** Longest edge of a patch in CSS pixels, about. */
const EDGE = 56;
const ENDS = ["largest", "smallest"] as const;

class ExtremesView implements CardView {
  readonly element: HTMLElement;
  private source = "";
  private by: By = "pixel";
  private first = 0;
  private heat = false;
  private content: ExtremesContent | null = null;
  private buffers: Uint8Array[] = [];
  private width = 0;
  private drawn = "";
  private pointed = "";
  private readonly offer: OfferLine;
  private readonly sources: HTMLSelectElement;
  private readonly choice: Choice<By>;
  private readonly overlay = h("input", { type: "checkbox" });
  private readonly legendMap = h("i", { class: "map", "aria-hidden": "true" });
  private readonly legendLow = h("span");
  private readonly legendHigh = h("span");
  private readonly legend = h("span", { class: "leg", role: "img", hidden: true }, this.legendLow, this.legendMap, this.legendHigh);
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly range = h("span", { class: "num" });
  private readonly pager: HTMLElement;
  private readonly bar: HTMLElement;
  private readonly about = h("p", { class: "xabout" });
  private readonly info = h("p", { class: "xinfo", role: "status" });
  private readonly heads = h("div", { class: "xheads", "aria-hidden": "true" }, h("span"), h("span", {}, "largest responses"), h("span", {}, "smallest responses"));
  private readonly rows: HTMLElement;

  constructor(private readonly host: ViewHost) {
    const { layer } = host;
    this.offer = new OfferLine(host);
    this.sources = h("select", { class: "sel", "aria-label": `Phase and epoch of the patches of ${layer}` });
    this.sources.addEventListener("change", () => this.ask(() => (this.source = this.sources.value)));
    this.choice = new Choice<By>("Response", [["pixel", "pixel", "Samples by the single most extreme unit; the part of the input that it sees"], ["average", "average", "Samples by the channel's mean response; the whole input"]], "pixel", (by) => this.ask(() => (this.by = by)));
    this.overlay.addEventListener("change", () => this.ask(() => (this.heat = this.overlay.checked)));
    const step = (name: "left" | "right", label: string, by: number): HTMLButtonElement =>
      h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: () => this.ask(() => (this.first = Math.max(0, this.first + by * PAGE))) }, icon(name));
    this.previous = step("left", `Previous channels of ${layer}`, -1);
    this.next = step("right", `Next channels of ${layer}`, 1);
    this.pager = h("span", { class: "rng" }, this.previous, this.range, this.next);
    this.bar = h("div", { class: "htools" }, this.sources, this.choice.element, h("label", { class: "hcheck", title: "The channel's response to the whole sample, laid over the patch" }, this.overlay, "Show responses"), this.legend, this.pager);
    this.rows = h("div", { class: "xrows", role: "group", "aria-label": `Extreme patches of ${layer}` });
    this.rows.addEventListener("keydown", (event) => this.move(event));
    this.element = h("div", { class: "extremes" }, this.offer.element, this.bar, this.about, this.info, this.heads, this.rows);
    this.draw();
  }

  options(): ExtremesOptions {
    return { source: this.source, by: this.by, heat: this.heat, first: this.first, count: PAGE, px: Math.round(EDGE * devicePixelRatio) };
  }

  receive(card: Card, buffers: Uint8Array[]): void {
    const content = card.content as ExtremesContent;
    this.content = content;
    this.buffers = buffers;
    this.first = content.first;
    this.drawn = "";
    // It opened on the phase in training: from then on it follows that phase, and does not leave it for the next.
    if (!this.source && content.chosen) this.source = `${content.chosen.slice(0, content.chosen.lastIndexOf(":"))}:`;
  }

  get reading(): string {
    return this.pointed;
  }

  measure(): boolean {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  draw(): void {
    const { content } = this;
    const alive = this.host.frame.alive();
    this.offer.show(content);
    const some = content !== null && content.chosen !== "";
    for (const part of [this.bar, this.about, this.info, this.heads, this.rows]) part.hidden = !some;
    if (!content || !some) return;
    this.drawTools(content, alive);
    const lines = [content.input && `patches of ${content.input === "input" ? "the input" : `the input ${content.input}`}`, fieldText(content), poolText(content), content.about, content.nan ? `${formatCount(content.nan)} responses were NaN` : ""];
    setText(this.about, [content.note, lines.filter(Boolean).join("; ")].filter(Boolean).join(" \u00b7 "));
    const none = content.patches.length === 0;
    this.info.hidden = this.heads.hidden = none;
    this.element.classList.toggle("stacked", this.width < 780);
    const key = `${this.host.frame.theme} ${devicePixelRatio} ${this.width}`;
    if (this.drawn === key) return;
    this.drawn = key;
    this.drawRows(content);
  }

  private drawTools(content: ExtremesContent, alive: boolean): void {
    const entries = content.sources.map(({ key, phase, epoch, batches }): [string, string] => [key, `epoch ${epoch + 1}, ${phase} (${formatCount(batches)} ${batches === 1 ? "batch" : "batches"})`]);
    setOptions(this.sources, entries, content.chosen);
    this.choice.element.hidden = !content.averages;
    const last = content.first + content.patches.length;
    this.pager.hidden = content.rows === 0;
    setText(this.range, `${content.axis} ${content.first}\u2013${last - 1} of ${content.channels}${content.rows < content.channels ? `, kept: first ${content.rows}` : ""}`);
    this.previous.disabled = content.first === 0 || !alive;
    this.next.disabled = last >= content.rows || !alive;
    this.sources.disabled = this.overlay.disabled = !alive;
    const unsigned = content.patches.every((row) => row.unsigned);
    this.legend.hidden = !this.heat || content.patches.length === 0;
    this.legendMap.style.background = mapGradient(this.host.frame.theme, unsigned);
    setText(this.legendLow, unsigned ? "0" : "-max");
    setText(this.legendHigh, "max of the channel");
    this.legend.setAttribute("aria-label", `colour scale of each channel's responses, from ${unsigned ? "0" : "minus its largest magnitude"} to its largest magnitude`);
  }

  private drawRows(content: ExtremesContent): void {
    const focused = focusedNear(this.rows);
    const at = focused instanceof HTMLElement && this.rows.contains(focused) ? [focused.closest<HTMLElement>(".xrow")?.dataset.channel, focused.dataset.end, focused.dataset.rank] : null;
    this.rows.replaceChildren(...content.patches.map((row) => this.row(content, row)));
    const buttons = [...this.rows.querySelectorAll<HTMLButtonElement>(".xp")];
    const again = at && this.rows.querySelector<HTMLButtonElement>(`.xrow[data-channel="${at[0]}"] .xp[data-end="${at[1]}"][data-rank="${at[2]}"]`);
    const stop = again || buttons[0];
    if (stop) stop.tabIndex = 0;
    if (again) again.focus({ preventScroll: true });
    else this.tell("");
  }

  private row(content: ExtremesContent, row: ChannelPatches): HTMLElement {
    const cells = [...row.largest, ...row.smallest];
    const values = cells.flatMap((cell) => signalLines(cell, this.buffers).flatMap((line) => [...line])).filter(Number.isFinite);
    const options = {
      frame: this.host.frame,
      buffers: this.buffers,
      edge: Math.round(EDGE * devicePixelRatio),
      averaged: content.by === "average",
      range: values.reduce(([low, high], value): [number, number] => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity] as [number, number]),
    };
    if (cells.length && cells.every(({ value }) => value === 0)) {
      const why = h("div", { class: "xside mut" }, icon("warn", 13), ` dead: every ${options.averaged ? "mean" : "response"} was 0`);
      return h("div", { class: "xrow xdead", "data-channel": row.channel }, h("div", { class: "xch" }, h("span", {}, `ch ${row.channel}`)), why);
    }
    const scale = this.heat && row.scale ? `${row.unsigned ? "0\u2026" : "\u00b1"}${formatScale(row.scale)}` : "";
    const ends = ENDS.map((end) => {
      const list = h("div", { class: "xend", role: "group", "aria-label": `channel ${row.channel}, ${end} responses` });
      row[end].forEach((cell, rank) => list.append(this.button(patchButton(cell, row, end, rank, options), row, cell, options.averaged)));
      if (!row[end].length) list.append(h("span", { class: "mut" }, "none"));
      const [first] = row[end];
      if (row[end].length > 1 && row[end].every(({ value }) => value === first?.value)) list.append(h("span", { class: "mut" }, "all equal: the first that came"));
      return h("div", { class: "xside" }, h("span", { class: "xword mut", "aria-hidden": "true" }, end), list);
    });
    return h("div", { class: "xrow", "data-channel": row.channel }, h("div", { class: "xch" }, h("span", {}, `ch ${row.channel}`), scale && h("span", { class: "mut" }, scale)), ...ends);
  }

  private button(button: HTMLButtonElement, row: ChannelPatches, cell: PatchCell, averaged: boolean): HTMLButtonElement {
    const words = reading(row.channel, cell, averaged);
    const tell = (): void => this.tell(words, detailText(cell));
    button.addEventListener("pointerenter", tell);
    button.addEventListener("focus", () => {
      for (const other of this.rows.querySelectorAll<HTMLElement>(".xp[tabindex='0']")) other.tabIndex = -1;
      button.tabIndex = 0;
      tell();
    });
    button.addEventListener("click", () => this.follow(cell, words));
    return button;
  }

  /** To the sample itself, if the batch that is shown has it. */
  private follow(cell: PatchCell, words: string): void {
    if (!cell.current) return this.tell(words, `${originText(cell)}: that batch is not the one shown now`);
    const went = this.host.frame.showSample(cell.sample);
    this.tell(words, went ? `sample ${cell.sample} is now shown in the strips` : `sample ${cell.sample} of the batch that is shown now`);
  }

  private tell(words: string, more = ""): void {
    this.pointed = words;
    this.info.replaceChildren(h("b", {}, words || "Point at a patch to read where it comes from; click it to see its sample."), more && h("span", {}, more));
    this.info.classList.toggle("mut", !words);
  }

  private move(event: KeyboardEvent): void {
    const target = (event.target as HTMLElement).closest<HTMLElement>(".xp");
    const row = target?.closest<HTMLElement>(".xrow");
    if (!target || !row) return;
    const here = [...row.querySelectorAll<HTMLElement>(".xp")];
    const at = here.indexOf(target);
    const beside = { ArrowLeft: here[at - 1], ArrowRight: here[at + 1], Home: here[0], End: here[here.length - 1] }[event.key];
    const sibling = event.key === "ArrowDown" ? row.nextElementSibling : event.key === "ArrowUp" ? row.previousElementSibling : null;
    const below = sibling ? [...sibling.querySelectorAll<HTMLElement>(".xp")] : [];
    const next = beside ?? below[Math.min(at, below.length - 1)];
    if (!next) return;
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  private ask(set: () => void): void {
    set();
    this.host.frame.wantSoon();
  }
}

export const extremes: ViewKind = { key: "extremes", title: "Extremes", make: (host) => new ExtremesView(host) };
