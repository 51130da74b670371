// A feature vector: a bar chart about zero, or, for many features, a field of cells that scrolls.

import { h } from "../lib/dom";
import { NAN, ZERO } from "../lib/colormap";
import type { Strip } from "../lib/protocol";
import { barColor, type Look } from "./paint";
import { CELL_ROWS, type BarPlan } from "./plan";
import type { GridEvents } from "./tilegrid";
import type { Spot } from "./readout";

export interface BarPicture {
  plan: BarPlan;
  strip: Strip;
  title: string;
  look: Look;
  ratio: number;
  colors: { zero: string; ring: string };
  codes: Uint8Array;
  selected: number | null;
}

export class Bars {
  private readonly canvas = h("canvas", { role: "img", tabindex: 0 });
  private readonly space = h("div", { class: "tilespace" }, this.canvas);
  readonly element = h("div", { class: "tiles bars" }, this.space);
  private picture: BarPicture | null = null;
  private marked: number | null = null;

  constructor(private readonly events: GridEvents) {
    this.element.addEventListener("scroll", () => {
      this.draw();
      events.scrolled(this.element.scrollTop);
    });
    this.canvas.addEventListener("pointermove", (event) => events.hover(this.spotAt(event)));
    this.canvas.addEventListener("pointerleave", () => events.hover(null));
    this.canvas.addEventListener("click", (event) => {
      const spot = this.spotAt(event);
      if (spot) events.select(spot.channel);
    });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  show(picture: BarPicture): void {
    this.picture = picture;
    const { plan, title, strip } = picture;
    const rows = Math.min(plan.rows, CELL_ROWS);
    this.space.style.height = plan.chart ? `${plan.height}px` : `${plan.rows * plan.pitch}px`;
    this.element.style.height = plan.chart ? `${plan.height}px` : `${rows * plan.pitch}px`;
    this.canvas.setAttribute("aria-label", `${title}, ${strip.channels} features; arrow keys move between them, Enter selects one`);
    this.draw();
  }

  scrollTo(top: number): void {
    if (Math.abs(this.element.scrollTop - top) > 0.5) this.element.scrollTop = top;
  }

  mark(spot: Spot | null): void {
    const marked = spot ? spot.channel : null;
    if (marked === this.marked) return;
    this.marked = marked;
    this.draw();
  }

  private draw(): void {
    const { picture } = this;
    if (!picture) return;
    const { plan, ratio } = picture;
    const shown = plan.chart ? plan.height : Math.min(plan.rows, CELL_ROWS + 1) * plan.pitch;
    const top = plan.chart ? 0 : Math.floor(this.element.scrollTop / plan.pitch) * plan.pitch;
    this.canvas.style.cssText = `position:absolute;left:0;top:${top}px;width:${plan.width}px;height:${shown}px`;
    this.canvas.width = Math.round(plan.width * ratio);
    this.canvas.height = Math.round(shown * ratio);
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    if (plan.chart) this.drawChart(context, picture);
    else this.drawCells(context, picture, top / plan.pitch);
    for (const channel of new Set([picture.selected, this.marked])) if (channel !== null) this.ring(context, picture, channel, top);
  }

  private ring(context: CanvasRenderingContext2D, { plan, colors, selected }: BarPicture, channel: number, top: number): void {
    context.strokeStyle = colors.ring;
    context.lineWidth = 1;
    context.setLineDash(channel === selected ? [] : [2, 1]);
    const column = channel % plan.columns;
    const row = Math.floor(channel / plan.columns) - top / plan.pitch;
    if (plan.chart) context.strokeRect(column * plan.pitch + 0.5, 0.5, Math.max(1, plan.pitch - 1), plan.height - 1);
    else context.strokeRect(column * plan.pitch + 0.5, row * plan.pitch + 0.5, plan.pitch - 1, plan.pitch - 1);
  }

  private code(channel: number): number | undefined {
    const { strip, codes } = this.picture as BarPicture;
    return channel >= strip.first && channel < strip.first + strip.count ? codes[channel - strip.first] : undefined;
  }

  private drawChart(context: CanvasRenderingContext2D, { plan, strip, look, colors }: BarPicture): void {
    const zero = strip.unsigned ? plan.height - 1 : plan.height / 2;
    const reach = strip.unsigned ? plan.height - 4 : plan.height / 2 - 2;
    const width = plan.pitch > 3 ? plan.pitch - 1 : plan.pitch;
    context.fillStyle = colors.zero;
    context.fillRect(0, Math.round(zero), plan.width, 1);
    for (let channel = 0; channel < plan.channels; channel++) {
      const code = this.code(channel);
      if (code === undefined) continue;
      context.fillStyle = barColor(code, look);
      const left = channel * plan.pitch;
      if (code < 3) {
        // No number: a column of dashes instead of a bar.
        for (let y = 2; y < plan.height; y += 6) context.fillRect(left, y, width, 3);
        continue;
      }
      const length = ((code - ZERO) / 126) * reach;
      context.fillRect(left, Math.min(zero, zero - length), width, Math.max(code === ZERO ? 0 : 1, Math.abs(length)));
    }
  }

  private drawCells(context: CanvasRenderingContext2D, { plan, look, colors }: BarPicture, firstRow: number): void {
    const first = firstRow * plan.columns;
    const last = Math.min(plan.channels, first + (CELL_ROWS + 1) * plan.columns);
    for (let channel = first; channel < last; channel++) {
      const code = this.code(channel);
      const left = (channel % plan.columns) * plan.pitch;
      const top = (Math.floor(channel / plan.columns) - firstRow) * plan.pitch;
      context.fillStyle = code === undefined ? colors.zero : barColor(code, look);
      context.fillRect(left, top, plan.pitch - 1, plan.pitch - 1);
      if (code !== undefined && code <= NAN + 2) {
        context.strokeStyle = colors.ring;
        context.strokeRect(left + 2.5, top + 2.5, plan.pitch - 6, plan.pitch - 6);
      }
    }
  }

  private spotAt(event: PointerEvent): Spot | null {
    if (!this.picture) return null;
    const { plan } = this.picture;
    const box = this.space.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / plan.pitch);
    const row = plan.chart ? 0 : Math.floor((event.clientY - box.top) / plan.pitch);
    const channel = row * plan.columns + column;
    return column < 0 || column >= plan.columns || channel < 0 || channel >= plan.channels ? null : { channel, row: 0, col: 0 };
  }

  private onKey(event: KeyboardEvent): void {
    if (!this.picture) return;
    const { plan } = this.picture;
    if (event.key === "Enter" && this.marked !== null) {
      event.preventDefault();
      event.stopPropagation();
      return this.events.select(this.marked);
    }
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -plan.columns, ArrowDown: plan.columns }[event.key];
    if (step === undefined || (plan.chart && Math.abs(step) > 1)) return;
    event.preventDefault();
    event.stopPropagation();
    const next = Math.max(0, Math.min(plan.channels - 1, (this.marked ?? -step) + step));
    const top = Math.floor(next / plan.columns) * plan.pitch;
    if (!plan.chart && (top < this.element.scrollTop || top + plan.pitch > this.element.scrollTop + this.element.clientHeight)) this.element.scrollTop = top;
    this.events.hover({ channel: next, row: 0, col: 0 });
  }
}
