// A signal: a line for each channel, all on one scale.

import { h, setText } from "../lib/dom";
import { formatCount, formatScale } from "../lib/format";
import type { SignalShown } from "../lib/protocol_inputs";

const ROW = 40;
const GAP = 4;

export class SignalLines {
  private readonly canvas = h("canvas", { role: "img" });
  private readonly space = h("div", { class: "isigspace" }, this.canvas);
  private readonly note = h("p", { class: "inote" });
  readonly element = h("div", { class: "isignal", hidden: true }, this.space, this.note);
  private shown: SignalShown | null = null;
  private values: Float32Array = new Float32Array(0);

  receive(shown: SignalShown | null, bytes: Uint8Array): void {
    this.element.hidden = shown === null;
    this.shown = shown;
    this.values = new Float32Array(bytes.slice().buffer);
  }

  draw(width: number, ink: { line: string; zero: string; warn: string }): void {
    const { shown } = this;
    if (!shown || !width) return;
    const { channels, length, low, high, total, full, pool } = shown;
    const ratio = devicePixelRatio;
    const height = Math.max(ROW, channels * (ROW + GAP) - GAP);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.cssText = `width:${width}px;height:${height}px`;
    const scale = `${formatScale(low)} to ${formatScale(high)}`;
    this.canvas.setAttribute("aria-label", `Signal of ${total} channels and ${full} values, from ${scale}`);
    const parts = [channels < total ? `first ${channels} of ${formatCount(total)} channels` : `${channels} ${channels === 1 ? "channel" : "channels"}`, `${formatCount(full)} values`, pool > 1 && `mean of ${pool} a point`, scale];
    setText(this.note, parts.filter(Boolean).join(", "));
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    const x = (at: number): number => (length > 1 ? (at / (length - 1)) * (width - 1) + 0.5 : width / 2);
    for (let channel = 0; channel < channels; channel++) {
      const top = channel * (ROW + GAP);
      const y = (value: number): number => top + 2 + (high > low ? (1 - (value - low) / (high - low)) * (ROW - 4) : ROW / 2);
      context.fillStyle = ink.zero;
      if (low <= 0 && high >= 0) context.fillRect(0, Math.round(y(0)), width, 1);
      else context.fillRect(0, top + ROW, width, 1);
      context.strokeStyle = ink.line;
      context.lineWidth = 1;
      context.beginPath();
      let pen = false;
      for (let at = 0; at < length; at++) {
        const value = this.values[channel * length + at] ?? NaN;
        if (!Number.isFinite(value)) {
          pen = false;
          context.fillStyle = ink.warn;
          for (let dash = 0; dash < ROW; dash += 4) context.fillRect(Math.floor(x(at)), top + dash, Math.max(1, width / length), 2);
        } else if (pen) context.lineTo(x(at), y(value));
        else context.moveTo(x(at), y(value));
        pen = Number.isFinite(value);
      }
      context.stroke();
      if (channels > 1) {
        context.fillStyle = ink.line;
        context.font = "10px monospace";
        context.fillText(String(channel), 2, top + 10);
      }
    }
  }
}
