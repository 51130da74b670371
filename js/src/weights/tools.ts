// The tiler's controls of one panel: which axes are rows, columns, tiles and colours, the place along the others,
// order and zoom.

import { focusedNear, h, setOptions, setText } from "../lib/dom";
import type { Arranged, Order, WeightAxis, WeightPanel } from "../lib/protocol_weights";

export interface ToolEvents {
  arrange(arranged: Arranged): void;
  place(axis: number, place: number): void;
  split(on: boolean): void;
  order(order: Order, group: boolean): void;
  zoom(by: number, fit?: boolean): void;
}

const USES = ["y", "x", "tile", "colour"] as const;
const WORDS: Record<(typeof USES)[number], [short: string, name: string]> = { y: ["Y", "Y axis"], x: ["X", "X axis"], tile: ["tile", "Tile axis"], colour: ["RGB", "Colour axis"] };
const ORDERS: [Order, string][] = [
  ["index", "by index"],
  ["norm", "by norm"],
  ["similarity", "by similarity"],
];

export class Tools {
  readonly element: HTMLElement;
  private readonly uses = new Map<(typeof USES)[number], { select: HTMLSelectElement; label: HTMLElement }>();
  private readonly sliders = h("span", { class: "wrest" });
  private readonly splitBox = h("input", { type: "checkbox" });
  private readonly splitText = h("span");
  private readonly splitLabel = h("label", { class: "hcheck" }, this.splitBox, this.splitText);
  private readonly order: HTMLSelectElement;
  private readonly orderText = h("span");
  private readonly orderLabel: HTMLElement;
  private readonly groupBox = h("input", { type: "checkbox" });
  private readonly groupLabel = h("label", { class: "hcheck" }, this.groupBox, "grouped");
  private readonly zoomButtons: HTMLButtonElement[];
  /** Stands elsewhere than the others. */
  readonly zoom: HTMLElement;
  private arranged: Arranged = { y: -1, x: -1, tile: -1, colour: -1 };
  private drawn = "";

  constructor(
    name: string,
    private readonly events: ToolEvents,
  ) {
    for (const use of USES) {
      const [short, long] = WORDS[use];
      const select = h("select", { class: "sel", "aria-label": `${long} of ${name}` });
      select.addEventListener("change", () => this.choose(use, Number(select.value)));
      this.uses.set(use, { select, label: h("label", { class: "wuse" }, h("span", { class: "mut" }, short), select) });
    }
    this.splitBox.addEventListener("change", () => events.split(this.splitBox.checked));
    this.order = h("select", { class: "sel", "aria-label": `Order of ${name}`, title: "By similarity: greedy, each next to the one among the rest with the largest cosine" });
    this.order.addEventListener("change", () => events.order(this.order.value as Order, this.groupBox.checked));
    this.groupBox.setAttribute("aria-label", `Grouped tiles of ${name}`);
    this.groupBox.addEventListener("change", () => events.order(this.order.value as Order, this.groupBox.checked));
    this.orderLabel = h("label", { class: "wuse" }, this.orderText, this.order);
    const button = (text: string, label: string, run: () => void, glyph?: string): HTMLButtonElement => h("button", { type: "button", class: glyph ? "ib s wz" : "btn s", "aria-label": `${label} ${name}`, title: label, onclick: run }, glyph ?? text);
    this.zoomButtons = [button("", "Zoom out of", () => events.zoom(-1), "\u2212"), button("fit", "Fit", () => events.zoom(0, true)), button("", "Zoom into", () => events.zoom(1), "+")];
    this.zoom = h("span", { class: "wzoom", role: "group", "aria-label": `Zoom of ${name}` }, ...this.zoomButtons);
    this.element = h("div", { class: "wtools" }, ...[...this.uses.values()].map(({ label }) => label), this.splitLabel, this.sliders, this.orderLabel, this.groupLabel);
  }

  update(panel: WeightPanel, alive: boolean, drawn: boolean): void {
    this.arranged = panel.arranged;
    const { axes } = panel;
    const wide = axes.filter(({ size }) => size > 1).length;
    for (const [use, { select, label }] of this.uses) {
      const known = axes.map((axis, i): [string, string] => [String(i), `${axis.name} ${axis.size}`]).filter((_, i) => use !== "colour" || axes[i]?.size === 3);
      label.hidden = wide < 2 || (use === "colour" && known.length === 0) || !drawn;
      setOptions(select, [...(use === "x" ? [] : [["-1", "none"] as [string, string]]), ...known], String(panel.arranged[use]));
      select.disabled = !alive;
    }
    this.splitLabel.hidden = !panel.splits || !drawn;
    setText(this.splitText, axes.some(({ name }) => name === "gate") || /lstm|gru|_[ih]h/.test(panel.name) ? "gates apart" : "heads apart");
    this.splitBox.checked = panel.split;
    this.splitBox.disabled = this.order.disabled = this.groupBox.disabled = !alive;
    for (const button of this.zoomButtons) button.disabled = !alive;
    this.zoom.hidden = !drawn;
    const orders = panel.ordered !== "" && drawn;
    this.orderLabel.hidden = !orders;
    setText(this.orderText, panel.ordered === "tile" ? "tiles" : "rows");
    setOptions(this.order, ORDERS, panel.order);
    this.groupLabel.hidden = panel.ordered !== "tile" || !orders || (panel.order === "index" && panel.groups.length === 0 && !panel.axes[panel.arranged.tile]?.labels.some((label) => label.includes(" ")));
    this.groupBox.checked = panel.group;
    this.drawSliders(panel, alive && drawn);
    this.element.hidden = [...this.element.children].every((child) => (child as HTMLElement).hidden);
  }

  private drawSliders({ axes, arranged, index, name }: WeightPanel, alive: boolean): void {
    const used = new Set(Object.values(arranged));
    const rest = axes.map((axis, i) => ({ axis, i })).filter(({ axis, i }) => !used.has(i) && axis.size > 1);
    const key = JSON.stringify(rest.map(({ axis, i }) => [axis.name, axis.size, i]));
    if (key !== this.drawn) {
      this.drawn = key;
      this.sliders.replaceChildren(...rest.map(({ axis, i }) => this.slider(axis, i, name)));
    }
    this.sliders.hidden = rest.length === 0;
    [...this.sliders.children].forEach((label, at) => {
      const [input, text] = [label.querySelector("input"), label.querySelector(".num")];
      const { axis, i } = rest[at] ?? { axis: undefined, i: 0 };
      if (!input || !text || !axis) return;
      input.disabled = !alive;
      const place = index[i] ?? 0;
      if (focusedNear(input) !== input) input.value = String(place);
      setText(text, placeText(axis, place));
    });
  }

  private slider(axis: WeightAxis, at: number, name: string): HTMLElement {
    const input = h("input", { type: "range", min: 0, max: axis.size - 1, "aria-label": `Index of ${axis.name} of ${name}` });
    input.addEventListener("input", () => this.events.place(at, Number(input.value)));
    return h("label", { class: "slice" }, h("span", { class: "mut" }, axis.name), input, h("span", { class: "num" }, placeText(axis, 0)));
  }

  /** An axis has one use: the one that had it before gets the axis that is free now. */
  private choose(use: (typeof USES)[number], axis: number): void {
    const arranged = { ...this.arranged };
    const other = axis < 0 ? undefined : USES.find((known) => known !== use && arranged[known] === axis);
    if (other) arranged[other] = other === "colour" ? -1 : arranged[use];
    arranged[use] = axis;
    if (arranged.x < 0 && arranged.y >= 0) [arranged.x, arranged.y] = [arranged.y, -1];
    this.events.arrange(arranged);
  }
}

function placeText(axis: WeightAxis, place: number): string {
  return axis.labels[place] ?? `${place} of 0\u2013${axis.size - 1}`;
}
