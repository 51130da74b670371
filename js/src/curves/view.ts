// The view Curves: bqplot figures of the kernel's, one for each tensor of the layer, with what can be chosen and saved.

import { OfferLine } from "../cards/offer";
import { scopeText } from "../cards/scope";
import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { h, setText } from "../lib/dom";
import { formatValue } from "../lib/format";
import { embed, type WidgetView } from "../lib/embed";
import type { Card } from "../lib/protocol";
import type { CurveFigure, CurvesContent, CurvesOptions } from "../lib/protocol_statistics";

const STYLES = ["solid", "dashed", "dotted", "dash-dotted"];

/** What bqplot's view of a figure can do besides. */
interface FigureView extends WidgetView {
  save_png?(filename: string, scale?: number): void;
  save_svg?(filename: string): void;
}

class FigureBox {
  readonly element: HTMLElement;
  private readonly unit = h("span", { class: "mut" });
  private readonly lines = h("div", { class: "clines" });
  private readonly place = h("div", { class: "cplot" });
  private readonly problem = h("div", { class: "missing", hidden: true });
  /** Of a metric of the user's, where its plot is or would be. */
  private readonly trouble = h("div", { class: "missing", hidden: true, role: "status" });
  private shown: { view: FigureView; destroy(): void } | null = null;
  private gone = false;

  constructor(
    private readonly figure: CurveFigure,
    private readonly host: ViewHost,
  ) {
    const file = `${host.layer}-${figure.key}`.replace(/[^\w.-]+/g, "_");
    const save = (format: "PNG" | "SVG", run: (view: FigureView) => void): HTMLElement => {
      const label = `Save ${figure.title} of ${host.layer} as ${format}`;
      return h("button", { type: "button", class: "btn s", "aria-label": label, title: label, onclick: () => this.shown && run(this.shown.view) }, format);
    };
    this.element = h(
      "figure",
      { class: "curve", "data-figure": figure.key },
      h("figcaption", { class: "sh" }, h("h4", {}, figure.title), this.unit, h("span", { class: "flex" }), ...(figure.model ? [save("PNG", (view) => view.save_png?.(`${file}.png`, 2)), save("SVG", (view) => view.save_svg?.(`${file}.svg`))] : [])),
      this.trouble,
      this.lines,
      this.problem,
      this.place,
    );
    this.place.setAttribute("role", "img");
    setText(this.unit, figure.unit);
  }

  /** What each line is, with its newest number; and all of them in words, for who does not see the picture. */
  say({ text, lines, problem }: CurveFigure): void {
    this.trouble.hidden = !problem;
    setText(this.trouble, problem);
    if (!this.figure.model) this.lines.hidden = this.place.hidden = true;
    this.place.setAttribute("aria-label", `${this.figure.title} of ${this.host.layer} against the epoch. ${text}`);
    const key = JSON.stringify(lines);
    if (this.lines.dataset.key === key) return;
    this.lines.dataset.key = key;
    this.lines.replaceChildren(...lines.map(({ label, color, newest }) => h("span", {}, h("i", { class: "cl", style: `border-color: ${color}`, "aria-hidden": "true" }), label, h("b", { class: "num" }, newest === null ? "\u2013" : formatValue(newest)))));
  }

  /** Draws the figure; called when the element is in the page and has a width. */
  attach(): void {
    if (!this.figure.model) return;
    const { manager } = this.host.frame;
    if (!manager) return this.fail("this page has no widget manager that could draw it");
    embed(manager, this.figure.model, this.place).then(
      (shown) => {
        if (this.gone) shown.destroy();
        else this.shown = shown;
      },
      (error: unknown) => this.fail(error instanceof Error ? error.message : String(error)),
    );
  }

  destroy(): void {
    this.gone = true;
    this.shown?.destroy();
    this.element.remove();
  }

  private fail(why: string): void {
    this.problem.hidden = false;
    this.place.hidden = true;
    setText(this.problem, `The figure cannot be drawn here: ${why}. The numbers: session.curves("${this.host.layer}").to_dict()`);
  }
}

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
  private readonly grid = h("div", { class: "cgrid" });
  private readonly boxes = new Map<string, FigureBox>();
  private width = 0;

  constructor(private readonly host: ViewHost) {
    this.offer = new OfferLine(host);
    this.element = h("div", { class: "curves" }, this.offer.element, this.choices, this.legend, this.wait, this.grid);
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
    this.drawFigures(content);
  }

  destroy(): void {
    for (const box of this.boxes.values()) box.destroy();
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

  private drawFigures({ figures }: CurvesContent): void {
    const name = ({ model, key }: CurveFigure): string => model || `no figure of ${key}`;
    const wanted = new Set(figures.map(name));
    for (const [model, box] of this.boxes) {
      if (wanted.has(model)) continue;
      box.destroy();
      this.boxes.delete(model);
    }
    figures.forEach((figure, place) => {
      let box = this.boxes.get(name(figure));
      if (!box) {
        box = new FigureBox(figure, this.host);
        this.boxes.set(name(figure), box);
      }
      box.say(figure);
      if (this.grid.children[place] === box.element) return;
      const fresh = !box.element.isConnected;
      this.grid.insertBefore(box.element, this.grid.children[place] ?? null);
      if (fresh) box.attach();
    });
  }
}

export const curves: ViewKind = { key: "curves", title: "Curves", make: (host) => new CurvesView(host) };
