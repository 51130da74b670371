// A row of buttons of which one is chosen, as radio buttons for the keyboard and for screen readers.

import { h, setText } from "./dom";

export class Choice<K extends string> {
  readonly element: HTMLElement;
  private readonly buttons: HTMLButtonElement[];
  value: K;

  constructor(
    label: string,
    private readonly entries: [key: K, text: string, title: string][],
    value: K,
    private readonly chosen: (key: K) => void,
  ) {
    this.value = value;
    this.buttons = entries.map(([key, text, title]) => h("button", { type: "button", role: "radio", title, onclick: () => this.choose(key) }, text));
    this.element = h("div", { class: "seg", role: "radiogroup", "aria-label": label }, ...this.buttons);
    this.element.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      const at = entries.findIndex(([key]) => key === this.value);
      const next = (at + by + entries.length) % entries.length;
      this.choose(entries[next]?.[0] ?? this.value);
      this.buttons[next]?.focus();
      event.preventDefault();
      event.stopPropagation();
    });
    this.mark();
  }

  /** Another text of one button, such as a count. */
  setText(key: K, text: string): void {
    const button = this.buttons[this.entries.findIndex(([known]) => known === key)];
    if (button) setText(button, text);
  }

  /** Shows another one as chosen, without choosing it. */
  set(key: K): void {
    if (key === this.value) return;
    this.value = key;
    this.mark();
  }

  enable(on: boolean): void {
    for (const button of this.buttons) button.disabled = !on;
  }

  private choose(key: K): void {
    this.value = key;
    this.mark();
    this.chosen(key);
  }

  private mark(): void {
    this.entries.forEach(([key], i) => {
      const on = key === this.value;
      this.buttons[i]?.setAttribute("aria-checked", String(on));
      if (this.buttons[i]) this.buttons[i].tabIndex = on ? 0 : -1;
    });
  }
}
