// The view Run: numbers of the whole run in figures, what happened meanwhile, and settings that can be changed.

import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { FigureGrid, STYLES } from "../curves/figures";
import { h, setText } from "../lib/dom";
import { positionText } from "../lib/format";
import { Knobs } from "../lib/knobs";
import type { Card } from "../lib/protocol";
import type { EventKind, KnobGroup, RunContent, RunOptions } from "../lib/protocol_run";

const MARKED: Record<EventKind, string> = { pause: "paused", hyperparameter: "hyperparameter changed", jump: "went back", replay: "not repeatable" };

class RunView implements CardView {
  readonly element: HTMLElement;
  private readonly groups = h("div", { class: "rgroups", role: "group", "aria-label": "Hyperparameters" });
  private knobs: { knobs: Knobs; label: string }[] = [];
  private readonly legend = h("div", { class: "clegend" });
  private readonly smooth = h("input", { type: "checkbox" });
  private readonly smoothing = h("label", { class: "hcheck", title: "An exponential mean, weight 0.9, over the line itself" }, this.smooth, "smoothed");
  private readonly hint = h("div", { class: "missing", hidden: true });
  private readonly notes = h("div", { class: "cnote", hidden: true });
  private readonly figures: FigureGrid;
  private readonly events = h("ol", { class: "revents" });
  private readonly happened = h("section", { class: "rhappened", "aria-label": "What happened" }, h("h4", {}, "What happened"), this.events);
  private asked: boolean | null = null;
  private content: RunContent | null = null;
  private width = 0;

  constructor(private readonly host: ViewHost) {
    this.figures = new FigureGrid(host.frame.manager, "the run", "run", "session.run_curves().to_dict()");
    this.smooth.addEventListener("change", () => {
      this.asked = this.smooth.checked;
      this.host.frame.wantSoon();
    });
    this.element = h("div", { class: "curves run" }, this.groups, this.legend, this.notes, this.hint, this.figures.element, this.happened);
  }

  options(): RunOptions {
    return { smooth: this.asked };
  }

  receive(card: Card): void {
    this.content = card.content as RunContent;
    if (this.asked === this.content.smooth) this.asked = null;
  }

  measure(): boolean {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  draw(): void {
    const { content } = this;
    if (!content) return;
    this.drawGroups(content.groups);
    this.drawLegend(content);
    this.smooth.checked = this.asked ?? content.smooth;
    this.smooth.disabled = !this.host.frame.alive();
    const hint = content.hint || content.wait;
    this.hint.hidden = !hint;
    setText(this.hint, hint);
    this.notes.hidden = content.notes.length === 0;
    setText(this.notes, content.notes.join("; "));
    this.figures.show(content.figures);
    this.drawEvents(content);
  }

  destroy(): void {
    this.figures.destroy();
  }

  private drawGroups(groups: KnobGroup[]): void {
    this.groups.hidden = groups.length === 0;
    if (this.knobs.map(({ label }) => label).join("\n") !== groups.map(({ label }) => label).join("\n")) {
      this.knobs = groups.map(({ label }) => ({
        label,
        knobs: new Knobs(label, ({ name, optimizer, group }, value) => this.host.frame.act("set_hyperparameter", { name, value, optimizer, group })),
      }));
      this.groups.replaceChildren(...this.knobs.map(({ label, knobs }) => h("div", { class: "rgroup" }, h("h4", {}, label), knobs.element)));
    }
    groups.forEach(({ knobs, label }, i) => this.knobs[i]?.knobs.update(knobs, label, this.host.frame.alive(), true, this.host.frame.locked() || this.host.frame.noLoop()));
  }

  private drawLegend({ phases, marked, can_smooth, branches }: RunContent): void {
    const key = JSON.stringify([phases, marked, can_smooth, branches]);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    const lines = phases.map((phase, i) => h("span", {}, h("i", { class: `cl ${STYLES[i % STYLES.length]}`, "aria-hidden": "true" }), phase, h("span", { class: "vh" }, `: ${STYLES[i % STYLES.length]} line`)));
    const marks = marked.map((kind) => h("span", {}, h("i", { class: `rmark ${kind}`, "aria-hidden": "true" }), MARKED[kind]));
    const left = branches.map(({ text, color }) => h("span", {}, h("i", { class: "cl", style: `border-color:${color}`, "aria-hidden": "true" }), text));
    this.legend.replaceChildren(...lines, ...left, ...marks, ...(can_smooth ? [this.smoothing] : []));
  }

  private drawEvents({ events, pauses }: RunContent): void {
    const key = JSON.stringify([events, pauses]);
    if (this.events.dataset.key === key) return;
    this.events.dataset.key = key;
    this.happened.hidden = events.length === 0 && pauses === 0;
    const items = events.map(({ kind, text, position }) => h("li", {}, h("b", {}, text), kind !== "jump" && h("span", { class: "mut" }, position ? `after ${positionText(position)}` : "before the first batch")));
    const paused = pauses ? [h("li", {}, `paused ${pauses === 1 ? "once" : `${pauses} times`}`)] : [];
    this.events.replaceChildren(...items, ...paused);
  }
}

export const run: ViewKind = { key: "run", title: "Run", make: (host) => new RunView(host) };
