// The strip at the bottom: the last action as Python, and what the last snapshot cost.

import { copyText, h, setText } from "../lib/dom";
import { formatBytes, formatSeconds } from "../lib/format";
import { icon } from "../lib/icons";
import type { Cost, State } from "../lib/protocol";

export class CodeStrip {
  readonly element: HTMLElement;
  /** Shows and hides the strip; it stands in the toolbar. */
  readonly toggle: HTMLButtonElement;
  private readonly code = h("code");
  private readonly copy: HTMLButtonElement;
  private readonly cost = h("span", { class: "time num only-w" });

  constructor() {
    this.copy = h("button", { type: "button", class: "ib s", "aria-label": "Copy code", title: "Copy code", onclick: () => void this.copyCode() }, icon("copy", 14));
    this.element = h("div", { class: "code" }, h("span", { class: "only-w" }, "Last action"), this.code, this.copy, this.cost);
    this.toggle = h("button", { type: "button", class: "ib tog", "aria-label": "Show code", title: "Show code", "aria-pressed": "true", onclick: () => this.flip() }, icon("code"));
  }

  update(state: State): void {
    setText(this.code, state.last_action || "none yet");
    this.copy.disabled = !state.last_action;
    setText(this.cost, state.cost ? costText(state.cost) : "");
  }

  private flip(): void {
    this.element.hidden = !this.element.hidden;
    this.toggle.setAttribute("aria-pressed", String(!this.element.hidden));
  }

  private async copyCode(): Promise<void> {
    const done = await copyText(this.code.textContent ?? "", this.element);
    this.copy.title = done ? "Copied" : "The browser did not allow copying";
    this.copy.replaceChildren(icon(done ? "check" : "copy", 14));
    setTimeout(() => this.copy.replaceChildren(icon("copy", 14)), 1200);
  }
}

function costText({ seconds, layers, bytes }: Cost): string {
  return `${formatSeconds(seconds)} \u00b7 ${layers} ${layers === 1 ? "layer" : "layers"} captured \u00b7 ${formatBytes(bytes)}`;
}
