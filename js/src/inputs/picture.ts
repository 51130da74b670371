// The picture of an input: its pixels enlarged by a whole factor, what is painted on it before the kernel has answered,
// and marks over it. The pointer paints, and so do the arrow keys with Space.

import { h, setText, svg } from "../lib/dom";
import type { FieldShown, PictureShown } from "../lib/protocol_inputs";
import { paintBytes, putBytes, type Bytes } from "./bytes";
import { roughly, valuesOf } from "./levels";
import { outlinePath } from "./outline";
import { brushCells, Stroke, type Cell } from "./stroke";

/** How the pointer paints now; null: it only reads. */
export interface Brush {
  size: number;
  /** null: what was there originally. */
  levels: number[] | null;
}

interface Events {
  brush(): Brush | null;
  paint(stroke: number, cells: Cell[], brush: Brush): void;
}

interface Painted {
  levels: number[] | null;
  stroke: number;
  answered: boolean;
}

/** CSS pixels a pixel from which painted ones are outlined. */
const OUTLINED = 3;

let strokes = 0;
let pictures = 0;

export class PictureSurface {
  private readonly canvas = h("canvas", { tabindex: 0 });
  private readonly over = svg("svg", { class: "iover", "aria-hidden": "true" });
  private readonly help = h("span", { class: "vh", id: `nsw-picture-${++pictures}` }, "Arrow keys move the cursor; Space or Enter paints there with the brush or the eraser.");
  private readonly reading = h("div", { class: "iread mono", role: "status" });
  private readonly box = h("div", { class: "ipic" }, this.canvas, this.over, this.help);
  readonly element = h("div", { class: "ipicture", hidden: true }, this.box, this.reading);
  private picture: PictureShown | null = null;
  private bytes: Uint8Array = new Uint8Array(0);
  private key = "";
  /** Pixels as they were before they were painted, as far as they have been seen: for the eraser. */
  private base = new Map<number, number[]>();
  private readonly painted = new Map<number, Painted>();
  private edited: Cell[] = [];
  private stroke: Stroke | null = null;
  private cursor: Cell | null = null;
  private field: FieldShown | null = null;

  constructor(private readonly events: Events) {
    this.canvas.setAttribute("aria-describedby", this.help.id);
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("lostpointercapture", () => (this.stroke = null));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", () => this.point(null));
    this.canvas.addEventListener("focus", () => this.canvas.matches(":focus-visible") && this.picture && this.point([Math.floor(this.picture.rows / 2), Math.floor(this.picture.columns / 2)]));
  }

  /** What the kernel sent; `key` tells which picture it is, of which batch. */
  receive(picture: PictureShown | null, bytes: Uint8Array, key: string): void {
    this.element.hidden = picture === null;
    this.picture = picture;
    this.bytes = bytes;
    if (!picture) return;
    const whole = `${key} ${picture.slice} ${picture.rows} ${picture.columns} ${picture.paint}`;
    if (whole !== this.key) {
      this.key = whole;
      this.base.clear();
      this.painted.clear();
      this.stroke = null;
    }
    for (const [at, { answered }] of this.painted) if (answered) this.painted.delete(at);
    this.remember(picture);
  }

  draw(edge: number, label: string, field: FieldShown | null): void {
    const { picture } = this;
    if (!picture) return;
    this.field = field;
    const scale = paintBytes(this.canvas, this.asBytes(picture), edge) / devicePixelRatio;
    this.box.style.width = `${picture.columns * scale}px`;
    this.over.setAttribute("viewBox", `0 0 ${picture.columns} ${picture.rows}`);
    this.canvas.setAttribute("role", this.events.brush() ? "application" : "img");
    this.canvas.setAttribute("aria-label", `${label}, ${picture.rows} by ${picture.columns} pixels`);
    this.canvas.style.touchAction = this.events.brush() ? "none" : "auto";
    this.canvas.style.cursor = this.events.brush() ? "crosshair" : "default";
    for (const [at, painted] of this.painted) this.put(at, painted.levels);
    this.drawOver();
  }

  /** The kernel has taken these pixels: its next picture has them. */
  answered(stroke: number, cells: readonly Cell[]): void {
    for (const cell of cells) {
      const painted = this.painted.get(this.at(cell));
      if (painted?.stroke === stroke) painted.answered = true;
    }
  }

  /** The kernel took none of it: back to its own picture. */
  forget(): void {
    this.painted.clear();
    if (this.picture) putBytes(this.canvas, this.asBytes(this.picture));
  }

  private asBytes({ rows, columns, colour }: PictureShown): Bytes {
    return { rows, columns, colour, bytes: this.bytes };
  }

  private at([row, column]: Cell): number {
    return row * (this.picture?.columns ?? 0) + column;
  }

  private remember({ rows, columns, edited, pool }: PictureShown): void {
    // Which values were painted is told in places of the input; several may be one pixel here.
    const cells = edited.map(([row, column]): Cell => [Math.floor(row / pool), Math.floor(column / pool)]);
    const painted = new Map(cells.map((cell) => [this.at(cell), cell]));
    this.edited = [...painted.values()];
    for (let at = 0; at < rows * columns; at++) if (!painted.has(at) && !this.painted.has(at)) this.base.set(at, this.levelsAt(at));
  }

  private levelsAt(at: number): number[] {
    const per = this.picture?.colour ? 3 : 1;
    return Array.from({ length: per }, (_, i) => this.bytes[per * at + i] ?? 0);
  }

  private put(at: number, levels: number[] | null): void {
    const context = this.canvas.getContext("2d");
    const known = levels ?? this.base.get(at);
    if (!context || !known || !this.picture) return;
    const [red = 0, green = red, blue = red] = known;
    context.fillStyle = `rgb(${red},${green},${blue})`;
    context.fillRect(at % this.picture.columns, Math.floor(at / this.picture.columns), 1, 1);
  }

  private cellOf(event: PointerEvent): Cell | null {
    if (!this.picture) return null;
    const { rows, columns } = this.picture;
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const inside = row >= 0 && column >= 0 && row < rows && column < columns;
    // A stroke that leaves the picture goes on at its edge.
    return inside ? [row, column] : this.stroke ? [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))] : null;
  }

  private down(event: PointerEvent): void {
    const brush = this.events.brush();
    const cell = this.cellOf(event);
    if (event.button !== 0 || !brush || !cell || !this.picture) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.begin(brush);
    this.paint(cell, brush);
  }

  private move(event: PointerEvent): void {
    const brush = this.events.brush();
    const cell = this.cellOf(event);
    if (this.stroke && brush) for (const step of event.getCoalescedEvents?.() ?? [event]) this.paint(this.cellOf(step) ?? cell ?? [0, 0], brush);
    this.point(cell);
  }

  private begin({ size }: Brush): void {
    strokes++;
    if (this.picture) this.stroke = new Stroke(size, this.picture.rows, this.picture.columns);
  }

  private paint(cell: Cell, brush: Brush): void {
    const cells = this.stroke?.to(cell) ?? [];
    if (!cells.length) return;
    for (const one of cells) {
      this.painted.set(this.at(one), { levels: brush.levels, stroke: strokes, answered: false });
      this.put(this.at(one), brush.levels);
    }
    this.events.paint(strokes, cells, brush);
    this.point(cell);
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.picture) return;
    const { rows, columns } = this.picture;
    const step = ({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] } as Record<string, Cell>)[event.key];
    const paints = event.key === " " || event.key === "Enter";
    if (!step && !paints) return;
    event.preventDefault();
    event.stopPropagation();
    const from = this.cursor ?? [Math.floor(rows / 2), Math.floor(columns / 2)];
    const by = event.shiftKey ? 5 : 1;
    if (step) this.point([Math.max(0, Math.min(rows - 1, from[0] + by * step[0])), Math.max(0, Math.min(columns - 1, from[1] + by * step[1]))]);
    const brush = this.events.brush();
    if (!paints || !brush) return;
    this.begin(brush);
    this.paint(from, brush);
    this.stroke = null;
  }

  private point(cell: Cell | null): void {
    this.cursor = cell;
    setText(this.reading, cell ? this.read(cell) : "");
    this.drawOver();
  }

  private read(cell: Cell): string {
    const { picture } = this;
    if (!picture) return "";
    const painted = this.painted.get(this.at(cell));
    const levels = painted ? (painted.levels ?? this.base.get(this.at(cell)) ?? this.levelsAt(this.at(cell))) : this.levelsAt(this.at(cell));
    const values = picture.paint.length ? valuesOf(levels, picture.black, picture.white).map(roughly) : [`level ${levels.join(", ")}`];
    const { pool, full } = picture;
    const span = (at: number, size: number): string => (pool === 1 ? String(at) : `${at * pool}:${Math.min(size, (at + 1) * pool)}`);
    const value = values.length > 1 ? `(${values.join(", ")})` : values[0];
    return `(${span(cell[0], full[0])}, ${span(cell[1], full[1])}) ${pool === 1 ? "" : "mean "}\u2248 ${value ?? ""}`;
  }

  private drawOver(): void {
    const { picture, cursor, field } = this;
    if (!picture) return;
    const { rows, columns, pool } = picture;
    const brush = this.events.brush();
    const marks: SVGElement[] = [];
    const double = (cls: string, shape: (cls: string) => SVGElement): void => void marks.push(shape(`under ${cls}`), shape(cls));
    // An outline as thick as a pixel would hide what was painted.
    if (this.edited.length && this.canvas.clientWidth >= OUTLINED * columns) marks.push(svg("path", { class: "iedited", d: outlinePath(this.edited) }));
    const box = (cls: string, spans: FieldShown["theoretical"], around: number): void => {
      const [down, across] = (spans ?? []).slice(-2);
      if (!down || !across) return;
      const [top, left] = [down[0] / pool - around, across[0] / pool - around];
      double(cls, (all) => svg("rect", { class: all, x: left, y: top, width: across[1] / pool + around - left, height: down[1] / pool + around - top }));
    };
    if (field) {
      // Where both are the same, both are to be seen.
      box("itheory", field.theoretical, (2.5 * columns) / (this.canvas.clientWidth || columns));
      box("imeasured", field.measured, 0);
    }
    if (cursor) {
      const under = brushCells(cursor, brush?.size ?? 1, rows, columns);
      const [first, last] = [under[0] ?? cursor, under[under.length - 1] ?? cursor];
      double("icursor", (cls) => svg("rect", { class: cls, x: first[1], y: first[0], width: last[1] - first[1] + 1, height: last[0] - first[0] + 1 }));
    }
    this.over.replaceChildren(...marks);
  }
}
