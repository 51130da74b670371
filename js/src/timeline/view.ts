// The timeline: the whole run on one axis. A place is chosen with the pointer or the arrow keys, what would happen
// there is said, and only then can one go.

import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { h, setText, svg } from "../lib/dom";
import type { Card } from "../lib/protocol";
import type { MarkKind, TimelineContent, TimelineCurve, Way } from "../lib/protocol_timeline";

const HEIGHT = 58;
const CURVE = { top: 15, height: 22 };
const TRACK = { top: 42, height: 6 };
const LANE = 53;
const PAD = 10;
/** Epoch numbers stand so far apart, at least. */
const APART = 34;
const ASK_DELAY = 80;
/** Pixels from a finding within which it is meant. */
const NEAR = 6;

const MARKS: Record<MarkKind, string> = { pause: "paused", hyperparameter: "hyperparameter changed", jump: "went back", replay: "not repeatable", finding: "finding" };
const GLYPHS: Record<MarkKind, string> = {
  pause: "M-1.5 0v5M1.5 0v5",
  hyperparameter: "M0-1 3 2.500 0 6-3 2.500z",
  jump: "M3 0-2 2.500 3 5z",
  replay: "M-2.500 0l5 5M2.500 0l-5 5",
  finding: "M0-1 3.500 5h-7z",
};

class TimelineView implements CardView {
  private readonly drawing = svg("svg", { "aria-hidden": "true", height: HEIGHT });
  private readonly cursor = svg("g", { class: "tcursor" }, svg("line", { y1: 2, y2: HEIGHT - 2 }));
  private readonly axis = h("div", { class: "taxis", role: "slider", tabindex: 0, "aria-label": "Timeline", "aria-orientation": "horizontal" }, this.drawing);
  private readonly said = h("span", { class: "tsaid", role: "status" });
  private readonly go = h("button", { type: "button", class: "btn s primary", hidden: true }, "Go there");
  private readonly leave = h("button", { type: "button", class: "btn s", hidden: true }, "Close");
  private readonly legend = h("div", { class: "tlegend" });
  private readonly near = h("button", { type: "button", class: "btn s tog", "aria-pressed": "false", title: "Show this epoch only, or the whole run" }, "This epoch");
  readonly element = h("div", { class: "timeline" }, this.axis, h("div", { class: "trow" }, this.said, this.go, this.leave, h("span", { class: "flex" }), this.legend, this.near));
  private content: TimelineContent | null = null;
  private width = 0;
  /** The chosen place on the axis; null: none. */
  private place: number | null = null;
  /** A place that was clicked stays chosen when the pointer leaves. */
  private held = false;
  private way: Way | null = null;
  private asked = 0;

  constructor(private readonly host: ViewHost) {
    this.axis.addEventListener("pointermove", (event) => !this.held && this.choose(this.placeAt(event)));
    this.axis.addEventListener("pointerleave", () => !this.held && this.choose(null));
    this.axis.addEventListener("pointerdown", (event) => {
      this.held = true;
      this.choose(this.placeAt(event));
    });
    this.axis.addEventListener("keydown", (event) => this.key(event));
    this.axis.addEventListener("blur", () => !this.held && this.choose(null));
    this.go.addEventListener("click", () => this.travel());
    this.leave.addEventListener("click", () => this.let());
    this.near.addEventListener("click", () => {
      this.near.setAttribute("aria-pressed", String(!this.isNear));
      this.draw();
    });
  }

  options(): unknown {
    return {};
  }

  receive(card: Card): void {
    this.content = card.content as TimelineContent;
  }

  measure(): boolean {
    const width = this.axis.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  escape(): boolean {
    if (!this.held) return false;
    this.let();
    return true;
  }

  draw(): void {
    const { content, width } = this;
    if (!content || !width) return;
    this.drawing.setAttribute("width", String(width));
    this.drawing.replaceChildren(
      ...this.epochs(content),
      ...content.reach.slice(0, 1).map((start) => this.box("treach", start, content.reach[1] ?? start, TRACK.top - 2, TRACK.height + 4)),
      ...content.segments.map(({ phase, start, end }) => this.box(`tseg p${phase % 4}`, start, end, TRACK.top, TRACK.height)),
      ...content.branches.flatMap((branch, i) => [
        svg("path", { class: "tleft", d: this.path(branch.curve) }),
        svg("line", { class: "tlane", x1: this.x(branch.start), x2: this.x(branch.end), y1: LANE - (i % 2) * 2, y2: LANE - (i % 2) * 2 }, this.title(branch.text)),
      ]),
      svg("path", { class: "tcurve", d: this.path(content.curve) }),
      ...content.checkpoints.map((epoch) => svg("circle", { class: "tcheck", cx: this.x(epoch), cy: TRACK.top + TRACK.height / 2, r: 3.5 }, this.title(`state of the beginning of epoch ${epoch + 1}`))),
      ...content.marks.map(({ kind, at, text }) => svg("path", { class: `tmark ${kind}`, d: GLYPHS[kind], transform: `translate(${this.x(at)} ${kind === "finding" ? 6 : TRACK.top - 7})` }, this.title(text))),
      ...(content.now === null ? [] : [svg("path", { class: "tnow", d: `M${this.x(content.now)} ${HEIGHT - 6}V12m0 0-3.500-4v-5h7v5z` })]),
      this.cursor,
    );
    this.axis.setAttribute("aria-valuemin", "0");
    this.axis.setAttribute("aria-valuemax", String(content.epochs));
    this.drawCursor();
    this.drawLegend(content);
    if (this.place === null) this.say(this.standing(content));
  }

  destroy(): void {
    window.clearTimeout(this.asked);
  }

  private standing({ label, reach_text }: TimelineContent): string {
    return [label, reach_text].filter(Boolean).join(" \u00b7 ");
  }

  private epochs({ epochs, is_open }: TimelineContent): SVGElement[] {
    const [from, to] = this.span;
    const step = Math.max(1, Math.ceil((APART * (to - from)) / Math.max(1, this.width - 2 * PAD)));
    const found: SVGElement[] = [svg("rect", { class: "ttrack", x: PAD, width: Math.max(0, this.width - 2 * PAD), y: TRACK.top, height: TRACK.height })];
    for (let epoch = from; epoch < Math.min(to, epochs); epoch += step) {
      found.push(svg("line", { class: "tgrid", x1: this.x(epoch), x2: this.x(epoch), y1: 3, y2: TRACK.top + TRACK.height }), svg("text", { x: this.x(epoch) + 4, y: 11 }, String(epoch + 1)));
    }
    if (is_open && !this.isNear) found.push(svg("text", { x: this.width - PAD - 10, y: 11 }, "\u2026"));
    return found;
  }

  private box(cls: string, start: number, end: number, y: number, height: number): SVGElement {
    return svg("rect", { class: cls, x: this.x(start), width: Math.max(1, this.x(end) - this.x(start)), y, height });
  }

  private title(text: string): SVGElement {
    return svg("title", {}, text);
  }

  private path({ xs, ys }: TimelineCurve): string {
    let path = "";
    let pen = false;
    xs.forEach((x, i) => {
      const y = ys[i];
      if (y === null || y === undefined) pen = false;
      else {
        path += `${pen ? "L" : "M"}${this.x(x).toFixed(1)} ${(CURVE.top + (1 - y) * CURVE.height).toFixed(1)}`;
        pen = true;
      }
    });
    return path;
  }

  private get isNear(): boolean {
    return this.near.getAttribute("aria-pressed") === "true";
  }

  /** The part of the axis that is on screen: all of it, or the epoch in which training stands. */
  private get span(): [from: number, to: number] {
    if (!this.isNear) return [0, Math.max(1, this.content?.epochs ?? 1)];
    const epoch = Math.max(0, Math.ceil(this.content?.now ?? 0) - 1);
    return [epoch, epoch + 1];
  }

  private x(place: number): number {
    const [from, to] = this.span;
    return PAD + ((place - from) / (to - from)) * Math.max(0, this.width - 2 * PAD);
  }

  private placeAt(event: PointerEvent): number {
    const at = event.clientX - this.axis.getBoundingClientRect().left - PAD;
    const [from, to] = this.span;
    const place = Math.min(this.within(from + (at / Math.max(1, this.width - 2 * PAD)) * (to - from)), to - 1e-6);
    // A batch may be less than a pixel wide: near a finding, it is the batch of the finding that is meant.
    const [near] = this.findings.filter((mark) => Math.abs(this.x(mark.at) - this.x(place)) <= NEAR).sort((a, b) => Math.abs(a.at - place) - Math.abs(b.at - place));
    return near ? near.at + 1e-9 : place;
  }

  private get findings(): TimelineContent["marks"] {
    return this.content?.marks.filter(({ kind }) => kind === "finding") ?? [];
  }

  private within(place: number): number {
    return Math.min(Math.max(place, 0), (this.content?.epochs ?? 1) - 1e-6);
  }

  private key(event: KeyboardEvent): void {
    const { content } = this;
    if (!content) return;
    const batch = content.phases[0]?.width ?? 1;
    const from = this.place ?? Math.max(0, (content.now ?? 0) - batch / 2);
    const steps: Record<string, number> = { ArrowLeft: from - batch, ArrowRight: from + batch, PageDown: from - 1, PageUp: from + 1, Home: 0, End: content.now ?? 0 };
    const to = steps[event.key];
    if (to !== undefined) {
      this.held = true;
      this.choose(this.within(to));
    } else if (event.key === "Enter" && this.place !== null) {
      if (this.go.hidden) return;
      this.go.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private choose(place: number | null): void {
    this.place = place;
    this.way = null;
    this.drawCursor();
    this.showWay();
    window.clearTimeout(this.asked);
    if (place === null) {
      if (this.content) this.say(this.standing(this.content));
      return;
    }
    this.asked = window.setTimeout(() => void this.ask(place), ASK_DELAY);
  }

  private async ask(place: number): Promise<void> {
    if (!this.host.frame.alive()) return this.say("There is no kernel to ask.");
    const answer = await this.host.fetch<Way>({ at: place }).catch(() => null);
    if (!answer || this.place !== place) return;
    this.way = answer.reply;
    const batch = this.content?.phases[0]?.width ?? 1;
    const found = this.findings.filter(({ at }) => at <= place + 1e-9 && place < at + batch * 0.999).map(({ text }) => text.replaceAll("\n", "; "));
    const text = [...found, this.way.text].join(" \u00b7 ");
    this.say(text);
    this.axis.setAttribute("aria-valuetext", text);
    this.showWay();
  }

  private showWay(): void {
    const { way } = this;
    this.leave.hidden = !this.held;
    this.legend.hidden = this.held; // one line all the time: nothing below is to shift
    this.go.hidden = !this.held || !way?.action;
    setText(this.go, way?.action === "rewind" ? "Go back there" : "Run until there");
  }

  private travel(): void {
    const { way } = this;
    if (!way?.action) return;
    void this.host.frame.act(way.action, way.args);
    this.let();
  }

  private let(): void {
    this.held = false;
    this.choose(null);
    this.axis.focus({ preventScroll: true });
  }

  private drawCursor(): void {
    const { place } = this;
    this.cursor.setAttribute("visibility", place === null ? "hidden" : "visible");
    const line = this.cursor.firstElementChild;
    for (const end of ["x1", "x2"]) line?.setAttribute(end, String(this.x(place ?? 0)));
    this.axis.setAttribute("aria-valuenow", String(Number((place ?? this.content?.now ?? 0).toFixed(4))));
    if (place === null && this.content) this.axis.setAttribute("aria-valuetext", this.standing(this.content));
  }

  private say(text: string): void {
    setText(this.said, text);
    this.said.title = text;
  }

  private drawLegend({ phases, segments, marks, checkpoints, branches, reach }: TimelineContent): void {
    const kinds = (Object.keys(MARKS) as MarkKind[]).filter((kind) => marks.some((mark) => mark.kind === kind));
    const key = JSON.stringify([phases.map(({ name }) => name), segments.map(({ phase }) => phase), kinds, checkpoints.length > 0, branches.length > 0, reach.length > 0]);
    if (this.legend.dataset.key === key) return;
    this.legend.dataset.key = key;
    const seen = phases.map(({ name }, i) => ({ name, i })).filter(({ i }) => segments.some(({ phase }) => phase === i));
    const glyph = (...shapes: SVGElement[]): SVGElement => svg("svg", { width: 10, height: 10, viewBox: "-5 -2 10 10", "aria-hidden": "true" }, ...shapes);
    const entry = (shape: SVGElement, text: string): HTMLElement => h("span", {}, shape, text);
    this.legend.replaceChildren(
      ...seen.map(({ name, i }) => entry(glyph(svg("rect", { class: `tseg p${i % 4}`, x: -5, width: 10, y: 0, height: 6 })), name)),
      ...(reach.length ? [entry(glyph(svg("rect", { class: "treach", x: -5, width: 10, y: -1, height: 8 })), "in memory")] : []),
      ...(checkpoints.length ? [entry(glyph(svg("circle", { class: "tcheck", cx: 0, cy: 3, r: 3.5 })), "kept state")] : []),
      ...kinds.map((kind) => entry(glyph(svg("path", { class: `tmark ${kind}`, d: GLYPHS[kind] })), MARKS[kind])),
      ...(branches.length ? [entry(glyph(svg("line", { class: "tlane", x1: -5, x2: 5, y1: 3, y2: 3 })), "left")] : []),
    );
  }
}

export const timeline: ViewKind = { key: "timeline", title: "Timeline", make: (host) => new TimelineView(host) };
