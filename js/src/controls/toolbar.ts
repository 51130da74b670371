// The toolbar: buttons, position and status.

import type { Link } from "../lib/kernel";
import { h, setText } from "../lib/dom";
import { positionLabel, positionText, shownText } from "../lib/format";
import { icon, type IconName } from "../lib/icons";
import { keyOf, type Command } from "../lib/keys";
import { menu, popover, type Popover } from "../lib/popover";
import type { ActionName, State } from "../lib/protocol";
import type { Root } from "../lib/root";
import type { Actions } from "./actions";
import { backPanel } from "./back";
import { allowed, capital, pillOf } from "./labels";
import { settingsPanel } from "./settings";
import { untilPanel } from "./until";

const STEPS: { name: ActionName; command: Command; text: string }[] = [
  { name: "step_batch", command: "step_batch", text: "Step batch" },
  { name: "step_phase", command: "step_phase", text: "Step phase" },
  { name: "step_epoch", command: "step_epoch", text: "Step epoch" },
];

/** What a button does and, if it has one, its key. */
function hint(label: string, command: Command): string {
  const key = keyOf(command);
  return key ? `${label} (${key})` : label;
}

export class Toolbar {
  readonly element: HTMLElement;
  private readonly split = h("div", { class: "split" });
  private readonly step = this.button("Step batch", "step_batch", "step", h("span", {}, "Step", h("span", { class: "only-w" }, " batch")));
  private readonly stepBack = this.button("Step back", "step_back", "back", null, "ib");
  private readonly more = h("button", { type: "button", "aria-label": "Step options", title: "Step options", "aria-haspopup": "menu" }, icon("down", 14));
  private readonly run = this.button("Run", "run", "run", h("span", {}, "Run"), "lb");
  private readonly stop = this.button("Stop", "stop", "stop", h("span", {}, "Stop"), "lb");
  private readonly refresh = this.button("Refresh", "refresh", "refresh", null, "ib");
  private readonly menuItems: HTMLButtonElement[];
  private readonly backItem: HTMLButtonElement;
  private readonly gear = h("button", { type: "button", class: "ib", "aria-label": "Settings", title: "Settings" }, icon("settings"));
  private readonly position = h("div", { class: "pos", role: "group", "aria-label": "Position" });
  private readonly shown = h("div", { class: "shown", hidden: true });
  private readonly pill = h("span", { class: "pill", role: "status" });
  private readonly until: { popover: Popover; update(state: State): void };
  private readonly back: { popover: Popover; update(state: State): void };
  private readonly settings: { popover: Popover; update(state: State): void };

  constructor(
    root: Root,
    private readonly actions: Actions,
    toggleCode: HTMLElement,
  ) {
    const { cleanup, commands } = root;
    this.menuItems = STEPS.map(({ name, command, text }) => {
      const item = h("button", { type: "button", role: "menuitem", onclick: () => this.choose(name) }, text, h("kbd", {}, keyOf(command)));
      commands.set(command, () => this.press(this.step, name));
      return item;
    });
    const untilItem = h("button", { type: "button", role: "menuitem", onclick: () => this.until.popover.open() }, "Run until\u2026", h("kbd", {}, keyOf("until")));
    this.backItem = h("button", { type: "button", role: "menuitem", onclick: () => this.back.popover.open() }, "Go back\u2026");
    this.menuItems.push(untilItem);
    const stepMenu = menu("Step options", [...this.menuItems.slice(0, 3), "rule", untilItem, this.backItem]);
    this.split.append(this.step, this.more, stepMenu);

    this.step.addEventListener("click", () => actions.press("step_batch"));
    this.stepBack.addEventListener("click", () => actions.press("step_back"));
    commands.set("step_back", () => this.press(this.stepBack, "step_back"));
    this.run.addEventListener("click", () => actions.press("step_run"));
    this.stop.addEventListener("click", () => actions.press("stop"));
    this.refresh.addEventListener("click", () => actions.press("request_snapshot"));
    commands.set("run", () => this.press(this.run, "step_run"));
    commands.set("stop", () => this.press(this.stop, "stop"));
    commands.set("refresh", () => this.press(this.refresh, "request_snapshot"));
    commands.set("until", () => void (!untilItem.disabled && this.until.popover.open()));

    const keys = h("button", { type: "button", class: "ib keys-button", "aria-label": "Keys", title: "Keys (?)", onclick: () => commands.run("keys") }, icon("keys"));
    this.element = h(
      "div",
      { class: "top", role: "toolbar", "aria-label": "Training controls" },
      h("div", { class: "grp" }, this.stepBack, this.split, this.run, this.stop, this.refresh),
      h("div", { class: "brk" }),
      h("div", { class: "where" }, this.position, this.shown),
      this.pill,
      h("span", { class: "flex" }),
      h("div", { class: "grp" }, keys, this.gear, toggleCode),
    );
    const until = untilPanel((args) => void actions.send("step_until_position", args), () => this.until.popover.close());
    const back = backPanel((args) => void actions.send("request_time_travel", args), () => this.back.popover.close());
    const settings = settingsPanel(
      root,
      (args) => void actions.send("set_update_frequency", args),
      (scope) => void actions.send("set_stats_scope", { scope }),
    );
    this.element.append(until.panel, back.panel, settings.panel);
    this.back = { popover: popover(this.more, back.panel, cleanup, false), update: back.update };
    this.until = { popover: popover(this.more, until.panel, cleanup, false), update: until.update };
    this.settings = { popover: popover(this.gear, settings.panel, cleanup), update: settings.update };
    const choices = popover(this.more, stepMenu, cleanup);
    stepMenu.addEventListener("click", () => choices.close(), { capture: true });
  }

  update(state: State | undefined, link: Link): void {
    if (!state) return;
    const can = allowed(state, link);
    const why = capital(state.no_loop || state.locked);
    this.split.classList.toggle("off", !can.step);
    const back = link === "live" && state.travel.available;
    for (const button of [this.step, ...this.menuItems]) button.disabled = !can.step;
    this.more.disabled = !can.step && !back;
    this.backItem.disabled = !can.step && !back;
    this.stepBack.disabled = link !== "live" || Boolean(why) || state.travel.step_back !== "";
    this.run.disabled = !can.run;
    this.stop.disabled = !can.stop;
    this.refresh.disabled = !can.refresh;
    this.gear.disabled = !can.settings;
    const stepping = [...STEPS.map(({ name }) => name), "step_until_position" as const, "request_time_travel" as const, "rewind" as const].some((name) => this.actions.queued(name));
    this.mark(this.step, stepping, "Step batch", "step_batch", why);
    const noBack = why || (state.travel.step_back && `Step back: not now: ${state.travel.step_back}`);
    this.mark(this.stepBack, this.actions.queued("step_back"), "Step back", "step_back", noBack);
    this.mark(this.run, this.actions.queued("step_run"), "Run", "run", why);
    this.mark(this.stop, this.actions.queued("stop"), "Stop", "stop", why);
    this.mark(this.refresh, this.actions.queued("request_snapshot"), "Refresh", "refresh", capital(state.no_loop));
    this.more.title = this.more.disabled && why ? why : "Step options";
    this.gear.title = (this.gear.disabled && capital(state.locked)) || "Settings";
    this.drawPosition(state);
    this.drawPill(state, link);
    this.until.update(state);
    this.back.update(state);
    this.settings.update(state);
  }

  private press(button: HTMLButtonElement, name: ActionName): void {
    if (!button.disabled) this.actions.press(name);
  }

  private choose(name: ActionName): void {
    this.actions.press(name);
    this.step.focus({ preventScroll: true });
  }

  private button(label: string, command: Command, image: IconName, text: Node | null, cls = ""): HTMLButtonElement {
    return h("button", { type: "button", class: cls, "aria-label": label, title: hint(label, command) }, icon(image), text);
  }

  /** `why`: why it cannot be pressed in this session, if so; else empty. */
  private mark(button: HTMLButtonElement, queued: boolean, label: string, command: Command, why: string): void {
    const cancelable = queued && (command === "stop" || command === "refresh");
    button.classList.toggle("queued", queued);
    button.setAttribute("aria-busy", String(queued));
    if (button.disabled && why) button.title = why;
    else button.title = cancelable ? `${label} is queued; press again to cancel` : hint(label, command);
  }

  private drawPosition(state: State): void {
    const { position, standing, shown } = state;
    if (!position) {
      this.position.replaceChildren(h("span", {}, "no batch yet"));
      this.position.removeAttribute("title");
    } else {
      const label = positionLabel(position, standing);
      const dot = (): HTMLElement => h("i", {}, "\u00b7");
      this.position.replaceChildren(
        h("span", {}, "epoch ", h("b", {}, label.epoch[0]), label.epoch[1]),
        dot(),
        h("span", {}, label.phase),
        dot(),
        h("span", {}, label.standing, h("span", { class: label.standing ? "" : "only-w" }, "batch "), h("b", {}, label.batch[0]), label.batch[1]),
      );
      this.position.title = `Training stands ${standing === "before" ? "before" : standing === "after" ? "after" : "in"} ${label.exact} (indices from 0)`;
    }
    const text = shownText(position, standing, shown);
    this.shown.hidden = !text;
    setText(this.shown, `shown: ${text}`);
    if (shown) this.shown.title = `The tensors on screen are of ${positionText(shown)}: ${positionLabel(shown).exact} (indices from 0)`;
  }

  private drawPill(state: State, link: Link): void {
    const pill = pillOf(state.status, link);
    this.pill.title = state.status === "running" ? state.detail : "";
    if (this.pill.dataset.s === pill.key) return;
    this.pill.dataset.s = pill.key;
    this.pill.classList.toggle("hollow", pill.hollow);
    this.pill.replaceChildren(pill.icon === "dot" ? h("span", { class: "dot" }) : icon(pill.icon), pill.text);
  }
}
