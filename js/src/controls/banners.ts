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
  private rows = new Map<string, { fill: HTMLElement; track: HTMLElement; text: HTMLElement; left: HTMLElement }>();

  update(state: State): void {
    const { epoch, run } = progressBars(state.progress);
    this.draw(epoch);
    this.draw(run);
  }

  private draw({ label, share, count, left }: Bar): void {
    let row = this.rows.get(label);
    if (!row) {
      const fill = h("i");
      row = {
        fill,
        track: h("span", { class: "bar", role: "progressbar", "aria-label": `Progress of the ${label}`, "aria-valuemin": 0, "aria-valuemax": 100 }, fill),
        text: h("span", { class: "num" }),
        left: h("span", { class: "num" }),
      };
      this.rows.set(label, row);
      this.element.append(h("div", {}, h("span", { class: "name" }, label), row.track, row.text, row.left));
    }
    row.fill.style.width = `${(share ?? 0) * 100}%`;
    if (share === null) row.track.removeAttribute("aria-valuenow");
    else row.track.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    row.track.setAttribute("aria-valuetext", [count, left].filter(Boolean).join(", "));
    setText(row.text, count);
    setText(row.left, left);
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
