// The frame around every widget: styles, theme, keys, the panel of keys, and a line for errors.

import baseCss from "../css/base.css";
import { Channel, type AnyModel } from "./channel";
import { Cleanup, focusedNear, h, isField, setText, type Part } from "./dom";
import { icon } from "./icons";
import { commandOf, Commands, keyList } from "./keys";
import { onThemeChange, themeOf, type Theme } from "./theme";

const SUPPRESS = "data-lm-suppress-shortcuts";

export class Root {
  /** Holds the widget; `app` is the bordered frame within it. */
  readonly element: HTMLElement;
  readonly app: HTMLElement;
  readonly commands = new Commands();
  readonly cleanup = new Cleanup();
  theme: Theme;
  private themeHandlers: (() => void)[] = [];
  private readonly errorLine = h("div", { class: "oops", role: "alert", hidden: true });
  private keysPanel: HTMLElement | null = null;

  constructor(
    readonly channel: Channel,
    host: HTMLElement,
    styles: string[],
  ) {
    this.app = h("div", { class: "app" });
    // Lumino looks for the attribute on the way up from the target, and then leaves the key alone.
    this.element = h("div", {
      class: "nsw",
      role: "region",
      "aria-label": "nansense training debugger",
      [SUPPRESS]: "true",
      tabindex: "-1",
    });
    this.element.append(this.app);
    host.replaceChildren(this.element);
    this.addStyles([baseCss, ...styles]);
    this.theme = themeOf(this.element);
    this.applyTheme();
    this.cleanup.add(onThemeChange(() => this.applyTheme()));
    // It looks at the target's own selectors first: those of JupyterLab's commands match any focused button.
    this.cleanup.listen(this.element, "focusin", ({ target }: FocusEvent) => {
      if (target instanceof Element) target.setAttribute(SUPPRESS, "true");
    });
    this.cleanup.listen(this.element, "keydown", (event: KeyboardEvent) => this.onKey(event));
    this.commands.set("keys", () => this.toggleKeys());
    this.commands.set("leave", () => this.leave());
    channel.onError((message) => this.showError(message));
  }

  onTheme(changed: () => void): void {
    this.themeHandlers.push(changed);
  }

  /** The line that says what went wrong; a part places it where it belongs. */
  get errors(): HTMLElement {
    return this.errorLine;
  }

  showError(message: string): void {
    if (!message) {
      this.errorLine.hidden = true;
      return;
    }
    const close = h("button", { type: "button", class: "ib s", "aria-label": "Dismiss the error", onclick: () => (this.errorLine.hidden = true) }, icon("close", 14));
    this.errorLine.replaceChildren(icon("warn", 14), h("span", {}, message), close);
    this.errorLine.hidden = false;
  }

  /** Runs `change`; if that disables or removes what has the focus, the frame takes it, so that keys still work. */
  keepFocus(change: () => void): void {
    const before = focusedNear(this.element);
    const inside = before !== null && this.element.contains(before);
    change();
    if (!inside) return;
    if (!before.isConnected || (before instanceof HTMLButtonElement && before.disabled)) this.element.focus({ preventScroll: true });
  }

  addStyles(styles: string[]): void {
    const css = styles.join("\n");
    const place = (): void => {
      const root = this.element.getRootNode();
      const target = root instanceof ShadowRoot ? root : document.head;
      for (const old of target.querySelectorAll<HTMLStyleElement>("style[data-nansense]")) if (old.textContent === css) return;
      target.append(h("style", { "data-nansense": "" }, css));
    };
    place();
    // A host may attach the element, perhaps inside a shadow tree, only after `render` has returned; until then
    // the browser knows neither its styles nor its colours. The first size tells that it has been attached.
    const attached = new ResizeObserver(() => {
      if (!this.element.isConnected) return;
      attached.disconnect();
      place();
      this.applyTheme(true);
    });
    attached.observe(this.element);
    this.cleanup.add(() => attached.disconnect());
  }

  private applyTheme(always = false): void {
    const theme = themeOf(this.element);
    this.element.dataset.theme = theme;
    if (theme === this.theme && !always) return;
    this.theme = theme;
    for (const changed of this.themeHandlers) this.channel.guard(changed);
  }

  private onKey(event: KeyboardEvent): void {
    const target = event.composedPath()[0] ?? event.target;
    const command = commandOf(event, isField(target));
    if (event.defaultPrevented || !command) return;
    this.channel.guard(() => {
      if (!this.commands.run(command)) return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  private toggleKeys(): void {
    if (this.keysPanel) return this.closeKeys();
    const rows = keyList((command) => this.commands.has(command)).flatMap(([key, text]) => [h("kbd", {}, key), h("span", {}, text)]);
    const close = h("button", { type: "button", class: "ib s", "aria-label": "Close the list of keys", onclick: () => this.closeKeys() }, icon("close", 14));
    this.keysPanel = h("div", { class: "panel keys", role: "dialog", "aria-label": "Keys" }, h("header", {}, h("h3", {}, "Keys"), close), h("div", { class: "keylist" }, ...rows));
    this.app.append(this.keysPanel);
    close.focus();
  }

  private closeKeys(): void {
    this.keysPanel?.remove();
    this.keysPanel = null;
    this.element.focus({ preventScroll: true });
  }

  /** Escape: closes what is open (a popover does so itself), else hands the keyboard back to the notebook. */
  private leave(): boolean {
    if (this.keysPanel) {
      this.closeKeys();
      return true;
    }
    const popover = this.app.querySelector<HTMLElement>("[data-popover]:not([hidden])");
    if (popover) {
      popover.dispatchEvent(new CustomEvent("dismiss"));
      return true;
    }
    const focused = focusedNear(this.element);
    if (isField(focused)) {
      this.element.focus({ preventScroll: true });
      return true;
    }
    const notebook = this.element.closest<HTMLElement>(".jp-Notebook");
    if (focused instanceof HTMLElement) focused.blur();
    notebook?.focus({ preventScroll: true });
    return true;
  }

  destroy(): void {
    this.cleanup.run();
    this.element.remove();
  }
}

type Mount = (root: Root) => Part;

/** An anywidget module: mounts one part into a frame and takes it down again. */
export function widget(styles: string[], mount: Mount): { render(context: { model: AnyModel; el: HTMLElement }): () => void } {
  return {
    render({ model, el }) {
      const channel = new Channel(model, el);
      const root = new Root(channel, el, styles);
      let part: Part | undefined;
      channel.guard(() => (part = mount(root)));
      if (!part) {
        root.app.append(root.errors);
        setText(root.app, root.errors.textContent || "The widget could not be drawn.");
      }
      return () => {
        part?.destroy();
        root.destroy();
        channel.dispose();
      };
    },
  };
}
