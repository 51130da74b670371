// A scrolling grid of tiles that holds only the tiles on screen: images, and line plots for (C, L) tensors.
// All tiles are painted on one canvas under their buttons: a canvas each makes a browser slow long before
// their pixels do (20 cards are 640 tiles).

import type { Ink } from "../cards/view";
import { h, hasLeft, svg } from "../lib/dom";
import { icon } from "../lib/icons";
import type { Pair, Strip } from "../lib/protocol";
import { paintLine, paintRaster, resize, type Look } from "./paint";
import { visibleChannels, type Plan } from "./plan";
import type { Spot } from "./readout";

export interface GridEvents {
  hover(spot: Spot | null): void;
  select(channel: number): void;
  scrolled(top: number): void;
}

interface Tile {
  button: HTMLButtonElement;
  /** The part of the button that lies over the tile's pixels. */
  face: HTMLElement;
  caption: HTMLElement;
  dead: boolean | null;
  /** The codes that are painted, so that nothing is painted twice. */
  painted: Uint8Array | null;
  look: string;
}

export interface GridPicture {
  plan: Plan;
  strip: Strip;
  title: string;
  average: boolean;
  look: Look;
  ink: Ink;
  ratio: number;
  selected: number | null;
  codesOf(channel: number): Uint8Array | null;
}

export class TileGrid {
  private readonly sheet = h("canvas", { class: "sheet", "aria-hidden": "true" });
  private readonly space = h("div", { class: "tilespace" }, this.sheet);
  /** First row of tiles that the sheet holds. */
  private sheetRow = 0;
  readonly element = h("div", { class: "tiles", role: "group" }, this.space);
  private readonly ring = h("div", { class: "cross", hidden: true });
  private readonly tiles = new Map<number, Tile>();
  private picture: GridPicture | null = null;
  private current = 0;
  private lastPixel: Pair = [-1, -1];

  constructor(events: GridEvents) {
    this.element.addEventListener("scroll", () => {
      this.place();
      events.scrolled(this.element.scrollTop);
    });
    this.space.addEventListener("pointermove", (event) => {
      const spot = this.spotAt(event);
      if (spot) this.lastPixel = [spot.row, spot.col];
      events.hover(spot);
    });
    this.space.addEventListener("pointerleave", () => events.hover(null));
    this.space.addEventListener("click", (event) => {
      const tile = this.tileOf(event.target);
      if (tile !== null) events.select(tile);
    });
    this.space.addEventListener("keydown", (event) => this.onKey(event));
    this.space.addEventListener("focusin", (event) => {
      const channel = this.tileOf(event.target);
      if (channel === null) return;
      this.setCurrent(channel);
      if ((event.target as Element).matches(":focus-visible")) events.hover(this.pixelIn(channel));
    });
    // What the keyboard pointed at is not pointed at any more.
    this.space.addEventListener("focusout", ({ relatedTarget }) => hasLeft(this.space, relatedTarget) && events.hover(null));
  }

  show(picture: GridPicture): void {
    const { plan, strip, title } = picture;
    const before = this.picture?.plan;
    const fresh = !before || (["pitch", "columns", "cell", "gap"] as const).some((size) => before[size] !== plan[size]);
    this.picture = picture;
    this.element.setAttribute("aria-label", strip.layout === "tokens" ? `${title}, tokens by features` : `${title}, channels`);
    this.space.style.height = `${plan.rows * plan.pitch - 4}px`;
    this.element.style.height = `${plan.viewRows * plan.pitch - 4}px`;
    // Tiles that are laid out anew are new buttons: the focus stays on the channel it was on.
    const active = (this.element.getRootNode() as Document | ShadowRoot).activeElement;
    const focused = fresh && this.space.contains(active) ? this.tileOf(active) : null;
    if (fresh) for (const channel of [...this.tiles.keys()]) this.drop(channel);
    this.place();
    if (focused !== null) this.tiles.get(focused)?.button.focus({ preventScroll: true });
  }

  scrollTo(top: number): void {
    if (Math.abs(this.element.scrollTop - top) > 0.5) this.element.scrollTop = top;
  }

  /** Rings a value; null takes the ring away. */
  mark(spot: Spot | null): void {
    const tile = spot && this.tiles.get(spot.channel);
    if (!spot || !tile || !this.picture || this.picture.strip.layout === "lines") {
      this.ring.hidden = true;
      return;
    }
    const { plan, strip, ratio } = this.picture;
    const pixel = plan.scale / ratio;
    const size = Math.max(4, pixel + 2);
    const left = (Math.floor(spot.col / strip.pool[1]) + 0.5) * pixel - size / 2 + tile.face.offsetLeft;
    const top = (Math.floor(spot.row / strip.pool[0]) + 0.5) * pixel - size / 2;
    this.ring.style.cssText = `left:${left}px;top:${top}px;width:${size}px;height:${size}px`;
    this.ring.hidden = false;
    if (this.ring.parentElement !== tile.button) tile.button.append(this.ring);
  }

  private place(): void {
    const { picture } = this;
    if (!picture) return;
    const { first, count } = visibleChannels(picture.plan, this.element.scrollTop, 1);
    for (const channel of [...this.tiles.keys()]) if (channel < first || channel >= first + count) this.drop(channel);
    if (!(this.current >= first && this.current < first + count)) this.current = first;
    this.placeSheet(first, count, picture);
    for (let channel = first; channel < first + count; channel++) this.draw(channel, picture);
  }

  /** Lays the sheet under the rows on screen; what was painted is gone if it moved or grew. */
  private placeSheet(first: number, count: number, { plan, ratio }: GridPicture): void {
    const row = Math.floor(first / plan.columns);
    const rows = Math.ceil((first + count) / plan.columns) - row;
    const width = Math.round((plan.columns * (plan.cell + plan.gap) - plan.gap) * ratio);
    const height = Math.round(rows * plan.pitch * ratio);
    const resized = resize(this.sheet, width, height);
    if (!resized && row === this.sheetRow) return;
    this.sheetRow = row;
    this.sheet.style.cssText = `top:${row * plan.pitch}px;width:${width / ratio}px;height:${height / ratio}px`;
    this.sheet.getContext("2d")?.clearRect(0, 0, width, height);
    for (const tile of this.tiles.values()) tile.painted = null;
  }

  private drop(channel: number): void {
    this.tiles.get(channel)?.button.remove();
    this.tiles.delete(channel);
  }

  private draw(channel: number, picture: GridPicture): void {
    const { plan, strip, look, ratio, selected, average } = picture;
    let tile = this.tiles.get(channel);
    if (!tile) {
      tile = this.create(channel, plan);
      this.tiles.set(channel, tile);
    }
    const codes = picture.codesOf(channel);
    const dead = codes !== null && strip.dead.includes(channel);
    const on = channel === selected;
    tile.button.classList.toggle("on", on);
    tile.button.setAttribute("aria-pressed", String(on));
    tile.button.tabIndex = channel === this.current ? 0 : -1;
    tile.button.classList.toggle("blank", codes === null);
    const size = `${plan.width},${plan.height}`;
    if (tile.face.dataset.size !== size) {
      tile.face.dataset.size = size;
      tile.face.style.cssText = `width:${plan.width}px;height:${plan.height}px`;
    }
    if (tile.dead !== dead) this.drawCaption(tile, channel, dead, average, picture);
    const key = `${look.theme}${look.unsigned}${size}${strip.tile}`;
    const context = this.sheet.getContext("2d");
    if (!codes || !context || (tile.painted === codes && tile.look === key)) return;
    const cell = Math.round((channel % plan.columns) * (plan.cell + plan.gap) * ratio);
    const left = cell + Math.round(((plan.cell - plan.width) / 2) * ratio);
    const top = Math.round((Math.floor(channel / plan.columns) - this.sheetRow) * plan.pitch * ratio);
    if (tile.look !== key) context.clearRect(cell, top, Math.ceil(plan.cell * ratio), Math.ceil(plan.pitch * ratio));
    tile.painted = codes;
    tile.look = key;
    if (strip.layout === "lines") paintLine(context, left, top, codes, strip.tile, plan, ratio, strip.unsigned, picture.ink);
    else paintRaster(context, left, top, codes, strip.tile, plan.scale, look);
  }

  private create(channel: number, plan: Plan): Tile {
    const face = h("span", { class: "face" });
    const caption = h("span", { class: "cap" });
    const row = Math.floor(channel / plan.columns);
    const style = `left:${(channel % plan.columns) * (plan.cell + plan.gap)}px;top:${row * plan.pitch}px;width:${plan.cell}px`;
    const button = h("button", { type: "button", class: "tile", style, "data-channel": channel }, face, caption);
    this.space.append(button);
    return { button, face, caption, dead: null, painted: null, look: "" };
  }

  private drawCaption(tile: Tile, channel: number, dead: boolean, average: boolean, { plan, strip, title }: GridPicture): void {
    tile.dead = dead;
    tile.button.classList.toggle("dead", dead);
    const name = strip.layout === "tokens" ? "" : average ? "mean" : String(channel);
    tile.caption.replaceChildren(...(dead ? [icon("triangle", 8), `${name} dead`] : [name]));
    tile.caption.hidden = strip.layout === "tokens";
    tile.caption.firstElementChild?.classList.add("tri");
    const what = strip.layout === "tokens" ? "all values" : average ? "mean over channels" : `channel ${channel}`;
    tile.button.setAttribute("aria-label", `${title.toLowerCase()} ${what}${dead ? ", dead" : ""}`);
    tile.button.querySelector(".x")?.remove();
    // A line plot shows by itself that it is flat.
    if (!dead || strip.layout === "lines") return;
    const { width, height } = plan;
    tile.button.append(
      svg("svg", { class: "x", width, height, style: `margin-left:${(plan.cell - width) / 2}px`, "aria-hidden": "true" }, svg("path", { d: `M${width * 0.1} ${height * 0.9} ${width * 0.9} ${height * 0.1}` })),
    );
  }

  private tileOf(target: EventTarget | null): number | null {
    const channel = (target as Element | null)?.closest<HTMLElement>(".tile")?.dataset.channel;
    return channel === undefined ? null : Number(channel);
  }

  private spotAt(event: PointerEvent): Spot | null {
    const channel = this.tileOf(event.target);
    const tile = channel === null ? undefined : this.tiles.get(channel);
    if (!tile || channel === null || !this.picture) return null;
    const { strip } = this.picture;
    const box = tile.face.getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * strip.tile[1]);
    const row = strip.layout === "lines" ? 0 : Math.floor(((event.clientY - box.top) / box.height) * strip.tile[0]);
    if (col < 0 || row < 0 || col >= strip.tile[1] || row >= strip.tile[0]) return null;
    return { channel, row: row * strip.pool[0], col: col * strip.pool[1] };
  }

  /** The pixel that the keyboard means in a tile: the one last pointed at, else the middle. */
  private pixelIn(channel: number): Spot | null {
    if (!this.picture) return null;
    const [rows, columns] = this.picture.strip.full;
    const [row, col] = this.lastPixel;
    if (row >= 0 && row < rows && col < columns) return { channel, row, col };
    return { channel, row: Math.floor(rows / 2), col: Math.floor(columns / 2) };
  }

  private onKey(event: KeyboardEvent): void {
    const channel = this.tileOf(event.target);
    if (channel === null || !this.picture) return;
    const { plan } = this.picture;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -plan.columns, ArrowDown: plan.columns, Home: -channel, End: plan.channels - 1 - channel }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = channel + step;
    if (next < 0 || next >= plan.channels) return;
    this.bringIntoView(Math.floor(next / plan.columns), plan);
    this.place();
    this.tiles.get(next)?.button.focus({ preventScroll: true });
  }

  private bringIntoView(row: number, plan: Plan): void {
    const top = row * plan.pitch;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + plan.pitch > scrollTop + clientHeight) this.element.scrollTop = (row - plan.viewRows + 1) * plan.pitch;
  }

  private setCurrent(channel: number): void {
    const before = this.tiles.get(this.current);
    if (before) before.button.tabIndex = -1;
    this.current = channel;
    const now = this.tiles.get(channel);
    if (now) now.button.tabIndex = 0;
  }
}
