// Why a layer has no statistics, or not more, and the one action that would give some.

import type { ViewHost } from "./view";
import { h, setText } from "../lib/dom";
import type { Offer } from "../lib/protocol_statistics";

const ACTIONS = {
  watch: { text: "Watch", name: "watch" },
  collect: { text: "Collect statistics", name: "set_stats_scope" },
} as const;

export class OfferLine {
  private offer: Offer = "";
  private readonly hint = h("p", { class: "hint" });
  private readonly button = h("button", { type: "button", class: "btn s", onclick: () => this.act() });
  readonly element = h("div", { class: "offer", hidden: true }, this.hint, this.button);

  constructor(private readonly host: ViewHost) {}

  /** `content`: what the kernel says; null before it has said anything. */
  show(content: { hint: string; offer: Offer } | null): void {
    const alive = this.host.frame.alive();
    setText(this.hint, content ? content.hint : alive ? "Waiting for the kernel\u2026" : "Not here: there is no kernel to ask.");
    this.offer = this.host.frame.locked() || this.host.frame.noLoop() ? "" : (content?.offer ?? "");
    this.button.hidden = !this.offer;
    this.button.disabled = !alive;
    if (this.offer) setText(this.button, ACTIONS[this.offer].text);
    this.element.hidden = !this.hint.textContent;
  }

  private act(): void {
    if (this.offer) this.host.frame.act(ACTIONS[this.offer].name, this.offer === "watch" ? { layers: [this.host.layer] } : { scope: "watched" });
  }
}
