// Token ids of the sample as chips; one that is pressed becomes a field for another id.

import { h, setText, submitOnEnter } from "../lib/dom";
import { formatCount } from "../lib/format";
import type { Tokens } from "../lib/protocol";
import { visible } from "../strips/tokens";

export class TokenChips {
  private readonly whole = h("p", { class: "iwhole", hidden: true });
  private readonly list = h("ol", { class: "ichips", "aria-label": "Tokens" });
  private readonly more = h("p", { class: "inote", hidden: true });
  readonly element = h("div", { class: "itokens", hidden: true }, this.whole, this.list, this.more);
  private open: number | null = null;
  private drawn = "";

  /** Where the model is told which tokens count; empty: nowhere. */
  private mask = "";

  constructor(
    private readonly replace: (place: number, id: number) => void,
    private readonly hide: (place: number, mask: string) => void,
  ) {}

  show(tokens: Tokens | null, edited: readonly number[], mask: string, barred: string): void {
    this.mask = mask;
    this.element.hidden = tokens === null;
    if (!tokens) return;
    this.whole.hidden = !tokens.text;
    setText(this.whole, tokens.text);
    const more = tokens.total - tokens.ids.length;
    this.more.hidden = more <= 0;
    setText(this.more, `first ${formatCount(tokens.ids.length)} of ${formatCount(tokens.total)} tokens`);
    if (barred) this.open = null;
    const key = JSON.stringify([tokens.ids, tokens.texts, edited, mask, barred, this.open]);
    if (key === this.drawn) return;
    const focused = this.list.contains((this.list.getRootNode() as Document).activeElement) ? (this.list.getRootNode() as Document).activeElement : null;
    const place = focused?.closest<HTMLElement>("li")?.dataset.place;
    this.drawn = key;
    const changed = new Set(edited);
    this.list.replaceChildren(...tokens.ids.map((id, at) => this.item(tokens, id, at, changed.has(at), barred)));
    if (place !== undefined) this.list.querySelector<HTMLElement>(`li[data-place="${place}"] :is(button, input)`)?.focus({ preventScroll: true });
  }

  private item(tokens: Tokens, id: number, at: number, changed: boolean, barred: string): HTMLElement {
    const text = tokens.texts[at];
    const redraw = (open: number | null): void => {
      this.open = open;
      this.show(tokens, [...(this.list.querySelectorAll<HTMLElement>("li.edited") ?? [])].map((one) => Number(one.dataset.place)), this.mask, barred);
    };
    if (this.open === at) return h("li", { "data-place": at, class: changed ? "edited" : "" }, this.field(id, at, redraw));
    const name = [`token ${at}: ${text === undefined ? "" : `${text}, `}id ${id}`, changed && "replaced"].filter(Boolean).join(", ");
    return h(
      "li",
      { "data-place": at, class: changed ? "edited" : "" },
      h(
        "button",
        { type: "button", class: "ichip", "aria-label": `${name}; replace`, title: barred || `${name}: click to replace it`, disabled: barred !== "", onclick: () => redraw(at) },
        text !== undefined && h("span", { class: "text" }, visible(text)),
        h("span", { class: "id" }, String(id)),
      ),
    );
  }

  private field(id: number, at: number, redraw: (open: number | null) => void): HTMLElement {
    const input = h("input", { class: "inp", type: "number", min: 0, step: 1, value: id, "aria-label": `Id of token ${at}` });
    const hide = this.mask && h("button", { type: "button", class: "btn s", "aria-label": `Mask token ${at}`, title: `Set ${this.mask} to 0 at this token`, onclick: () => (redraw(null), this.hide(at, this.mask)) }, "Mask");
    const form = h("form", {}, input, hide);
    submitOnEnter(form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const next = input.valueAsNumber;
      input.toggleAttribute("aria-invalid", !Number.isInteger(next));
      if (!Number.isInteger(next)) return;
      redraw(null);
      if (next !== id) this.replace(at, next);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      redraw(null);
      event.preventDefault();
      event.stopPropagation();
    });
    input.style.width = `${Math.max(5, String(id).length + 3)}ch`;
    queueMicrotask(() => {
      input.focus({ preventScroll: true });
      input.select();
    });
    return form;
  }
}
