// The panel of one parameter or buffer: what it is, what its optimizers hold, and its tensors side by side.

import type { ViewHost } from "../cards/view";
import { h, setText } from "../lib/dom";
import { formatValue } from "../lib/format";
import { Knobs, type TurnKnob } from "../lib/knobs";
import { decode } from "../lib/pixels";
import type { Pair } from "../lib/protocol";
import type { ExactWeightsAsk, PanelOptimizer, PanelOptions, Region, ScaleMode, WeightAxis, WeightPanel, WeightStrip } from "../lib/protocol_weights";
import { ExactStore } from "../strips/exact";
import { blockMean } from "../strips/readout";
import type { FieldPicture, Spot } from "./field";
import { isInside, planStrip } from "./plan";
import { StripBox } from "./strip";
import { Tools } from "./tools";
import { factsOf, indexText, tensorName, tileLabels, type Place } from "./words";

/** A value is fetched when the pointer stays, not when it only passes. */
const DWELL = 50;
/** Values fetched at once. */
const PIECE = 16_384;

export interface PanelHost {
  host: ViewHost;
  turn: TurnKnob;
  /** What is wanted has changed. */
  ask(): void;
  /** Another reading is under the pointer. */
  read(text: string): void;
}

interface Line {
  element: HTMLElement;
  text: HTMLElement;
  others: HTMLElement;
  knobs: Knobs;
}

export class Panel {
  readonly element: HTMLElement;
  private readonly notes = h("span", { class: "wnotes" });
  private readonly facts = h("div", { class: "wfacts" });
  private readonly lines = h("div", { class: "wopts" });
  private readonly missing = h("div", { class: "wmissing" });
  private readonly readout = h("div", { class: "wread mono" });
  private readonly told: HTMLElement;
  private readonly grid = h("div", { class: "wgrid" });
  private readonly orderNote = h("div", { class: "foot", hidden: true });
  private readonly tools: Tools;
  private readonly boxes = new Map<string, StripBox>();
  private readonly optimizers = new Map<string, Line>();
  private readonly exact: ExactStore;
  private panel: WeightPanel | null = null;
  private order: Int32Array | null = null;
  private snapshot = -1;
  private news = false;
  private chosen: PanelOptions = { split: true, arranged: null, index: [], order: "index", group: false, zoom: 0, region: null, pins: {} };
  private readonly pins = new Map<string, number>();
  /** While another size is awaited, it is not known which scale is pinned for it. */
  private resized = false;
  private scroll: Pair = [0, 0];
  /** The shares of the plane that are to be in the middle once the new size is here. */
  private centre: Pair | null = null;
  private cursor: { spot: Spot; key: string } | null = null;
  private settled = "";
  private dwell: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly name: string,
    private readonly owner: PanelHost,
  ) {
    this.tools = new Tools(name, {
      arrange: (arranged) => this.change(() => (this.chosen.arranged = arranged)),
      place: (axis, place) => this.change(() => this.choosePlace(axis, place), false),
      split: (on) => this.change(() => this.chooseSplit(on)),
      order: (order, group) => this.change(() => Object.assign(this.chosen, { order, group })),
      zoom: (by, fit) => this.zoom(by, fit),
    });
    this.exact = new ExactStore(owner.host, () => this.drawReading(), {
      most: PIECE,
      ask: ({ kind, channel }, window): ExactWeightsAsk => ({ panel: name, strip: kind, tile: Math.floor(channel / 3), colour: channel % 3, window }),
    });
    this.told = h("div", { class: "wtold" }, this.readout, this.tools.zoom);
    this.element = h("section", { class: "wpanel", role: "group", "aria-label": `parameter ${name}` }, h("div", { class: "whead" }, h("h3", {}, name), this.notes), this.facts, this.lines, this.tools.element, this.told, this.grid, this.missing, this.orderNote);
  }

  options(mode: ScaleMode): PanelOptions | null {
    const pins: Record<string, number> = {};
    if (mode === "pinned" && !this.resized) {
      for (const { strip } of this.boxes.values()) {
        const pin = strip && this.pins.get(pinKey(strip));
        if (strip && pin !== undefined && pin !== null) pins[strip.key] = pin;
      }
    }
    const plain = this.chosen.arranged === null && this.chosen.split && !this.chosen.index.length && this.chosen.order === "index" && !this.chosen.group && !this.chosen.zoom && !this.chosen.region;
    return plain && !Object.keys(pins).length ? null : { ...this.chosen, pins };
  }

  /** From now on the scales stay as they are, or no longer. */
  pin(on: boolean): void {
    this.pins.clear();
    if (on) for (const { strip } of this.boxes.values()) if (strip) this.pins.set(pinKey(strip), strip.scale);
  }

  receive(panel: WeightPanel, order: Uint8Array | null, snapshot: number, pinned: boolean): void {
    this.panel = panel;
    this.order = order && new Int32Array(order.slice().buffer);
    this.news = snapshot !== this.snapshot;
    this.snapshot = snapshot;
    this.exact.begin(snapshot);
    this.element.setAttribute("aria-label", `${panel.kind} ${panel.name}`);
    // Known from before at this size: then it is to be drawn on that scale.
    if (pinned && this.resized) this.owner.ask();
    this.resized = false;
    if (pinned) for (const strip of panel.strips) if (!strip.missing && !this.pins.has(pinKey(strip))) this.pins.set(pinKey(strip), strip.scale);
  }

  draw(buffers: Uint8Array[], columns: number, room: number): void {
    const { panel } = this;
    if (!panel) return;
    const { frame } = this.owner.host;
    const alive = frame.alive();
    const drawn = panel.strips.filter(({ missing }) => !missing);
    this.drawWords(panel, alive);
    this.tools.update(panel, alive, drawn.some(({ layout }) => layout !== "number"));
    this.grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    for (const [key, box] of this.boxes) {
      if (drawn.some((strip) => strip.key === key)) continue;
      box.destroy();
      box.element.remove();
      this.boxes.delete(key);
    }
    drawn.forEach((strip, i) => {
      const box = this.box(strip.key);
      if (this.grid.children[i] !== box.element) this.grid.insertBefore(box.element, this.grid.children[i] ?? null);
      box.show(panel, strip, strip.layout === "number" ? null : this.picture(panel, strip, buffers, room));
    });
    this.grid.hidden = drawn.length === 0;
    this.told.hidden = !drawn.some(({ layout }) => layout !== "number");
    this.settleScroll();
    this.drawReading();
  }

  destroy(): void {
    clearTimeout(this.dwell);
    for (const box of this.boxes.values()) box.destroy();
  }

  private box(key: string): StripBox {
    let box = this.boxes.get(key);
    if (!box) {
      box = new StripBox(key, {
        hover: (spot) => this.point(spot, key),
        scrolled: (left, top) => this.scrolled(key, left, top),
        zoom: (by, fit) => this.zoom(by, fit),
      });
      this.boxes.set(key, box);
    }
    return box;
  }

  private picture(panel: WeightPanel, strip: WeightStrip, buffers: Uint8Array[], room: number): FieldPicture {
    const { theme, warn, ink } = this.owner.host.frame;
    const axes = axesOf(panel, strip);
    const labels = tileLabels(axes, strip.arranged);
    const grouped = !strip.own.length && panel.ordered === "tile" ? panel.groups : [];
    const plan = planStrip(strip, room, devicePixelRatio, labels, grouped);
    const caption = (position: number): string => {
      const tile = this.tileOf(strip, position);
      return labels[tile] ?? String(tile);
    };
    const what = strip.layout === "lines" ? "bars" : strip.tiles > 1 ? `${strip.tiles} tiles of ${strip.full.join(" by ")}` : strip.full.join(" by ");
    const label = `${tensorName(panel, strip)}, ${what}; arrow keys move between values, plus and minus zoom`;
    return { strip, codes: buffers[strip.buffer] ?? new Uint8Array(0), plan, look: { theme, warn, unsigned: strip.unsigned }, ink, ratio: devicePixelRatio, label, caption };
  }

  // ---------------------------------------------------------------- words

  private drawWords(panel: WeightPanel, alive: boolean): void {
    setText(this.notes, panel.notes.join(" \u00b7 "));
    const facts = factsOf(panel);
    const key = JSON.stringify(facts);
    if (this.facts.dataset.key !== key) {
      this.facts.dataset.key = key;
      this.facts.replaceChildren(...facts.map(([name, value]) => h("span", {}, name && h("span", { class: "mut" }, `${name} `), h("span", { class: "mono" }, value))));
    }
    this.drawOptimizers(panel.optimizers, alive);
    const reasons = new Map<string, string[]>();
    for (const { missing, title } of panel.strips) if (missing) reasons.set(missing, [...(reasons.get(missing) ?? []), title]);
    this.missing.hidden = reasons.size === 0;
    const text = JSON.stringify([...reasons]);
    if (this.missing.dataset.key !== text) {
      this.missing.dataset.key = text;
      this.missing.replaceChildren(...[...reasons].map(([reason, titles]) => h("p", {}, h("b", {}, titles.join(", ")), ` ${reason.replace(/^no (gradient|update): /, "none: ")}`)));
    }
    const other = panel.strips.some(({ own }) => own.length);
    const note = [panel.order_note && `${panel.ordered === "tile" ? "Tiles" : "Rows"} ${panel.order_note}`, panel.order !== "index" && !panel.order_note && this.panel?.ordered && `${panel.ordered === "tile" ? "Tiles" : "Rows"} in the order of ${panel.kind === "buffer" ? "its" : "the weights'"} ${panel.order}${other ? " where the shapes agree" : ""}`].filter(Boolean).join("; ");
    this.orderNote.hidden = !note;
    setText(this.orderNote, note);
  }

  private drawOptimizers(optimizers: PanelOptimizer[], alive: boolean): void {
    const keys = optimizers.map(({ optimizer, group }) => `${optimizer} ${group}`);
    for (const [key, { element }] of this.optimizers) {
      if (keys.includes(key)) continue;
      element.remove();
      this.optimizers.delete(key);
    }
    optimizers.forEach((one, i) => {
      const key = keys[i] ?? "";
      const groups = one.group ? `${one.label}, group ${one.group}` : one.label;
      let line = this.optimizers.get(key);
      if (!line) {
        const [text, others] = [h("span"), h("span", { class: "mut" })];
        const knobs = new Knobs(`${groups} for ${this.name}`, this.owner.turn);
        line = { text, others, knobs, element: h("div", { class: "wopt" }, h("b", {}, one.label), text, knobs.element, others) };
        this.optimizers.set(key, line);
        this.lines.append(line.element);
      }
      setText(line.text, one.scalars.map(([name, value]) => `${name} ${formatValue(value)}`).join(", "));
      line.text.hidden = !one.scalars.length;
      setText(line.others, one.others);
      line.knobs.update(one.knobs.map(({ name, value }) => ({ name, value, optimizer: one.optimizer, group: one.group })), groups, alive, this.news, this.owner.host.frame.locked() || this.owner.host.frame.noLoop());
    });
    this.lines.hidden = optimizers.length === 0;
  }

  // ---------------------------------------------------------------- what is chosen

  private change(set: () => void, anew = true): void {
    set();
    if (anew) {
      this.scroll = [0, 0];
      this.chosen.region = null;
      this.centre = null;
      for (const box of this.boxes.values()) box.field.scrollTo(0, 0);
    }
    this.point(null, "");
    this.owner.ask();
  }

  private choosePlace(axis: number, place: number): void {
    const index = [...(this.panel?.index ?? [])];
    index[axis] = place;
    this.chosen.index = index;
  }

  private chooseSplit(on: boolean): void {
    Object.assign(this.chosen, { split: on, arranged: null, index: [] });
  }

  private zoom(by: number, fit = false): void {
    if (!this.owner.host.frame.alive()) return;
    this.centre = fit ? null : ([...this.boxes.values()].find(({ strip }) => strip && strip.layout !== "number")?.field.middle ?? null);
    const zoom = fit ? 0 : Math.max(-12, Math.min(16, this.chosen.zoom + by));
    this.chosen.zoom = zoom;
    this.chosen.region = null;
    this.resized = true;
    if (fit) this.scroll = [0, 0];
    this.owner.ask();
  }

  // ---------------------------------------------------------------- scrolling

  /** After a new picture: to where it was, and to what is missing there. */
  private settleScroll(): void {
    const [first] = this.alike();
    if (!first) return;
    if (this.centre) {
      this.scroll = first.field.scrollFor(this.centre);
      this.centre = null;
    }
    for (const box of this.alike()) box.field.scrollTo(...this.scroll);
    this.follow();
  }

  private scrolled(key: string, left: number, top: number): void {
    if (this.panel?.strips.some((strip) => strip.key === key && strip.own.length)) return;
    if (Math.abs(left - this.scroll[0]) < 0.5 && Math.abs(top - this.scroll[1]) < 0.5) return;
    this.scroll = [left, top];
    for (const box of this.alike()) box.field.scrollTo(left, top);
    this.follow();
  }

  /** Asks for what is on screen and not here. */
  private follow(): void {
    const [first] = this.alike();
    const strip = first?.strip;
    const seen = first?.field.region(0);
    if (!first || !strip || !seen || isInside(seen, strip.region)) return;
    const wanted = first.field.region(0.5) as Region;
    if (JSON.stringify(wanted) === JSON.stringify(this.chosen.region)) return;
    this.chosen.region = wanted;
    this.owner.ask();
  }

  /** Strips that are laid out like the parameter, and scroll with each other. */
  private alike(): StripBox[] {
    return [...this.boxes.values()].filter(({ strip }) => strip && !strip.own.length && strip.layout !== "number");
  }

  // ---------------------------------------------------------------- the value under the pointer

  private tileOf(strip: WeightStrip, position: number): number {
    return this.panel?.ordered === "tile" && !strip.own.length && this.order ? (this.order[position] ?? position) : position;
  }

  private point(spot: Spot | null, key: string): void {
    this.cursor = spot && { spot, key };
    const name = spot ? `${spot.position} ${spot.row} ${spot.col}` : "";
    if (spot && name !== this.settled) {
      clearTimeout(this.dwell);
      this.dwell = setTimeout(() => {
        this.settled = name;
        this.drawReading();
      }, DWELL);
    }
    this.drawReading();
  }

  private drawReading(): void {
    const { cursor, panel } = this;
    if (!panel) return;
    const parts: string[] = [];
    let own = "";
    for (const box of this.boxes.values()) {
      const { strip } = box;
      const pointed = strip && cursor && (cursor.key === box.key || (!strip.own.length && !this.boxes.get(cursor.key)?.strip?.own.length));
      box.field.mark(pointed ? cursor.spot : null);
      if (!strip || !pointed || strip.layout === "number") continue;
      const text = this.textOf(panel, strip, cursor.spot);
      if (box.key === cursor.key) own = text;
      else parts.push(text.replace(/^.*?\](?: mean)?/, strip.title));
    }
    // What is pointed at comes first; the others stand at the same place.
    if (own) parts.unshift(own);
    this.owner.read(own);
    setText(this.readout, parts.length ? parts.join("  \u00b7  ") : "Point at a value to read it.");
    this.readout.classList.toggle("idle", parts.length === 0);
    this.readout.title = parts.join("\n");
  }

  private textOf(panel: WeightPanel, strip: WeightStrip, spot: Spot): string {
    const place = this.placeOf(panel, strip, spot);
    const where = tensorName(panel, strip) + indexText(axesOf(panel, strip), strip.arranged, strip.index, place);
    const several = place.rows * place.cols > 1;
    const exact = this.exactAt(strip, place);
    if (exact) return `${where}${several && strip.layout !== "lines" ? " mean" : ""} = ${exact.map(formatValue).join(strip.layout === "lines" && several ? " to " : ", ")}`;
    const codes = this.boxes.get(strip.key)?.field.codesAt(spot);
    if (!codes) return where;
    const values = codes.map((code) => formatValue(decode(code, strip.scale)));
    return `${where}${several && strip.layout !== "lines" ? " mean" : ""} \u2248 ${values.join(strip.layout === "lines" && several ? " to " : ", ")}`;
  }

  private placeOf(panel: WeightPanel, strip: WeightStrip, { position, row, col }: Spot): Place {
    const byRow = panel.ordered === "y" && !strip.own.length && this.order !== null;
    const rows = strip.layout === "lines" ? 1 : Math.min(strip.pool, strip.full[0] - row);
    const cols = Math.min(strip.pool, strip.full[1] - col);
    const at = byRow && this.order ? (this.order[row] ?? row) : row;
    return { tile: this.tileOf(strip, position), row: at, col, rows, cols, scattered: byRow && rows > 1 };
  }

  /** One value or, in colour, three; of a pooled pixel the mean; null while it is not here. */
  private exactAt(strip: WeightStrip, place: Place): number[] | null {
    const { cursor } = this;
    if (!this.owner.host.frame.alive() || place.scattered || !cursor || this.settled !== `${cursor.spot.position} ${cursor.spot.row} ${cursor.spot.col}`) return null;
    const of = JSON.stringify([strip.arranged, strip.index, this.panel?.split]);
    const values: number[] = [];
    for (let colour = 0; colour < strip.colours; colour++) {
      const tile = this.exact.tile({ kind: strip.key, of, channel: 3 * place.tile + colour, full: strip.full });
      const at = (row: number, col: number): number | undefined => tile.at(row, col);
      if (strip.layout === "lines" && place.cols > 1) {
        const all = Array.from({ length: place.cols }, (_, i) => at(0, place.col + i));
        if (all.some((value) => value === undefined)) return null;
        values.push(Math.min(...(all as number[])), Math.max(...(all as number[])));
        continue;
      }
      const pooled = place.rows * place.cols > 1;
      const value = pooled ? blockMean(at, { channel: 0, row: place.row, col: place.col }, [strip.pool, strip.pool], strip.full) : at(place.row, place.col);
      if (value === undefined || value === null) return null;
      values.push(value);
    }
    return values;
  }
}

function axesOf(panel: WeightPanel, strip: WeightStrip): WeightAxis[] {
  return strip.own.length ? strip.own : panel.axes;
}

/** Means of many values have another scale than these. */
function pinKey(strip: WeightStrip): string {
  return `${strip.key} ${strip.layout === "lines" ? 1 : strip.pool}`;
}
