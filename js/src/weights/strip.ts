// One tensor of a panel: its title and scale, the field of its tiles, and what is to be said under it.

import { h, setText } from "../lib/dom";
import { formatValue } from "../lib/format";
import { icon } from "../lib/icons";
import type { WeightPanel, WeightStrip } from "../lib/protocol_weights";
import { mapGradient } from "../lib/colormap";
import { Field, type FieldEvents, type FieldPicture } from "./field";
import { badText, footOf, scaleEnds } from "./words";

export class StripBox {
  private readonly heading = h("h4");
  private readonly bad = h("span", { class: "bad", hidden: true });
  private readonly low = h("span");
  private readonly high = h("span");
  private readonly map = h("i", { class: "map", "aria-hidden": "true" });
  private readonly legend = h("span", { class: "leg", role: "img" }, this.low, this.map, this.high);
  private readonly number = h("div", { class: "scalar mono", hidden: true });
  private readonly foot = h("div", { class: "foot", hidden: true });
  private readonly head = h("div", { class: "sh" }, this.heading, this.bad, this.legend);
  readonly field: Field;
  readonly element: HTMLElement;
  strip: WeightStrip | null = null;

  constructor(
    readonly key: string,
    events: FieldEvents,
  ) {
    this.field = new Field(events);
    this.element = h("div", { class: "wstrip", "data-strip": key }, this.head, this.number, this.field.element, this.foot);
  }

  show(panel: WeightPanel, strip: WeightStrip, picture: FieldPicture | null): void {
    this.strip = strip;
    setText(this.heading, strip.title);
    const counts = badText(strip);
    this.bad.hidden = !counts;
    if (counts) this.bad.replaceChildren(icon("warn", 13), counts);
    const foot = footOf(strip, panel);
    this.foot.hidden = !foot;
    setText(this.foot, foot);
    this.number.hidden = picture !== null;
    this.field.element.hidden = this.legend.hidden = picture === null;
    if (!picture) return setText(this.number, strip.value === null ? counts.replace(/^1 /, "") || "not finite" : formatValue(strip.value));
    // The scale stands over the end of its picture, where that is wide enough for it.
    this.head.style.maxWidth = `${Math.max(250, picture.plan.plane[0])}px`;
    const [low, high] = scaleEnds(strip);
    setText(this.low, low);
    setText(this.high, high);
    this.legend.hidden = strip.colours > 1 && strip.scale === 0;
    // In colour each channel goes from dark to light, with zero in the middle.
    this.map.style.background = strip.colours > 1 ? "linear-gradient(90deg, #000, #fff)" : mapGradient(picture.look.theme, picture.look.unsigned);
    this.legend.setAttribute("aria-label", `${strip.colours > 1 ? "scale of each colour" : "colour scale"} from ${low} to ${high}`);
    this.field.show(picture);
  }

  destroy(): void {
    this.field.destroy();
  }
}
