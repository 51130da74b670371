// The line of a card whose strips are of a probe: which forward that was, and whether what the perturbations changed is
// shown, or one of the two forwards.

import type { Frame } from "../cards/view";
import { Choice } from "../lib/choice";
import { h, setText } from "../lib/dom";
import type { Probed, Shows } from "../lib/protocol";

const SHOWS: [Shows, string, string][] = [
  ["difference", "Difference", "Perturbed minus original"],
  ["perturbed", "Perturbed", "Values with the perturbations"],
  ["original", "Original", "Values without the perturbations"],
];

export class ProbedLine {
  private readonly text = h("span");
  private readonly choice: Choice<Shows>;
  readonly element: HTMLElement;

  constructor(
    layer: string,
    private readonly frame: Frame,
  ) {
    this.choice = new Choice(`Strips of ${layer} show`, SHOWS, frame.display.shows, (shows) => frame.display.set({ shows }));
    this.element = h("div", { class: "probed", hidden: true }, this.text, this.choice.element);
  }

  show(probed: Probed | null): void {
    this.element.hidden = probed === null;
    if (!probed) return;
    setText(this.text, probed.text);
    this.choice.element.hidden = probed.shows === null;
    this.choice.set(this.frame.display.shows);
    this.choice.enable(this.frame.alive());
  }
}
