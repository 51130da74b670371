// bqplot figures of the kernel's in a grid, each with its legend and buttons that save it.

import { h, setText } from "../lib/dom";
import { embed, type WidgetManager, type WidgetView } from "../lib/embed";
import { formatValue } from "../lib/format";
import type { CurveFigure } from "../lib/protocol_statistics";

/** Of the phases, in their order. */
export const STYLES = ["solid", "dashed", "dotted", "dash-dotted"];

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
    private readonly grid: FigureGrid,
  ) {
    const file = `${grid.file}-${figure.key}`.replace(/[^\w.-]+/g, "_");
    const save = (format: "PNG" | "SVG", run: (view: FigureView) => void): HTMLElement => {
      const label = `Save ${figure.title} of ${grid.of} as ${format}`;
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
    this.place.setAttribute("aria-label", `${this.figure.title} of ${this.grid.of} against the epoch. ${text}`);
    const key = JSON.stringify(lines);
    if (this.lines.dataset.key === key) return;
    this.lines.dataset.key = key;
    this.lines.replaceChildren(...lines.map(({ label, color, style, newest }) => h("span", {}, h("i", { class: `cl ${STYLES[style] ?? ""}`, style: `border-color: ${color}`, "aria-hidden": "true" }), label, h("b", { class: "num" }, newest === null ? "\u2013" : formatValue(newest)))));
  }

  /** Draws the figure; called when the element is in the page and has a width. */
  attach(): void {
    if (!this.figure.model) return;
    const { manager } = this.grid;
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
    setText(this.problem, `The figure cannot be drawn here: ${why}. The numbers: ${this.grid.numbers}`);
  }
}

export class FigureGrid {
  readonly element = h("div", { class: "cgrid" });
  private readonly boxes = new Map<string, FigureBox>();

  /** `of` names what the figures are of, `file` begins the names of saved ones, `numbers` is the call that gives theirs. */
  constructor(
    readonly manager: WidgetManager | null,
    readonly of: string,
    readonly file: string,
    readonly numbers: string,
  ) {}

  show(figures: CurveFigure[]): void {
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
        box = new FigureBox(figure, this);
        this.boxes.set(name(figure), box);
      }
      box.say(figure);
      if (this.element.children[place] === box.element) return;
      const fresh = !box.element.isConnected;
      this.element.insertBefore(box.element, this.element.children[place] ?? null);
      if (fresh) box.attach();
    });
  }

  destroy(): void {
    for (const box of this.boxes.values()) box.destroy();
  }
}
