// The pinned batch: the sample that is shown, its loss at each update since, and letting it go.

import { h, setText, svg } from "../lib/dom";
import { icon } from "../lib/icons";
import type { Pinned } from "../lib/protocol_inputs";
import { lossText } from "./words";

const WIDTH = 100;
const HEIGHT = 26;

/** A polyline over the whole box; losses that are no numbers leave a gap. */
export function lossPath(losses: Pinned["losses"]): string {
  const known = losses.map(({ loss }) => loss).filter(Number.isFinite);
  if (!known.length) return "";
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const [from, to] = [losses[0]?.at ?? 0, losses[losses.length - 1]?.at ?? 0];
  let pen = "M";
  let path = "";
  for (const { at, loss } of losses) {
    if (!Number.isFinite(loss)) {
      pen = "M";
      continue;
    }
    const x = to > from ? ((at - from) / (to - from)) * WIDTH : WIDTH;
    const y = high > low ? 3 + (1 - (loss - low) / (high - low)) * (HEIGHT - 6) : HEIGHT / 2;
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  }
  return path;
}

export function lossesText(losses: Pinned["losses"]): string {
  const [first, last] = [losses[0], losses[losses.length - 1]];
  if (!first || !last) return "";
  return losses.length === 1 ? `loss of this sample: ${lossText(first.loss)}` : `loss of this sample at ${losses.length} updates, from ${lossText(first.loss)} to ${lossText(last.loss)}`;
}

export class PinnedCard {
  private readonly about = h("span", { class: "mut iabout" });
  private readonly face = h("canvas", { "aria-hidden": "true" });
  private readonly word = h("span", { class: "itext" });
  private readonly curve = svg("svg", { class: "icurve", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" });
  private readonly last = h("span", { class: "num" });
  private readonly note = h("p", { class: "inote", hidden: true });
  private readonly unpin: HTMLButtonElement;
  readonly element: HTMLElement;

  constructor(unpin: () => void) {
    this.unpin = h("button", { type: "button", class: "ib s", "aria-label": "Unpin", title: "Unpin the batch", onclick: unpin }, icon("close", 14));
    this.element = h(
      "section",
      { class: "isec", "aria-label": "Pinned", hidden: true },
      h("div", { class: "ish" }, h("h4", {}, "Pinned"), h("span", { class: "flex" }), this.about, this.unpin),
      h("div", { class: "ipinned" }, this.face, this.word, this.curve, this.last),
      this.note,
    );
  }

  /** `face` paints the sample into a canvas, if it is a picture. */
  show(pinned: Pinned | null, sample: string, face: (canvas: HTMLCanvasElement) => boolean, barred: string): void {
    this.element.hidden = pinned === null;
    if (!pinned) return;
    setText(this.about, "loss per update");
    this.about.title = `${pinned.text}, ${pinned.samples} samples`;
    this.unpin.disabled = barred !== "";
    this.unpin.title = barred || "Unpin the batch";
    this.face.hidden = !face(this.face);
    this.word.hidden = !this.face.hidden;
    setText(this.word, sample);
    const { losses } = pinned;
    this.curve.toggleAttribute("hidden", losses.length === 0);
    this.curve.setAttribute("aria-label", lossesText(losses));
    this.curve.replaceChildren(svg("title", {}, lossesText(losses)), svg("path", { class: "ibase", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` }), svg("path", { class: "iline", d: lossPath(losses) }));
    setText(this.last, lossText(losses[losses.length - 1]?.loss ?? null));
    this.note.hidden = !pinned.losses_note;
    setText(this.note, pinned.losses_note);
  }
}
