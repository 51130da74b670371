// The card of one layer: head, tabs, and the one view that is looked at.

import { focusedNear, h, setOptions, setText, copyText } from "../lib/dom";
import { formatShape } from "../lib/format";
import { icon } from "../lib/icons";
import type { ActionName, Card, CardWant, Fetch, ViewName } from "../lib/protocol";
import type { Channel } from "../lib/channel";
import { CardOptions } from "./options";
import { ViewTabs } from "./tabs";
import type { CardView, Frame, ViewKind } from "./view";

/** What a card needs from the list it lies in. */
export interface CardHost {
  readonly frame: Frame;
  readonly channel: Channel;
  readonly kinds: ViewKind[];
  /** Names the card if it is of no layer; else empty. */
  readonly label: string;
  close: ((layer: string) => void) | null;
  drawSoon(card: LayerCard): void;
}

interface Panel {
  view: CardView;
  element: HTMLElement;
}

export class LayerCard {
  readonly element: HTMLElement;
  visible = false;
  private call = 1;
  private leaf = 0;
  private awaitsMaps = false;
  private data: Card | null = null;
  /** Numbers of the snapshots that each view has been told of last, and of the last one of all. */
  private readonly seen = new Map<string, number>();
  private latest = -1;
  private key: ViewName;
  private readonly panels = new Map<ViewName, Panel>();
  private readonly subtitle = h("span", { class: "cls" });
  private readonly calls = h("select", { class: "sel", hidden: true });
  private readonly leaves = h("select", { class: "sel", hidden: true });
  private readonly note = h("div", { class: "cnote", hidden: true });
  private readonly failed = h("div", { class: "missing", role: "alert", hidden: true });
  private readonly options: CardOptions;
  private readonly close: HTMLButtonElement | null;
  private readonly tabs: ViewTabs;
  private readonly row: HTMLElement;
  private readonly body: HTMLElement;

  constructor(
    readonly layer: string,
    private readonly host: CardHost,
  ) {
    this.calls.setAttribute("aria-label", `Call of ${layer}`);
    this.leaves.setAttribute("aria-label", `Output of ${layer}`);
    this.close = host.close && h("button", { type: "button", class: "ib s", "aria-label": `Close ${layer}`, title: "Close (unwatch)", onclick: () => host.close?.(layer) }, icon("close"));
    this.options = new CardOptions(layer, {
      act: (name, args) => this.act(name, args),
      choosePart: (part) => {
        if (this.view.part !== undefined) this.change(() => (this.view.part = part));
      },
    });
    this.tabs = new ViewTabs(layer, host.kinds, (key) => this.show(key));
    this.row = h("div", { class: "ct" }, this.tabs.element);
    this.body = h("div", { class: "cb" }, this.note, this.failed);
    this.element = h(
      "section",
      { class: "card", role: "region", "aria-label": host.label || `layer ${layer}`, tabindex: -1 },
      !host.label && h("header", { class: "ch" }, h("h3", {}, layer), this.subtitle, h("span", { class: "flex" }), this.leaves, this.calls, this.options.button, this.close),
      this.options.panel,
      this.row,
      this.body,
    );
    this.calls.addEventListener("change", () => this.change(() => (this.call = Number(this.calls.value))));
    this.leaves.addEventListener("change", () => this.change(() => (this.leaf = Number(this.leaves.value))));
    this.key = host.kinds[0]?.key ?? "strips";
    this.show(this.key);
  }

  /** Shows one of the views; it is made when it is first looked at. */
  show(key: ViewName): boolean {
    const kind = this.host.kinds.find((known) => known.key === key);
    if (!kind) return false;
    const focused = focusedNear(this.element);
    if (!this.panels.has(key)) this.panels.set(key, this.makePanel(kind));
    this.key = key;
    this.element.dataset.view = key;
    this.failed.hidden = true;
    for (const [name, { view, element }] of this.panels) {
      element.hidden = name !== key;
      if (view.tools) view.tools.hidden = name !== key;
    }
    this.tabs.show(key);
    // What had the focus may lie in the view that is hidden now.
    if (focused && this.body.contains(focused) && !focused.getClientRects().length) this.element.focus({ preventScroll: true });
    this.host.drawSoon(this);
    this.host.frame.wantSoon();
    return true;
  }

  private makePanel(kind: ViewKind): Panel {
    const view = kind.make({
      layer: this.layer,
      frame: this.host.frame,
      fetch: (ask) => this.host.channel.request((req): Fetch => ({ type: "fetch", view: this.host.channel.view, req, card: { ...this.want(), view: kind.key, options: view.options() }, ask })),
      drawSoon: () => this.host.drawSoon(this),
    });
    const alone = this.host.kinds.length < 2;
    const element = h("div", alone ? {} : { role: "tabpanel", id: this.tabs.panelId(kind.key), "aria-labelledby": this.tabs.tabId(kind.key) }, view.element);
    if (view.tools) this.row.append(view.tools);
    this.body.append(element);
    return { view, element };
  }

  private get view(): CardView {
    return (this.panels.get(this.key) as Panel).view;
  }

  /** What the kernel says of this card, and the buffers that its view's content points into. */
  receive(card: Card, buffers: Uint8Array[], snapshot: number): void {
    this.data = card;
    if (card.calls > 0) this.call = Math.min(this.call, card.calls);
    this.leaf = Math.max(0, Math.min(this.leaf, card.leaves.length - 1));
    // An answer to what was wanted before another tab was chosen.
    this.latest = snapshot;
    if (card.view === this.key) {
      this.seen.set(this.key, snapshot);
      this.failed.hidden = !card.failed;
      setText(this.failed, card.failed);
      (this.panels.get(this.key) as Panel).element.hidden = card.failed !== "";
      if (!card.failed) this.view.receive(card, buffers, snapshot);
    }
    // Who has asked for attention weights wants to see them when they come.
    const maps = card.leaves.findIndex((name) => name.endsWith(".attention_weights"));
    if (this.awaitsMaps && maps >= 0) {
      this.awaitsMaps = false;
      if (maps !== this.leaf) this.change(() => (this.leaf = maps));
    }
  }

  want(): CardWant {
    return { layer: this.layer, call: this.call, leaf: this.leaf, view: this.key, options: this.view.options() };
  }

  /** Samples to choose from, as far as this card knows. */
  get samples(): number {
    const batch = this.data?.axes?.batch;
    return this.view.samples ?? (batch === undefined || batch === null ? 0 : (this.data?.shape[batch] ?? 0));
  }

  draw(): void {
    this.view.measure();
    this.drawHead();
    for (const control of [this.calls, this.leaves, this.close]) if (control) control.disabled = !this.host.frame.alive();
    this.view.draw();
    const tools = [...(this.view.tools?.children ?? [])] as HTMLElement[];
    this.row.hidden = this.host.kinds.length < 2 && tools.every(({ hidden }) => hidden);
  }

  /** The card got another width: true if it is to be drawn anew. */
  measure(): boolean {
    return this.view.measure();
  }

  get reading(): string {
    return this.view.reading ?? "";
  }

  async copy(): Promise<boolean> {
    return this.reading !== "" && copyText(this.reading, this.element);
  }

  escape(): boolean {
    return this.view.escape?.() ?? false;
  }

  destroy(): void {
    this.options.destroy();
    for (const { view } of this.panels.values()) view.destroy?.();
  }

  private act(name: ActionName, args: Record<string, unknown>): void {
    this.awaitsMaps = name === "watch_attention";
    void this.host.frame.act(name, args);
  }

  private change(set: () => void): void {
    set();
    this.host.drawSoon(this);
    this.host.frame.wantSoon();
  }

  private drawHead(): void {
    const { data } = this;
    if (!data) return;
    // The shape first: of a long class and a long name only the beginning may be seen.
    const cls = this.layer.replace(/\d+$/, "").endsWith(data.cls) ? "" : data.cls;
    const tensor = data.dtype !== "";
    setText(this.subtitle, [tensor ? formatShape(data.shape) : "", cls].filter(Boolean).join(" "));
    this.subtitle.title = [data.detail && `${data.cls}(${data.detail})`, tensor && data.dtype].filter(Boolean).join("\n");
    const ofOneCall = this.view.ofOneCall ?? false;
    this.calls.hidden = data.calls <= 1 || !ofOneCall;
    setOptions(this.calls, Array.from({ length: data.calls }, (_, i) => [String(i + 1), `call ${i + 1} of ${data.calls}`]), String(this.call));
    this.leaves.hidden = data.leaves.length <= 1 || !ofOneCall;
    setOptions(this.leaves, data.leaves.map((name, i) => [String(i), name.slice(this.layer.length) || "output"]), String(this.leaf));
    this.leaves.title = data.leaves[this.leaf] ?? "";
    // With the kernel gone, a tab that was not open at the end shows what it had when it was.
    const old = !this.host.frame.alive() && (this.seen.get(this.key) ?? -1) !== this.latest;
    const note = [data.note, old && "As it was at an earlier batch than the others: the kernel is gone."].filter(Boolean).join(" ");
    this.note.hidden = !note;
    setText(this.note, note);
    this.options.update(data, this.view.part, this.host.frame.alive(), this.host.frame.locked());
  }
}
