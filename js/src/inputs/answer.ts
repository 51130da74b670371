// What the model says of the sample: a bar for each class, its share without the perturbations marked, and the loss.

import { h, setText } from "../lib/dom";
import type { AnswerClass, ModelAnswer } from "../lib/protocol_inputs";
import { classesText, lossLine, lossNote, shareText } from "./words";

export class AnswerBars {
  private readonly loss = h("span", { class: "num mut iloss-line" });
  private readonly list = h("ol", { class: "ibars", "aria-label": "Probabilities" });
  private readonly text = h("p", { class: "ivalue mono", hidden: true });
  private readonly more = h("p", { class: "inote", hidden: true });
  private readonly legend = h("div", { class: "ilegend" });
  private readonly note = h("p", { class: "inote", hidden: true });
  readonly element = h("section", { class: "isec", "aria-label": "Prediction" }, h("div", { class: "ish" }, h("h4", {}, "Prediction"), h("span", { class: "flex" }), this.loss), this.list, this.more, this.text, this.legend, this.note);

  show(answer: ModelAnswer): void {
    const bars = answer.kind === "classes";
    setText(this.loss, lossLine(answer));
    this.loss.title = lossNote(answer);
    this.list.hidden = !bars;
    this.list.replaceChildren(...(bars ? answer.classes.map((one) => this.row(one, answer)) : []));
    this.say(this.more, bars ? classesText(answer) : "");
    this.say(this.text, bars ? "" : answer.text);
    this.say(this.note, lossNote(answer));
    const { predicted, label } = answer;
    const name = (index: number): string => answer.classes.find((one) => one.index === index)?.name ?? String(index);
    const changed = answer.classes.some(({ before }) => before !== null);
    this.legend.hidden = !bars;
    this.legend.replaceChildren(
      ...(predicted !== null ? [h("span", {}, h("i", { class: "ikey predicted", "aria-hidden": "true" }), `predicted ${name(predicted)}`)] : []),
      ...(label !== null ? [h("span", {}, h("i", { class: "ikey label", "aria-hidden": "true" }), `label ${name(label)}`)] : []),
      ...(changed ? [h("span", {}, h("i", { class: "ikey before", "aria-hidden": "true" }), "unperturbed")] : []),
    );
  }

  private row({ index, name, share, before }: AnswerClass, { predicted, label }: ModelAnswer): HTMLElement {
    const width = (value: number): string => `${Math.max(0, Math.min(1, value || 0)) * 100}%`;
    const is = [index === predicted && "predicted", index === label && "label"].filter(Boolean);
    const was = before !== null && `without the perturbations ${shareText(before)}`;
    const text = [`${name}: ${shareText(share)}`, ...is, was].filter(Boolean).join(", ");
    return h(
      "li",
      { class: is.join(" "), title: text },
      h("span", { class: "vh" }, text),
      h("span", { class: "iname mono", "aria-hidden": "true" }, name),
      h("span", { class: "ibar", "aria-hidden": "true" }, h("i", { style: `width:${width(share)}` }), before !== null && h("b", { style: `left:${width(before)}` })),
      h("span", { class: "ishare mono", "aria-hidden": "true" }, shareText(share)),
    );
  }

  private say(element: HTMLElement, text: string): void {
    element.hidden = !text;
    setText(element, text);
  }
}
