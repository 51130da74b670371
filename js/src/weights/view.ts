// The view Weights: a panel for each parameter and buffer of a layer.

import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { Choice } from "../lib/choice";
import { h, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import type { Card } from "../lib/protocol";
import type { PanelOptions, ScaleMode, WeightsContent, WeightsOptions } from "../lib/protocol_weights";
import { TALLEST } from "./field";
import { Panel, type PanelHost } from "./panel";

/** Panels on one page. */
const PAGE = 6;
/** The least width of a strip, in CSS pixels, and what lies between two. */
const NARROWEST = 250;
const BETWEEN = 18;

class WeightsView implements CardView {
  readonly element: HTMLElement;
  private first = 0;
  private mode: ScaleMode = "own";
  private content: WeightsContent | null = null;
  private buffers: Uint8Array[] = [];
  private width = 0;
  private text = "";
  private readonly panels = new Map<string, Panel>();
  private readonly choice: Choice<ScaleMode>;
  private readonly previous: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly range = h("span", { class: "num" });
  private readonly pager: HTMLElement;
  private readonly bar: HTMLElement;
  private readonly partly = h("p", { class: "wpart", hidden: true });
  private readonly missing = h("div", { class: "missing" }, "Waiting for the kernel\u2026");
  private readonly list = h("div", { class: "wlist" });
  private readonly owner: PanelHost;

  constructor(private readonly host: ViewHost) {
    const { layer } = host;
    this.owner = {
      host,
      turn: ({ name, optimizer, group }, value) => host.frame.act("set_hyperparameter", { name, value, optimizer, group }),
      ask: () => host.frame.wantSoon(),
      read: (text) => (this.text = text),
    };
    this.choice = new Choice<ScaleMode>(
      `Scale of the weights of ${layer}`,
      [
        ["own", "own scale", "Each tensor on a scale of its own"],
        ["shared", "shared", "All weights of this layer on one scale, all gradients on one, and so on"],
        ["pinned", "pinned", "Scales stay as they are now, so that changes over time can be seen"],
      ],
      "own",
      (mode) => this.scaleBy(mode),
    );
    const turn = (name: "left" | "right", label: string, by: number): HTMLButtonElement => h("button", { type: "button", class: "ib s", "aria-label": `${label} parameters of ${layer}`, title: `${label} parameters`, onclick: () => this.page(by) }, icon(name));
    this.previous = turn("left", "Previous", -1);
    this.next = turn("right", "Next", 1);
    this.pager = h("span", { class: "rng" }, this.range, this.previous, this.next);
    this.bar = h("div", { class: "wbar" }, this.choice.element, this.pager);
    this.element = h("div", { class: "weights" }, this.bar, this.partly, this.missing, this.list);
    this.list.hidden = this.bar.hidden = true;
  }

  options(): WeightsOptions {
    const { room } = this.columns();
    const panels: Record<string, PanelOptions> = {};
    for (const [name, panel] of this.panels) {
      const chosen = panel.options(this.mode);
      if (chosen) panels[name] = chosen;
    }
    return { first: this.first, count: PAGE, box: [room, TALLEST], ratio: devicePixelRatio, scale: this.mode, panels };
  }

  get reading(): string {
    return this.text.includes("=") || this.text.includes("\u2248") ? this.text : "";
  }

  receive(card: Card, buffers: Uint8Array[], snapshot: number): void {
    const content = card.content as WeightsContent;
    this.content = content;
    this.buffers = buffers;
    this.first = content.first;
    const names = new Set(content.panels.map(({ name }) => name));
    for (const [name, panel] of this.panels) panel.element.hidden = !names.has(name);
    for (const one of content.panels) {
      let panel = this.panels.get(one.name);
      if (!panel) {
        panel = new Panel(one.name, this.owner);
        this.panels.set(one.name, panel);
      }
      panel.receive(one, one.order_buffer < 0 ? null : (buffers[one.order_buffer] ?? null), snapshot, this.mode === "pinned");
    }
  }

  draw(): void {
    const { content } = this;
    if (!content) return;
    const alive = this.host.frame.alive();
    this.missing.hidden = content.missing === "";
    setText(this.missing, content.missing);
    this.list.hidden = this.bar.hidden = content.panels.length === 0;
    this.partly.hidden = !content.part || content.panels.length === 0;
    setText(this.partly, content.part ? `The model is large, and the snapshot has only some of it: ${content.part}.` : "");
    this.choice.enable(alive);
    const last = content.first + content.panels.length;
    this.pager.hidden = content.total <= PAGE;
    setText(this.range, `parameters ${content.first + 1}\u2013${last} of ${content.total}`);
    this.previous.disabled = content.first === 0 || !alive;
    this.next.disabled = last >= content.total || !alive;
    this.measure();
    const { columns, room } = this.columns();
    content.panels.forEach(({ name }, i) => {
      const panel = this.panels.get(name);
      if (!panel) return;
      panel.element.hidden = false;
      if (this.list.children[i] !== panel.element) this.list.insertBefore(panel.element, this.list.children[i] ?? null);
      panel.draw(this.buffers, columns, room);
    });
  }

  measure(): boolean {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  destroy(): void {
    for (const panel of this.panels.values()) panel.destroy();
  }

  /** How many strips stand side by side, and the room for each. */
  private columns(): { columns: number; room: number } {
    const width = this.width || 640;
    const most = Math.max(1, ...(this.content?.panels.map(({ strips }) => strips.filter(({ missing }) => !missing).length) ?? [5]));
    const fitting = Math.max(1, Math.floor((width + BETWEEN) / (NARROWEST + BETWEEN)));
    // Five strips are three and two rather than four and one.
    const columns = Math.min(most, Math.ceil(most / Math.ceil(most / fitting)));
    return { columns, room: Math.floor((width - (columns - 1) * BETWEEN) / columns) };
  }

  private scaleBy(mode: ScaleMode): void {
    this.mode = mode;
    for (const panel of this.panels.values()) panel.pin(mode === "pinned");
    this.host.frame.wantSoon();
  }

  private page(by: number): void {
    this.first = Math.max(0, this.first + by * PAGE);
    this.host.frame.wantSoon();
  }
}

export const weights: ViewKind = { key: "weights", title: "Weights", make: (host) => new WeightsView(host) };
