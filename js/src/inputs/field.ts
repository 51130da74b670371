// The receptive field that was asked for last: its boxes in words, how much each part of the input counts, and how far
// the measurement is.

import { lutFor } from "../lib/colormap";
import { h, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import type { FieldShown } from "../lib/protocol_inputs";
import type { Theme } from "../lib/theme";
import { scaleFor } from "./bytes";
import { boxText } from "./words";

/** Longest edge of the map. */
const MAP = 126;

export class FieldCard {
  private readonly unit = h("p", { class: "iunit mono" });
  private readonly theory = h("span");
  private readonly theoryRow = h("div", { class: "ifield" }, h("i", { class: "ikey itheory", "aria-hidden": "true" }), this.theory);
  private readonly measured = h("span");
  private readonly measuredRow = h("div", { class: "ifield" }, h("i", { class: "ikey imeasured", "aria-hidden": "true" }), this.measured);
  private readonly map = h("canvas", { role: "img" });
  private readonly caption = h("span", { class: "inote" }, "how much each part of the input changes the unit");
  private readonly figure = h("div", { class: "imap" }, this.map, this.caption);
  private readonly done = h("progress", { max: 1, "aria-label": "Receptive field: measured" });
  private readonly note = h("p", { class: "inote" });
  readonly element: HTMLElement;
  private readonly close: HTMLButtonElement;

  constructor(clear: () => void) {
    this.close = h("button", { type: "button", class: "ib s", "aria-label": "Clear the receptive field", onclick: clear }, icon("close", 14));
    this.element = h("section", { class: "isec", "aria-label": "Receptive field", hidden: true }, h("div", { class: "ish" }, h("h4", {}, "Receptive field"), h("span", { class: "flex" }), this.close), this.unit, this.theoryRow, this.measuredRow, this.done, this.figure, this.note);
  }

  show(shown: FieldShown | null, buffers: Uint8Array[], edge: number, theme: Theme, barred: string): void {
    this.element.hidden = shown === null;
    if (!shown) return;
    this.close.disabled = barred !== "";
    this.close.title = barred || (shown.done < 1 ? "Stop measuring, and show it no more" : "Show it no more");
    setText(this.unit, shown.text);
    setText(this.theory, [shown.theoretical ? `in theory ${boxText(shown.theoretical)}` : "in theory: not known", shown.theoretical_note].filter(Boolean).join("; "));
    const going = shown.done < 1;
    setText(this.measured, shown.measured ? `measured ${boxText(shown.measured)}` : "measuring\u2026");
    this.measuredRow.hidden = !shown.measured && !going; // then the note says why
    this.done.hidden = !going;
    this.done.value = shown.done;
    this.note.hidden = !shown.note;
    setText(this.note, shown.note);
    this.figure.hidden = shown.buffer < 0;
    if (shown.buffer >= 0) this.paint(shown, buffers[shown.buffer] ?? new Uint8Array(0), edge, theme);
  }

  private paint({ rows, columns, text }: FieldShown, bytes: Uint8Array, edge: number, theme: Theme): void {
    const scale = scaleFor(rows, columns, Math.min(edge, Math.round(MAP * devicePixelRatio)));
    this.map.width = columns;
    this.map.height = rows;
    this.map.style.cssText = `width:${(columns * scale) / devicePixelRatio}px;height:${(rows * scale) / devicePixelRatio}px`;
    this.map.setAttribute("aria-label", `Sensitivity of ${text} to each part of the input`);
    const context = this.map.getContext("2d");
    if (!context) return;
    const lut = lutFor(theme, true);
    const image = context.createImageData(columns, rows);
    const out = new Uint32Array(image.data.buffer);
    // 0 is nothing at all: the neutral end of the scale, which begins at code 129.
    for (let i = 0; i < out.length; i++) out[i] = lut[129 + Math.round(((bytes[i] ?? 0) / 255) * 126)] ?? 0;
    context.putImageData(image, 0, 0);
  }
}
