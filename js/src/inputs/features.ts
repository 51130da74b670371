// A vector of features: a bar each about zero. A bar can be dragged to another value, or the value be typed.

import { h, setText, submitOnEnter } from "../lib/dom";
import { formatCount, formatScale, formatValue } from "../lib/format";
import { knobNumber } from "../lib/knobs";
import type { FeaturesShown } from "../lib/protocol_inputs";
import type { Theme } from "../lib/theme";
import { cssColor, mapColor, type Rgb } from "../lib/colormap";

const ROW = 48;
const GAP = 6;

/** Columns, and their pitch, so that bars are neither hairs nor planks. */
export function planFeatures(count: number, width: number): { columns: number; pitch: number; rows: number } {
  const pitch = Math.max(7, Math.min(28, Math.floor(width / Math.max(1, count))));
  const columns = Math.max(1, Math.min(count, Math.floor(width / pitch)));
  return { columns, pitch, rows: Math.ceil(count / columns) };
}

interface Ink {
  zero: string;
  line: string;
  warn: Rgb;
}

export class FeatureBars {
  private readonly canvas = h("canvas", { tabindex: 0, role: "application" });
  private readonly space = h("div", { class: "ifeatspace" }, this.canvas);
  private readonly index = h("input", { class: "inp", type: "number", min: 0, value: 0, "aria-label": "Feature" });
  private readonly value = h("input", { class: "inp", type: "text", inputmode: "decimal", "aria-label": "Value of the feature" });
  private readonly set = h("button", { type: "submit", class: "btn s" }, "Set");
  private readonly form = h("form", { class: "iform" }, h("span", { class: "mut" }, "feature"), this.index, h("span", { class: "mut" }, "="), this.value, this.set);
  private readonly note = h("p", { class: "inote" });
  readonly element = h("div", { class: "ifeatures", hidden: true }, this.space, this.form, this.note);
  private shown: FeaturesShown | null = null;
  private values: Float32Array = new Float32Array(0);
  private width = 0;
  private chosen = 0;
  /** What a bar is being dragged to, or was, until the kernel has sent the features again. */
  private moved: { at: number; value: number } | null = null;
  private dragging = false;
  private barred = "";
  private theme: Theme = "light";
  private ink: Ink = { zero: "#ccc", line: "#000", warn: [245, 124, 0] };

  constructor(private readonly change: (feature: number, value: number) => void) {
    submitOnEnter(this.form);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = knobNumber(this.value.value);
      this.value.toggleAttribute("aria-invalid", value === null);
      if (value !== null) this.send(this.chosen, value);
    });
    this.index.addEventListener("input", () => this.index.value !== "" && this.choose(this.index.valueAsNumber));
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.dragging && this.drag(event));
    this.canvas.addEventListener("lostpointercapture", () => this.drop());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  receive(shown: FeaturesShown | null, bytes: Uint8Array): void {
    this.element.hidden = shown === null;
    this.shown = shown;
    this.values = new Float32Array(bytes.slice().buffer);
    if (!this.dragging) this.moved = null;
  }

  draw(width: number, theme: Theme, ink: Ink, barred: string): void {
    const { shown } = this;
    if (!shown) return;
    Object.assign(this, { width, theme, ink, barred });
    for (const part of [this.value, this.set]) part.disabled = barred !== "";
    this.index.min = String(shown.first);
    this.index.max = String(shown.first + shown.count - 1);
    const about = shown.count < shown.total ? `${shown.first ? "" : "first "}${formatCount(shown.count)} of ${formatCount(shown.total)} features` : `${formatCount(shown.total)} features`;
    setText(this.note, `${about}, scale \u00b1${formatScale(shown.scale)}${barred ? "" : "; drag a bar to change it"}`);
    this.choose(this.chosen);
  }

  private get top(): number {
    return Math.max(Math.abs(this.moved?.value ?? 0), this.shown?.scale ?? 0) || 1;
  }

  private choose(feature: number): void {
    const { shown } = this;
    if (!shown || !Number.isFinite(feature)) return;
    this.chosen = Math.max(shown.first, Math.min(shown.first + shown.count - 1, Math.round(feature)));
    const root = this.element.getRootNode() as Document;
    if (root.activeElement !== this.index) this.index.value = String(this.chosen);
    if (root.activeElement !== this.value) this.value.value = formatValue(this.at(this.chosen));
    this.canvas.setAttribute("aria-label", `Features; ${this.chosen} is ${formatValue(this.at(this.chosen))}. Left and right choose, up and down change.`);
    this.paint();
  }

  private at(feature: number): number {
    return this.moved?.at === feature ? this.moved.value : (this.values[feature - (this.shown?.first ?? 0)] ?? NaN);
  }

  private paint(): void {
    const { shown, width, ink, theme } = this;
    if (!shown || !width) return;
    const { columns, pitch, rows } = planFeatures(shown.count, width);
    const ratio = devicePixelRatio;
    const height = rows * (ROW + GAP) - GAP;
    this.canvas.width = Math.round(columns * pitch * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.cssText = `width:${columns * pitch}px;height:${height}px;touch-action:none`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    const edited = new Set(shown.edited);
    for (let i = 0; i < shown.count; i++) {
      const feature = shown.first + i;
      const [left, above] = [(i % columns) * pitch, Math.floor(i / columns) * (ROW + GAP)];
      const value = this.at(feature);
      context.fillStyle = ink.zero;
      context.fillRect(left, above + ROW / 2, pitch, 1);
      if (Number.isFinite(value)) {
        const share = Math.max(-1, Math.min(1, value / this.top));
        const length = share * (ROW / 2 - 2);
        context.fillStyle = cssColor(mapColor(theme, false, share));
        context.fillRect(left, above + Math.min(ROW / 2, ROW / 2 - length), pitch - 1, Math.max(1, Math.abs(length)));
        context.strokeStyle = ink.zero;
        context.lineWidth = 1;
        if (Math.abs(length) > 2) context.strokeRect(left + 0.5, above + Math.min(ROW / 2, ROW / 2 - length) + 0.5, pitch - 2, Math.abs(length) - 1);
      } else {
        context.fillStyle = cssColor(ink.warn);
        for (let y = 2; y < ROW; y += 6) context.fillRect(left, above + y, pitch - 1, 3);
      }
      if (edited.has(feature)) {
        context.fillStyle = ink.line;
        context.fillRect(left + pitch / 2 - 2, above + ROW - 3, 3, 3);
      }
      if (feature === this.chosen) {
        context.strokeStyle = ink.line;
        context.strokeRect(left + 0.5, above + 0.5, pitch - 2, ROW - 1);
      }
    }
  }

  private featureAt(event: PointerEvent): number {
    const { shown } = this;
    if (!shown) return 0;
    const { columns, pitch, rows } = planFeatures(shown.count, this.width);
    const box = this.canvas.getBoundingClientRect();
    const column = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - box.left) / pitch)));
    const row = Math.max(0, Math.min(rows - 1, Math.floor((event.clientY - box.top) / (ROW + GAP))));
    return shown.first + Math.min(shown.count - 1, row * columns + column);
  }

  private down(event: PointerEvent): void {
    this.choose(this.featureAt(event));
    if (this.barred || event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.from = { y: event.clientY, value: this.at(this.chosen) || 0, top: this.top };
    this.dragging = true;
  }

  private from = { y: 0, value: 0, top: 1 };

  /** By how far the pointer went, so that a press alone changes nothing. */
  private drag(event: PointerEvent): void {
    const by = ((this.from.y - event.clientY) / (ROW / 2 - 2)) * this.from.top;
    if (!this.moved && Math.abs(this.from.y - event.clientY) < 3) return;
    this.moved = { at: this.chosen, value: Number((this.from.value + by).toPrecision(3)) };
    this.choose(this.chosen);
  }

  private drop(): void {
    this.dragging = false;
    if (this.moved) this.send(this.moved.at, this.moved.value);
  }

  private send(feature: number, value: number): void {
    this.moved = { at: feature, value };
    this.choose(feature);
    this.change(feature, value);
  }

  private key(event: KeyboardEvent): void {
    const { shown } = this;
    if (!shown) return;
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!across && !up) return;
    event.preventDefault();
    event.stopPropagation();
    if (across) this.choose(this.chosen + across);
    else if (up && !this.barred) this.send(this.chosen, Number(((this.at(this.chosen) || 0) + (up * this.top) / 20).toPrecision(3)));
  }
}
