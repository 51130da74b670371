// Token ids of one sample: a list of small boxes, each with its text where there is one and its id.

import { h } from "../lib/dom";
import { formatCount } from "../lib/format";
import type { Tokens } from "../lib/protocol";

export class TokenList {
  readonly element = h("div", { class: "ids", hidden: true });
  private drawn = "";

  show(tokens: Tokens): void {
    const key = JSON.stringify(tokens);
    if (key === this.drawn) return;
    this.drawn = key;
    const list = h(
      "ol",
      { "aria-label": "Token ids", tabindex: 0, start: 0 },
      ...tokens.ids.map((id, at) => {
        const text = tokens.texts[at];
        const name = text === undefined ? `token ${at}: id ${id}` : `token ${at}: ${text}, id ${id}`;
        return h("li", { title: name, "aria-label": name }, text !== undefined && h("span", { class: "text" }, visible(text)), h("span", { class: "id" }, String(id)));
      }),
    );
    const more = tokens.total - tokens.ids.length;
    this.element.replaceChildren(
      ...(tokens.text ? [h("p", { class: "whole" }, tokens.text)] : []),
      list,
      ...(more > 0 ? [h("p", { class: "foot" }, `first ${formatCount(tokens.ids.length)} of ${formatCount(tokens.total)} tokens`)] : []),
    );
  }
}

/** Blanks are part of many tokens and would not be seen. */
export function visible(text: string): string {
  return text === "" ? "\u2205" : text.replace(/ /g, "\u00b7").replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5");
}
