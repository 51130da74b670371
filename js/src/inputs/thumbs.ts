// The samples of the batch as small pictures or texts, the largest loss first or in their order; one is chosen.

import { Choice } from "../lib/choice";
import { focusedNear, h, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import type { InputsContent, Order, Thumb } from "../lib/protocol_inputs";
import { drawFaces, faceOf } from "./faces";
import { lossText, pageText, thumbText } from "./words";

/** Samples on a page. */
export const PAGE = 12;
/** Longest edge of a thumbnail. */
export const FACE = 32;

interface Events {
  choose(sample: number): void;
  order(order: Order): void;
  page(first: number): void;
}

export class Thumbs {
  private readonly order: Choice<Order>;
  private readonly note = h("p", { class: "inote", hidden: true });
  private readonly list = h("div", { class: "ithumbs", role: "radiogroup", "aria-label": "Samples" });
  private readonly faces = h("canvas", { "aria-hidden": "true" });
  private readonly shelf = h("div", { class: "ishelf" }, this.faces, this.list);
  private readonly range = h("span", { class: "num" });
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly legend = h("span", { hidden: true }, h("i", { class: "iwrong", "aria-hidden": "true" }, "\u2717"), " predicted wrongly");
  private readonly pages: HTMLElement;
  readonly element: HTMLElement;
  private content: InputsContent | null = null;
  private filled = "";
  private alive = true;

  constructor(private readonly events: Events) {
    this.order = new Choice<Order>("Order of the samples", [["loss", "Loss", "Largest loss first"], ["batch", "Batch", "As in the batch"]], "loss", (order) => events.order(order));
    const pager = (name: "left" | "right", label: string, by: number): HTMLButtonElement =>
      h("button", { type: "button", class: "ib s", "aria-label": label, title: label, onclick: () => events.page(Math.max(0, (this.content?.first ?? 0) + by)) }, icon(name));
    this.previous = pager("left", "Previous samples", -PAGE);
    this.next = pager("right", "Next samples", PAGE);
    this.pages = h("div", { class: "ipages" }, this.range, h("span", { class: "flex" }), this.previous, this.next);
    this.element = h("section", { class: "isec", "aria-label": "Samples" }, h("div", { class: "ish" }, h("h4", {}, "Samples"), h("span", { class: "flex" }), this.order.element), this.shelf, this.pages, h("div", { class: "inote" }, this.legend), this.note);
    this.list.addEventListener("keydown", (event) => this.key(event));
  }

  /** `order` as it was asked for, which holds only where losses are known. */
  show(content: InputsContent, buffers: Uint8Array[], order: Order, alive: boolean): void {
    this.content = content;
    this.alive = alive;
    const { thumbs, samples, first } = content;
    this.element.hidden = samples === 0;
    this.order.set(order);
    this.order.enable(alive);
    this.legend.hidden = !thumbs.some(({ right }) => right === false);
    const note = order === "loss" && content.order === "batch" ? content.order_note || "losses are not known: in the order of the batch" : content.order_note;
    this.note.hidden = !note;
    setText(this.note, note);
    const range = pageText(first, thumbs.length, samples);
    this.pages.hidden = !range;
    setText(this.range, range);
    this.previous.disabled = !alive || first <= 0;
    this.next.disabled = !alive || first + thumbs.length >= samples;
    const filled = JSON.stringify([alive, devicePixelRatio, thumbs.map((thumb) => ({ ...thumb, buffer: thumb.buffer >= 0 }))]);
    if (filled !== this.filled) this.fill(thumbs);
    this.filled = filled;
    this.mark(content.sample);
    drawFaces(this.faces, this.shelf, thumbs, buffers);
  }

  private fill(thumbs: Thumb[]): void {
    const focused = focusedNear(this.list);
    const hadFocus = focused instanceof HTMLElement && this.list.contains(focused) ? focused.dataset.sample : undefined;
    this.list.classList.toggle("texts", thumbs.some(({ buffer }) => buffer < 0));
    this.list.replaceChildren(...thumbs.map((thumb) => this.button(thumb)));
    if (hadFocus !== undefined) this.list.querySelector<HTMLElement>(`[data-sample="${hadFocus}"]`)?.focus({ preventScroll: true });
  }

  private button(thumb: Thumb): HTMLElement {
    const { sample, loss, right, buffer, text } = thumb;
    const wrong = right === false && h("i", { class: "iwrong", "aria-hidden": "true" }, "\u2717");
    const number = h("span", { class: "iloss" }, loss === null ? String(sample) : lossText(loss), wrong);
    const name = thumbText(thumb);
    return h(
      "button",
      { type: "button", role: "radio", class: "ithumb", "data-sample": sample, "aria-label": name, title: name, disabled: !this.alive, onclick: () => this.events.choose(sample) },
      buffer >= 0 ? faceOf(thumb, FACE) : h("span", { class: "itext" }, text || `sample ${sample}`),
      number,
    );
  }

  private mark(sample: number): void {
    let entry: HTMLElement | null = null;
    for (const button of this.list.children as HTMLCollectionOf<HTMLElement>) {
      const on = button.dataset.sample === String(sample);
      button.setAttribute("aria-checked", String(on));
      button.tabIndex = on ? 0 : -1;
      if (on) entry = button;
    }
    const first = this.list.firstElementChild;
    if (!entry && first instanceof HTMLElement) first.tabIndex = 0;
  }

  private key(event: KeyboardEvent): void {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const all = [...this.list.children] as HTMLButtonElement[];
    const next = all[all.indexOf(focusedNear(this.list) as HTMLButtonElement) + by];
    event.preventDefault();
    event.stopPropagation();
    if (!next) return;
    next.focus();
    this.events.choose(Number(next.dataset.sample));
  }
}
