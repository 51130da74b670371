// A view whose script comes from the kernel when it is first looked at: a widget's own script lies in every saved
// notebook, so it holds only what is seen at once.

import type { Channel } from "../lib/channel";
import { h, setText } from "../lib/dom";
import type { Card, Part, Script, ScriptRequest, ViewName } from "../lib/protocol";
import type { CardView, ViewHost, ViewKind } from "./view";

/** What such a script gives: one for each view, built from `src/<view>/script.ts`. */
export interface ViewScript {
  default: { kind: ViewKind; css: string };
}

const loaded = new Map<ViewName, Promise<ViewScript["default"]>>();

/** Loads the script of a view, once a page. */
export function loadScript(channel: Channel, name: ViewName): Promise<ViewScript["default"]> {
  let known = loaded.get(name);
  if (!known) {
    known = channel
      .request<Script>((req): ScriptRequest => ({ type: "script", view: channel.view, req, name }))
      .then(async ({ buffers }) => {
        const url = URL.createObjectURL(new Blob([buffers[0] as DataView<ArrayBuffer>], { type: "text/javascript" }));
        try {
          return ((await import(url)) as ViewScript).default;
        } finally {
          URL.revokeObjectURL(url);
        }
      });
    loaded.set(name, known);
    known.catch(() => loaded.delete(name));
  }
  return known;
}

export function lazy(key: ViewName, title: string): ViewKind {
  return { key, title, make: (host) => new LazyView(key, host) };
}

class LazyView implements CardView {
  private readonly waiting = h("div", { class: "missing" });
  readonly element = h("div", {}, this.waiting);
  readonly tools = h("div", { class: "vt" });
  private view: CardView | null = null;
  private loading = false;

  constructor(
    private readonly key: ViewName,
    private readonly host: ViewHost,
  ) {}

  get ofOneCall(): boolean {
    return this.view?.ofOneCall ?? false;
  }

  get samples(): number | undefined {
    return this.view?.samples;
  }

  get reading(): string | undefined {
    return this.view?.reading;
  }

  get part(): Part | undefined {
    return this.view?.part;
  }

  set part(part: Part | undefined) {
    if (this.view) this.view.part = part;
  }

  options(): unknown {
    return this.view?.options() ?? null;
  }

  receive(card: Card, buffers: Uint8Array[], snapshot: number): void {
    this.view?.receive(card, buffers, snapshot);
  }

  draw(): void {
    if (this.view) return this.view.draw();
    const alive = this.host.frame.alive();
    setText(this.waiting, alive ? "Loading\u2026" : "Not here: there is no kernel to ask.");
    if (alive && !this.loading) this.load();
  }

  measure(): boolean {
    return this.view?.measure() ?? false;
  }

  escape(): boolean {
    return this.view?.escape?.() ?? false;
  }

  destroy(): void {
    this.view?.destroy?.();
  }

  private load(): void {
    this.loading = true;
    this.host.frame.load(this.key).then(
      ({ kind, css }) => {
        this.host.frame.addStyles(css);
        this.view = kind.make(this.host);
        this.element.replaceChildren(this.view.element);
        if (this.view.tools) this.tools.replaceChildren(this.view.tools);
        this.host.drawSoon();
        this.host.frame.wantSoon();
      },
      (error: Error) => {
        this.loading = false;
        setText(this.waiting, `The view could not be loaded: ${error.message}`);
      },
    );
  }
}
