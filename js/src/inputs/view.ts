// The view Inputs: what the model was given, what is changed about it, and what the model says of it.

import type { CardView, ViewHost, ViewKind } from "../cards/view";
import { Choice } from "../lib/choice";
import { h, setOptions, setText } from "../lib/dom";
import { icon } from "../lib/icons";
import type { ActionName, Card } from "../lib/protocol";
import type { InputsContent, InputsOptions, Order, ProbeMode } from "../lib/protocol_inputs";
import { AnswerBars } from "./answer";
import { paintBytes } from "./bytes";
import { FeatureBars } from "./features";
import { FieldCard } from "./field";
import { Head } from "./head";
import { levelsOf, valuesOf } from "./levels";
import { PictureSurface, type Brush } from "./picture";
import { PinnedCard } from "./pinned";
import { Sender, type Paint } from "./sender";
import { SignalLines } from "./signal";
import { placesOf } from "./stroke";
import { FACE, PAGE, Thumbs } from "./thumbs";
import { TokenChips } from "./tokens";
import { maskOf } from "./words";
import { Tools } from "./tools";

const MODES: [ProbeMode, string, string][] = [
  ["unchanged", "Unchanged", "As the loop has left each module"],
  ["eval", "Eval", "model.eval() for the probe"],
  ["train", "Train", "model.train() for the probe"],
];
/** A picture is not drawn larger than this, however wide the page is. */
const EDGE = 336;
const EMPTY = new Uint8Array(0);

class InputsView implements CardView {
  readonly element: HTMLElement;
  private content: InputsContent | null = null;
  private buffers: Uint8Array[] = [];
  private width = 0;
  private input = "";
  private order: Order = "loss";
  private channel = -1;
  private depth = -1;
  private original = false;
  private first = 0;
  /** What the pixels of each stroke that waits are to become: the picture may be another one by then. */
  private readonly strokes = new Map<number, Record<string, unknown>>();
  private readonly places = new Map<number, (cells: Paint["cells"]) => number[][]>();
  private readonly head: Head;
  private readonly missing = h("div", { class: "missing", hidden: true });
  private readonly error = h("div", { class: "ierror", role: "alert", hidden: true });
  private readonly notes = h("div", { class: "inotes", role: "status", hidden: true });
  private readonly picture: PictureSurface;
  private readonly features: FeatureBars;
  private readonly tokens: TokenChips;
  private readonly signal = new SignalLines();
  private readonly other = h("p", { class: "inote", hidden: true });
  private readonly about = h("p", { class: "inote", hidden: true });
  private readonly slice = h("input", { type: "range", min: 0, "aria-label": "Slice of the input" });
  private readonly sliceText = h("span", { class: "num" });
  private readonly sliceRow = h("label", { class: "slice", hidden: true }, "slice", this.slice, this.sliceText);
  private readonly channels = h("select", { class: "sel", "aria-label": "Channel of the input" });
  private readonly channelRow = h("label", { class: "islice", hidden: true }, "channel", this.channels);
  private readonly field: FieldCard;
  private readonly perturbTools: Tools;
  private readonly thumbs: Thumbs;
  private readonly pinned: PinnedCard;
  private readonly answer = new AnswerBars();
  private readonly mode: Choice<ProbeMode>;
  private readonly modeNote = h("p", { class: "inote" });
  private readonly look: HTMLElement;
  private readonly body: HTMLElement;
  private readonly sender: Sender;

  constructor(private readonly host: ViewHost) {
    this.head = new Head({ pin: (on) => this.act(on ? "pin_current_batch" : "unpin_batch"), input: (name) => this.ask(() => ((this.input = name), (this.channel = this.depth = -1))) });
    this.picture = new PictureSurface({ brush: () => this.brush(), paint: (stroke, cells, brush) => this.paint(stroke, cells, brush) });
    this.features = new FeatureBars((feature, value) => this.perturb({ index: [[feature]], values: [value] }));
    this.tokens = new TokenChips(
      (place, id) => this.perturb({ index: [[place]], values: [id] }),
      (place, mask) => this.perturb({ input_name: mask, index: [[place]], values: [0] }),
    );
    this.perturbTools = new Tools({
      changed: () => this.host.drawSoon(),
      noise: (noise) => this.perturb({ noise, seed: this.content?.perturbations.length ?? 0, ...this.ofShownChannel() }),
      zero: (channel) => this.perturb({ values: [0], ...(channel !== null && { channel }) }),
      undo: () => this.act("undo_perturbation"),
      clear: () => this.act("clear_perturbations"),
      original: (on) => this.ask(() => (this.original = on)),
    });
    this.thumbs = new Thumbs({
      choose: (sample) => this.host.frame.display.set({ sample }),
      order: (order) => this.ask(() => ((this.order = order), (this.first = 0))),
      page: (first) => this.ask(() => (this.first = first)),
    });
    this.pinned = new PinnedCard(() => this.act("unpin_batch"));
    this.field = new FieldCard(() => this.act("clear_receptive_field"));
    this.mode = new Choice("Forward mode", MODES, "unchanged", (mode) => this.act("set_probe_mode", { mode }));
    this.slice.addEventListener("input", () => this.ask(() => (this.depth = Number(this.slice.value))));
    this.channels.addEventListener("change", () => this.ask(() => (this.channel = Number(this.channels.value))));
    this.sender = new Sender({ send: (paint, join) => this.send(paint, join), nextFrame: (run) => requestAnimationFrame(run), failed: () => this.picture.forget() });
    this.look = h("div", { class: "ilook" }, this.picture.element, this.features.element, this.tokens.element, this.signal.element, this.other, this.channelRow, this.sliceRow, this.about, this.field.element, this.perturbTools.element, this.error, this.notes);
    const mode = h("section", { class: "isec", "aria-label": "Forward mode" }, h("div", { class: "ish" }, h("h4", {}, "Forward mode")), this.mode.element, this.modeNote);
    this.body = h("div", { class: "ibody" }, this.look, h("div", { class: "irest" }, this.thumbs.element, this.pinned.element, this.answer.element, mode));
    this.element = h("div", { class: "inputs" }, this.head.element, this.missing, this.body);
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.target instanceof HTMLInputElement || this.barred) return;
      event.preventDefault();
      event.stopPropagation();
      this.act("undo_perturbation");
    });
  }

  options(): InputsOptions {
    const ratio = devicePixelRatio;
    return {
      input: this.input,
      sample: this.host.frame.display.sample,
      order: this.order,
      channel: this.channel,
      depth: this.depth,
      original: this.original,
      px: Math.round(this.edge * ratio),
      thumb: Math.round(FACE * ratio),
      first: this.first,
      count: PAGE,
    };
  }

  get samples(): number {
    return this.content?.samples ?? 0;
  }

  receive(card: Card, buffers: Uint8Array[]): void {
    const content = card.content as InputsContent;
    this.content = content;
    this.buffers = buffers;
    const { picture, features, signal, input, sample, of } = content;
    this.picture.receive(picture, this.bytes(picture?.buffer), JSON.stringify([input, sample, of.replace(/^pinned: /, "")]));
    this.features.receive(features, this.bytes(features?.buffer));
    this.signal.receive(signal, this.bytes(signal?.buffer));
    if (!content.perturbations.length) this.original = false;
    // What a smaller batch does not have.
    const { display } = this.host.frame;
    if (content.samples > 0 && display.sample >= content.samples) display.set({ sample: content.samples - 1 });
    if (this.first >= Math.max(1, content.samples)) this.first = 0;
  }

  measure(): boolean {
    const width = this.look.clientWidth || this.element.clientWidth;
    if (!width || width === this.width) return false;
    this.width = width;
    return true;
  }

  draw(): void {
    const { content, barred } = this;
    const alive = this.host.frame.alive();
    this.body.hidden = !content || content.missing !== "";
    this.missing.hidden = !this.body.hidden;
    if (!content) return setText(this.missing, alive ? "Waiting for the kernel\u2026" : "Not here: there is no kernel to ask.");
    setText(this.missing, content.missing);
    this.head.show(content, alive, barred);
    this.say(this.error, content.probe.error);
    this.drawNotes(content);
    if (content.missing) return;
    this.drawInput(content);
    this.perturbTools.show(content, this.original, barred);
    this.thumbs.show(content, this.buffers, this.order, alive);
    this.pinned.show(content.pinned, `sample ${content.sample}`, (canvas) => this.face(canvas, content), barred);
    this.answer.show(content.answer);
    this.mode.set(content.probe.mode);
    this.mode.enable(!barred);
    setText(this.modeNote, content.probe.mode_note);
  }

  private drawInput(content: InputsContent): void {
    const { picture, label, sample, input } = content;
    const { theme, ink, warn } = this.host.frame;
    const ratio = devicePixelRatio;
    this.field.show(content.field, this.buffers, Math.round(this.edge * ratio), theme, this.barred);
    this.picture.draw(Math.round(this.edge * ratio), `${input}, sample ${sample}${label && `, label ${label}`}`, content.field);
    this.features.draw(this.width, theme, { zero: ink.zero, line: ink.line, warn }, this.barred || (this.original ? "the input without the changes is shown" : ""));
    this.tokens.show(content.tokens, content.edited_tokens, maskOf(content), this.barred || (this.original ? "the input without the changes is shown" : ""));
    this.signal.draw(this.width, ink);
    this.say(this.other, content.other);
    const pooled = picture && picture.pool > 1 ? `mean of ${picture.pool}\u00d7${picture.pool} values a pixel` : "";
    this.say(this.about, [...(picture?.about ?? []), pooled].filter(Boolean).join("; "));
    this.sliceRow.hidden = !picture || picture.depth < 2;
    this.slice.max = String((picture?.depth ?? 1) - 1);
    this.slice.value = String(picture?.slice ?? 0);
    setText(this.sliceText, `${picture?.slice ?? 0} of 0\u2013${(picture?.depth ?? 1) - 1}`);
    this.channelRow.hidden = !picture || picture.channels < 2;
    if (picture) setOptions(this.channels, [["-1", "auto"], ...Array.from({ length: picture.channels }, (_, i): [string, string] => [String(i), String(i)])], String(this.channel));
    for (const control of [this.slice, this.channels]) control.disabled = !this.host.frame.alive();
  }

  /** The sample that is shown, small; false where its thumbnail is not on this page, or is none. */
  private face(canvas: HTMLCanvasElement, { thumbs, sample }: InputsContent): boolean {
    const thumb = thumbs.find((one) => one.sample === sample && one.buffer >= 0);
    if (thumb) paintBytes(canvas, { ...thumb, bytes: this.bytes(thumb.buffer) }, Math.round(FACE * devicePixelRatio));
    return thumb !== undefined;
  }

  private drawNotes({ probe }: InputsContent): void {
    const lines = [...probe.notes, probe.moved].filter(Boolean);
    this.notes.hidden = lines.length === 0;
    const key = JSON.stringify(lines);
    if (this.notes.dataset.key === key) return;
    this.notes.dataset.key = key;
    this.notes.replaceChildren(...lines.map((line) => h("p", {}, line)));
  }

  private say(element: HTMLElement, text: string): void {
    element.hidden = !text;
    if (!text) return;
    if (element === this.error) element.replaceChildren(icon("warn", 14), h("span", {}, text));
    else setText(element, text);
  }

  private bytes(buffer: number | undefined): Uint8Array {
    return this.buffers[buffer ?? -1] ?? EMPTY;
  }

  /** CSS pixels that the picture may take. */
  private get edge(): number {
    return Math.min(EDGE, this.width || 196);
  }

  /** Why nothing can be changed, else empty. */
  private get barred(): string {
    return this.host.frame.alive() ? this.host.frame.locked() : "There is no kernel to ask.";
  }

  private ask(set: () => void): void {
    set();
    this.host.drawSoon();
    this.host.frame.wantSoon();
  }

  private act(name: ActionName, args: Record<string, unknown> = {}): void {
    void this.host.frame.act(name, args);
  }

  private perturb(change: Record<string, unknown>): void {
    if (this.content) this.act("add_perturbation", { ...this.target(this.content), ...change });
  }

  private target({ input, samples, sample }: InputsContent): Record<string, unknown> {
    return { input_name: input, ...(samples > 0 && { sample }) };
  }

  /** Of a picture that shows some channels only, these are the ones that are changed. */
  private ofShownChannel(): Record<string, unknown> {
    const picture = this.content?.picture;
    if (!picture?.paint.length || picture.paint.length >= picture.channels) return {};
    return { channel: picture.paint.length === 1 ? picture.paint[0] : picture.paint };
  }

  private brush(): Brush | null {
    const picture = this.content?.picture;
    if (!picture?.paint.length || this.barred || this.original || this.perturbTools.tool === "none") return null;
    return { size: this.perturbTools.size, levels: this.perturbTools.tool === "eraser" ? null : levelsOf(this.perturbTools.colour, picture.paint.length) };
  }

  private paint(stroke: number, cells: Paint["cells"], { levels }: Brush): void {
    const { content } = this;
    const picture = content?.picture;
    if (!content || !picture) return;
    if (!this.strokes.has(stroke)) {
      const becomes = levels ? { values: valuesOf(levels, picture.black, picture.white) } : { original: true };
      this.strokes.set(stroke, { ...this.target(content), ...this.ofShownChannel(), ...becomes });
      this.places.set(stroke, (all) => placesOf(all, picture.pool, picture.full, picture.depth > 0 ? picture.slice : null));
    }
    this.sender.add({ stroke, cells, levels });
  }

  private async send({ stroke, cells }: Paint, join: boolean): Promise<boolean> {
    const index = this.places.get(stroke)?.(cells);
    const echo = await this.host.frame.act("add_perturbation", { ...this.strokes.get(stroke), index, ...(join && { join }) });
    if (!echo || echo.error) return false;
    this.picture.answered(stroke, cells);
    for (const old of this.strokes.keys()) if (old < stroke) void (this.strokes.delete(old), this.places.delete(old));
    return true;
  }
}

export const inputs: ViewKind = { key: "inputs", title: "Input", make: (host) => new InputsView(host) };
