// One channel at full resolution, from exact values; until they are here, the tile as it was sent.

import type { Ink } from "../cards/view";
import { h, hasLeft, setText } from "../lib/dom";
import { encodeAll } from "../lib/pixels";
import type { Pair, Strip } from "../lib/protocol";
import { paintLine, paintRaster, resize, type Look } from "./paint";
import type { Spot } from "./readout";

const EDGE = 168;
const LINE = { width: 300, height: 120 };

export interface MagnifierPicture {
  strip: Strip;
  channel: number;
  title: string;
  label: string;
  look: Look;
  ink: Ink;
  ratio: number;
  values: ArrayLike<number> | null;
  codes: Uint8Array | null;
}

export class Magnifier {
  private readonly canvas = h("canvas", { tabindex: 0, role: "img" });
  private readonly ring = h("div", { class: "cross", hidden: true });
  private readonly chip = h("span", { class: "chip" });
  private readonly box = h("div", { class: "zoombox" }, this.canvas, this.ring);
  readonly element = h("div", { class: "zoom", hidden: true }, this.box, this.chip);
  private picture: MagnifierPicture | null = null;
  private pixel = 1;
  private spot: Spot | null = null;

  constructor(
    private readonly hover: (spot: Spot | null) => void,
    private readonly choose: (spot: Spot) => void,
  ) {
    this.canvas.addEventListener("click", (event) => {
      const spot = this.spotAt(event);
      if (spot) choose(spot);
    });
    this.canvas.addEventListener("pointermove", (event) => hover(this.spotAt(event)));
    this.canvas.addEventListener("pointerleave", () => hover(null));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", ({ relatedTarget }) => hasLeft(this.canvas, relatedTarget) && hover(null));
    this.canvas.addEventListener("focus", () => {
      if (this.canvas.matches(":focus-visible") && !this.spot) this.move(0, 0);
    });
  }

  show(picture: MagnifierPicture | null): void {
    this.element.hidden = picture === null;
    this.picture = picture;
    if (!picture) return;
    const { strip, channel, title, values, codes, look, ratio, ink, label } = picture;
    setText(this.chip, label);
    this.canvas.setAttribute("aria-label", `${title} channel ${channel}, magnified; arrow keys move between values, Enter chooses one`);
    const lines = strip.layout === "lines";
    const tile: Pair = values ? strip.full : strip.tile;
    const bytes = values ? encodeAll(values, strip.scale) : codes;
    const context = this.canvas.getContext("2d");
    if (!bytes || !context) return;
    if (lines) {
      this.canvas.style.cssText = `width:${LINE.width}px;height:${LINE.height}px`;
      resize(this.canvas, Math.round(LINE.width * ratio), Math.round(LINE.height * ratio));
      paintLine(context, 0, 0, bytes, tile, LINE, ratio, strip.unsigned, ink);
      return;
    }
    // Whole device pixels a value; a large tile is shown 1:1 and scrolls.
    const scale = Math.max(1, Math.round((EDGE * ratio) / Math.max(...strip.full)));
    const drawn = values ? scale : Math.max(1, Math.round(scale * Math.max(...strip.pool)));
    this.pixel = scale / ratio;
    resize(this.canvas, tile[1] * drawn, tile[0] * drawn);
    paintRaster(context, 0, 0, bytes, tile, drawn, look);
    this.canvas.style.cssText = `width:${strip.full[1] * this.pixel}px;height:${strip.full[0] * this.pixel}px`;
    this.mark(this.spot);
  }

  mark(spot: Spot | null): void {
    this.spot = spot;
    const inside = spot && this.picture && spot.channel === this.picture.channel && this.picture.strip.layout !== "lines";
    this.ring.hidden = !inside;
    if (!inside) return;
    const size = Math.max(5, this.pixel + 2);
    const left = (spot.col + 0.5) * this.pixel - size / 2;
    const top = (spot.row + 0.5) * this.pixel - size / 2;
    this.ring.style.cssText = `left:${left}px;top:${top}px;width:${size}px;height:${size}px`;
  }

  private spotAt(event: PointerEvent): Spot | null {
    if (!this.picture) return null;
    const { strip, channel } = this.picture;
    const box = this.canvas.getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * strip.full[1]);
    const row = strip.layout === "lines" ? 0 : Math.floor(((event.clientY - box.top) / box.height) * strip.full[0]);
    return col < 0 || row < 0 || col >= strip.full[1] || row >= strip.full[0] ? null : { channel, row, col };
  }

  private onKey(event: KeyboardEvent): void {
    const step = ({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] } as Record<string, Pair>)[event.key];
    const chosen = event.key === "Enter" && this.spot && this.picture?.channel === this.spot.channel;
    if (!step && !chosen) return;
    event.preventDefault();
    event.stopPropagation();
    if (step) this.move(...step);
    else if (this.spot) this.choose(this.spot);
  }

  private move(down: number, right: number): void {
    if (!this.picture) return;
    const { strip, channel } = this.picture;
    const [rows, columns] = strip.full;
    const from = this.spot?.channel === channel ? this.spot : { row: Math.floor(rows / 2), col: Math.floor(columns / 2) };
    const row = Math.max(0, Math.min(rows - 1, from.row + down));
    const col = Math.max(0, Math.min(columns - 1, from.col + right));
    this.hover({ channel, row, col });
  }
}
