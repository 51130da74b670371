// What stands between the toolbar and the body: progress, a state that needs a sentence, and the error that
// ended the loop.

import type { Link } from "../lib/kernel";
import { copyText, h, setText } from "../lib/dom";
import { positionText } from "../lib/format";
import { icon } from "../lib/icons";
import type { LoopError, State } from "../lib/protocol";
import { bannerText, progressBars, type Bar } from "./labels";

export class ProgressRow {
  readonly element = h("div", { class: "prog" });
  private readonly epoch = new ProgressBar();
  private readonly run = new ProgressBar();

  constructor() {
    this.element.append(this.epoch.element, this.run.element);
  }

  update(state: State, link: Link): void {
    const { epoch, run } = progressBars(state);
    // Nothing goes on where no kernel is, so no time is left either.
    const still = link === "gone" || link === "none" ? { left: "" } : {};
    this.epoch.draw({ ...epoch, ...still });
    this.run.draw({ ...run, ...still });
  }
}

class ProgressBar {
  private readonly name = h("span", { class: "name" });
  private readonly fill = h("i");
  private readonly track = h("span", { class: "bar", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, this.fill);
  private readonly text = h("span", { class: "num" });
  private readonly left = h("span", { class: "num" });
  readonly element = h("div", {}, this.name, this.track, this.text, this.left);

  /** An end that is not known gets no bar: an empty one would say that nothing was done. */
  draw({ label, share, count, left }: Bar): void {
    setText(this.name, label);
    this.track.hidden = share === null;
    this.track.setAttribute("aria-label", `Progress of the ${label}`);
    this.fill.style.width = `${(share ?? 0) * 100}%`;
    this.track.setAttribute("aria-valuenow", String(Math.round((share ?? 0) * 100)));
    this.track.setAttribute("aria-valuetext", [count, left].filter(Boolean).join(", "));
    setText(this.text, count);
    setText(this.left, left);
  }
}

export class Banner {
  readonly element = h("div", { class: "say", role: "alert", hidden: true });
  private readonly text = h("span");
  private readonly reconnect: HTMLButtonElement;

  constructor(reconnect: () => void) {
    this.reconnect = h("button", { type: "button", class: "btn s", onclick: reconnect }, "Reconnect");
    this.element.append(this.text, h("span", { class: "flex" }), this.reconnect);
  }

  update(state: State | undefined, link: Link, canReconnect: boolean): void {
    const text = bannerText(state, link);
    this.element.hidden = !text;
    this.reconnect.hidden = !canReconnect;
    setText(this.text, text);
  }
}

/** One sentence about this kernel or loop. */
export class Notice {
  readonly element = h("div", { class: "say", role: "note", hidden: true });

  update(state: State): void {
    this.element.hidden = !state.notice;
    setText(this.element, state.notice);
  }
}

export class Failure {
  readonly element = h("section", { class: "fail", "aria-label": "Training failed", hidden: true });
  private shown = "";

  update(error: LoopError | null): void {
    this.element.hidden = error === null;
    const key = JSON.stringify(error);
    // Redrawing would close the traceback that someone is reading.
    if (!error || key === this.shown) return;
    this.shown = key;
    const copy = h("button", { type: "button", class: "btn s", onclick: () => void copyText(error.traceback, this.element) }, "Copy traceback");
    const where = error.position ? `in ${positionText(error.position)}` : "";
    this.element.replaceChildren(
      h("h3", {}, icon("warn"), h("b", {}, error.type), h("span", {}, error.message), h("span", { class: "mut" }, where)),
      h(
        "div",
        { class: "body-text" },
        error.line ? h("code", {}, error.line) : null,
        error.traceback ? h("details", {}, h("summary", {}, "Traceback"), h("pre", { tabindex: 0 }, error.traceback), h("div", { style: "margin-top:6px" }, copy)) : null,
      ),
    );
  }
}
