// The view Curves: bqplot figures of the kernel's, one for each tensor of the layer, with what can be chosen and saved.

import { OfferLine } from "../cards/offer";
import { scopeText } from "../cards/scope";
import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { h, setText } from "../lib/dom";
import type { Card } from "../lib/protocol";
import type { CurvesContent, CurvesOptions } from "../lib/protocol_statistics";
import { FigureGrid, STYLES } from "./figures";

class CurvesView implements CardView {
  readonly element: HTMLElement;
  private readonly scope = h("span");
  readonly tools = h("div", { class: "vt" }, this.scope);
  /** What this view has asked for and not got yet. Other views show the same figures, and may choose too. */
  private asked: string[] | null = null;
  private content: CurvesContent | null = null;
  private readonly offer: OfferLine;
  private readonly choices = h("div", { class: "cstats", role: "group", "aria-label": "Statistics" });
  private readonly legend = h("div", { class: "clegend" });
  private readonly wait = h("div", { class: "missing", hidden: true });
  private readonly figures: FigureGrid;
  private width = 0;

  constructor(private readonly host: ViewHost) {
    this.offer = new OfferLine(host);
    const { layer, frame } = host;
    this.figures = new FigureGrid(frame.manager, layer, layer, `session.curves("${layer}").to_dict()`);
    this.element = h("div", { class: "curves" }, this.offer.element, this.choices, this.legend, this.wait, this.figures.element);
    this.draw();
  }

  options(): CurvesOptions {
    return { statistics: this.asked };
  }

  receive(card: Card): void {
    this.content = card.content as CurvesContent;
    if (String(this.asked) === String(this.content.chosen)) this.asked = null;
    setText(this.scope, scopeText(card));
  }

  measure(): boolean {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  draw(): void {
    const { content } = this;
    this.offer.show(content);
    const some = content !== null && (content.figures.length > 0 || content.wait !== "");
    this.choices.hidden = this.legend.hidden = !some;
    this.wait.hidden = !content?.wait;
    setText(this.wait, content?.wait ?? "");
    if (!content) return;
    this.drawChoices(content);
    this.drawLegend(content);
    this.figures.show(content.figures);
  }

  destroy(): void {
    this.figures.destroy();
  }

  private drawChoices({ statistics, chosen }: CurvesContent): void {
    const drawn = this.asked ?? chosen;
    for (const box of this.choices.querySelectorAll("input")) box.checked = drawn.includes(box.value);
    if (this.choices.childElementCount === statistics.length) return;
    this.choices.replaceChildren(
      ...statistics.map((name) => {
        const box = h("input", { type: "checkbox", value: name, checked: drawn.includes(name) });
        box.addEventListener("change", () => {
          this.asked = [...this.choices.querySelectorAll("input")].filter(({ checked }) => checked).map(({ value }) => value);
          this.host.frame.wantSoon();
        });
        return h("label", { class: "hcheck" }, box, name);
      }),
    );
  }

  private drawLegend({ phases, partial }: CurvesContent): void {
    const key = JSON.stringify([phases, partial]);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    const lines = phases.map((phase, i) => h("span", {}, h("i", { class: `cl ${STYLES[i % STYLES.length]}`, "aria-hidden": "true" }), phase, h("span", { class: "vh" }, `: ${STYLES[i % STYLES.length]} line`)));
    const rings = partial.map((text) => h("span", {}, h("i", { class: "cring", "aria-hidden": "true" }), text));
    this.legend.replaceChildren(...lines, ...rings);
  }
}

export const curves: ViewKind = { key: "curves", title: "Curves", make: (host) => new CurvesView(host) };
