// The plane of tiles of one strip, of which a canvas shows the part that is on screen. It scrolls both ways, so a
// matrix of millions of values is a place to move about in; the kernel sends what is looked at.

import type { Ink } from "../cards/view";
import { h } from "../lib/dom";
import type { Pair } from "../lib/protocol";
import type { Region, WeightStrip } from "../lib/protocol_weights";
import type { Theme } from "../lib/theme";
import { paintRaster, resize, type Look } from "../strips/paint";
import { paintBars, paintColour } from "./paint";
import { CAPTION, cornerOf, HEADING, regionIn, tileAt, tilesBetween, type Plan } from "./plan";

/** A pixel of the picture: position of its tile, and row and column of values, in the order drawn. */
export interface Spot {
  position: number;
  row: number;
  col: number;
}

export interface FieldEvents {
  hover(spot: Spot | null): void;
  scrolled(left: number, top: number): void;
  zoom(by: number, fit?: boolean): void;
}

export interface FieldPicture {
  strip: WeightStrip;
  codes: Uint8Array;
  plan: Plan;
  look: Look;
  ink: Ink;
  ratio: number;
  label: string;
  /** What stands under the tile at a position. */
  caption(position: number): string;
}

export const TALLEST = 280;

export class Field {
  private readonly canvas = h("canvas", { role: "img", tabindex: 0 });
  private readonly space = h("div", { class: "wspace" }, this.canvas);
  readonly element = h("div", { class: "wfield" }, this.space);
  private picture: FieldPicture | null = null;
  private marked: Spot | null = null;
  private frame = 0;

  constructor(private readonly events: FieldEvents) {
    this.element.addEventListener("scroll", () => {
      this.drawSoon();
      events.scrolled(this.element.scrollLeft, this.element.scrollTop);
    });
    this.canvas.addEventListener("pointermove", (event) => events.hover(this.spotAt(event)));
    this.canvas.addEventListener("pointerleave", () => events.hover(null));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", () => events.hover(null));
    this.element.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        events.zoom(event.deltaY < 0 ? 1 : -1);
      },
      { passive: false },
    );
  }

  show(picture: FieldPicture): void {
    this.picture = picture;
    const [width, height] = picture.plan.plane;
    this.space.style.width = `${width}px`;
    this.space.style.height = `${height}px`;
    // Room for a bar that scrolls sideways, which would else cover the last row.
    this.element.style.maxHeight = `${TALLEST + 12}px`;
    this.canvas.setAttribute("aria-label", picture.label);
    this.draw();
  }

  scrollTo(left: number, top: number): void {
    if (Math.abs(this.element.scrollLeft - left) > 0.5) this.element.scrollLeft = left;
    if (Math.abs(this.element.scrollTop - top) > 0.5) this.element.scrollTop = top;
  }

  mark(spot: Spot | null): void {
    const same = spot?.position === this.marked?.position && spot?.row === this.marked?.row && spot?.col === this.marked?.col;
    if (same) return;
    this.marked = spot;
    this.drawSoon();
  }

  /** What of the picture is on screen, with a margin. */
  region(margin: number): Region | null {
    if (!this.picture) return null;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    if (!clientWidth) return null;
    return regionIn(this.picture.plan, this.picture.strip, scrollLeft, scrollTop, clientWidth, Math.max(1, clientHeight), margin);
  }

  /** Shares of the plane at which the middle of the window stands. */
  get middle(): Pair {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    const [width, height] = this.picture?.plan.plane ?? [1, 1];
    return [(scrollLeft + clientWidth / 2) / width, (scrollTop + clientHeight / 2) / height];
  }

  /** Where to scroll so that these shares come to the middle. */
  scrollFor([across, down]: Pair): Pair {
    const [width, height] = this.picture?.plan.plane ?? [1, 1];
    return [Math.max(0, across * width - this.element.clientWidth / 2), Math.max(0, down * height - this.element.clientHeight / 2)];
  }

  /** The codes of a pixel, or null if that part has not been sent. */
  codesAt(spot: Spot): number[] | null {
    if (!this.picture) return null;
    const { strip, codes } = this.picture;
    const [first, count, top, , left] = strip.region;
    const [rows, columns] = strip.tile;
    const place = spot.position - first;
    const row = strip.layout === "lines" ? 0 : Math.floor((spot.row - top) / strip.pool);
    const col = Math.floor((spot.col - left) / strip.pool);
    if (place < 0 || place >= count || row < 0 || row >= rows || col < 0 || col >= columns) return null;
    const at = strip.colours * ((place * rows + row) * columns + col);
    const more = strip.layout === "lines" && rows > 1 ? [codes[at + columns] ?? 0] : [];
    return [...codes.subarray(at, at + strip.colours), ...more];
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
  }

  private drawSoon(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { picture } = this;
    if (!picture) return;
    const { plan, ratio, strip, ink } = picture;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    const width = Math.min(clientWidth || plan.plane[0], plan.plane[0]);
    const height = Math.min(clientHeight || TALLEST, plan.plane[1]);
    resize(this.canvas, Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio)));
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    // Whole device pixels: a picture between two of them would be blurred.
    const left = Math.round(scrollLeft * ratio);
    const top = Math.round(scrollTop * ratio);
    const [first, last] = tilesBetween(plan, scrollTop, scrollTop + height);
    for (let position = first; position < last; position++) this.drawTile(context, position, left, top, picture);
    this.drawHeadings(context, left, top, picture);
    if (this.marked && strip.layout !== "number") this.drawRing(context, this.marked, left, top, plan, strip, ratio, ink.line, picture.look.theme);
  }

  private drawTile(context: CanvasRenderingContext2D, position: number, left: number, top: number, { plan, strip, codes, look, ink, ratio, caption }: FieldPicture): void {
    const [x, y] = cornerOf(plan, position);
    const corner: Pair = [Math.round(x * ratio) - left, Math.round(y * ratio) - top];
    const [first, count, above, , before] = strip.region;
    const place = position - first;
    if (plan.captioned) {
      context.font = `${11 * ratio}px ui-monospace, Menlo, Consolas, monospace`;
      context.fillStyle = ink.line;
      context.globalAlpha = 0.72;
      context.textBaseline = "top";
      context.fillText(caption(position), corner[0], corner[1] + Math.round((plan.height + 3) * ratio));
      context.globalAlpha = 1;
    }
    if (place < 0 || place >= count) {
      context.fillStyle = ink.zero;
      context.globalAlpha = 0.35;
      context.fillRect(corner[0], corner[1], Math.round(plan.width * ratio), Math.round(plan.height * ratio));
      context.globalAlpha = 1;
      return;
    }
    const [rows, columns] = strip.tile;
    const size = strip.colours * rows * columns;
    const part = codes.subarray(place * size, (place + 1) * size);
    const scale = strip.pool > 1 ? 1 : strip.magnify;
    const from: Pair = [corner[0] + Math.round((before / strip.pool) * scale), corner[1] + Math.round((above / strip.pool) * scale)];
    if (strip.layout === "lines") paintBars(context, from[0], corner[1], part, strip.tile, { width: columns * scale, height: Math.round(plan.height * ratio), pixel: scale }, look, ink);
    else if (strip.colours > 1) paintColour(context, from[0], from[1], part, strip.tile, scale, look);
    else this.paintVisible(context, from, part, strip.tile, scale, look);
  }

  /** Of a tile that is larger than the window only the part that is in it. */
  private paintVisible(context: CanvasRenderingContext2D, [left, top]: Pair, codes: Uint8Array, [rows, columns]: Pair, scale: number, look: Look): void {
    const { width, height } = this.canvas;
    const row0 = Math.max(0, Math.floor(-top / scale));
    const row1 = Math.min(rows, Math.ceil((height - top) / scale));
    const col0 = Math.max(0, Math.floor(-left / scale));
    const col1 = Math.min(columns, Math.ceil((width - left) / scale));
    if (row0 >= row1 || col0 >= col1) return;
    const wide = col1 - col0;
    let part = codes.subarray(row0 * columns, row1 * columns);
    if (wide < columns) {
      part = new Uint8Array((row1 - row0) * wide);
      for (let row = row0; row < row1; row++) part.set(codes.subarray(row * columns + col0, row * columns + col1), (row - row0) * wide);
    }
    paintRaster(context, left + col0 * scale, top + row0 * scale, part, [row1 - row0, wide], scale, look);
  }

  private drawHeadings(context: CanvasRenderingContext2D, left: number, top: number, { plan, ratio, ink }: FieldPicture): void {
    context.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    context.fillStyle = ink.line;
    context.textBaseline = "top";
    for (const { name, top: y } of plan.groups) if (name) context.fillText(name, -left, Math.round((y + 2) * ratio) - top, (plan.plane[0] + HEADING) * ratio);
  }

  private drawRing(context: CanvasRenderingContext2D, spot: Spot, left: number, top: number, plan: Plan, strip: WeightStrip, ratio: number, color: string, theme: Theme): void {
    const [x, y] = cornerOf(plan, spot.position);
    const pixel = plan.pixel * ratio;
    const col = Math.round(x * ratio) - left + Math.floor(spot.col / strip.pool) * pixel;
    const lines = strip.layout === "lines";
    const row = Math.round(y * ratio) - top + (lines ? 0 : Math.floor(spot.row / strip.pool) * pixel);
    const size = Math.max(pixel, 5);
    const tall = lines ? plan.height * ratio : size;
    const shift = (pixel - size) / 2;
    const [x0, y0] = [Math.floor(col + shift) + 0.5, Math.floor(row + (lines ? 0 : shift)) + 0.5];
    const [wide, high] = [Math.ceil(size), Math.ceil(tall) - (lines ? 1 : 0)];
    context.lineWidth = 1;
    // Two rings, of which one is seen on any colour.
    context.strokeStyle = theme === "light" ? "#fff" : "#000";
    context.strokeRect(x0 - 1, y0 - (lines ? 0 : 1), wide + 2, high + (lines ? 0 : 2));
    context.strokeStyle = color;
    context.strokeRect(x0, y0, wide, high);
  }

  private spotAt(event: PointerEvent): Spot | null {
    if (!this.picture) return null;
    const { plan, strip } = this.picture;
    const box = this.space.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const position = tileAt(plan, x, y);
    if (position === null) return null;
    const [left, top] = cornerOf(plan, position);
    const row = strip.layout === "lines" ? 0 : Math.floor((y - top) / plan.pixel) * strip.pool;
    const col = Math.floor((x - left) / plan.pixel) * strip.pool;
    return row < strip.full[0] && col < strip.full[1] ? { position, row, col } : null;
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.picture || event.ctrlKey || event.metaKey || event.altKey) return;
    const zoom = { "+": 1, "=": 1, "-": -1, "0": 0 }[event.key];
    const step = ({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] } as Record<string, Pair>)[event.key];
    if (zoom !== undefined) this.events.zoom(zoom, zoom === 0);
    else if (step) this.move(...step, this.picture);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** To the next pixel or, over the edge of a tile, to the tile beside it. */
  private move(down: number, right: number, { plan, strip }: FieldPicture): void {
    const [rows, columns] = strip.layout === "lines" ? [1, strip.full[1]] : strip.full;
    const at = this.marked ?? { position: strip.region[0], row: strip.region[2], col: strip.region[4] - right * strip.pool };
    const spot = { position: at.position, row: at.row + down * strip.pool, col: at.col + right * strip.pool };
    const last = (size: number): number => Math.floor((size - 1) / strip.pool) * strip.pool;
    if (spot.col < 0) [spot.position, spot.col] = [spot.position - 1, last(columns)];
    else if (spot.col >= columns) [spot.position, spot.col] = [spot.position + 1, 0];
    else if (spot.row < 0) [spot.position, spot.row] = [spot.position - plan.columns, last(rows)];
    else if (spot.row >= rows) [spot.position, spot.row] = [spot.position + plan.columns, 0];
    if (spot.position < 0 || spot.position >= strip.tiles) return;
    this.reveal(spot, plan, strip);
    this.events.hover(spot);
  }

  private reveal(spot: Spot, plan: Plan, strip: WeightStrip): void {
    const [x, y] = cornerOf(plan, spot.position);
    const left = x + (spot.col / strip.pool) * plan.pixel;
    const top = y + (strip.layout === "lines" ? 0 : (spot.row / strip.pool) * plan.pixel);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    const tall = strip.layout === "lines" ? plan.height + CAPTION : plan.pixel;
    if (left < scrollLeft) this.element.scrollLeft = left;
    else if (left + plan.pixel > scrollLeft + clientWidth) this.element.scrollLeft = left + plan.pixel - clientWidth;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + tall > scrollTop + clientHeight) this.element.scrollTop = top + tall - clientHeight;
  }
}
