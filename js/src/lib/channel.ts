// One view's line to the kernel: traits, requests with their replies, and news of the kernel itself.

import { KernelWatch, type Link } from "./kernel";
import type { ActionName, Ack, Cards, CardWant, Echo, Reply, Traits, Want } from "./protocol";

/** The part of anywidget's model that is used; a host may offer less. */
export interface AnyModel {
  get(name: string): unknown;
  on(event: string, handler: (...args: never[]) => void): void;
  off(event: string, handler?: (...args: never[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: unknown): void;
  widget_manager?: unknown;
}

export interface Answer<R> {
  reply: R;
  buffers: DataView[];
}

type Waiting = { done: (answer: Answer<Reply>) => void; failed: (error: Error) => void };

/** An unanswered request is given up only to free its memory: a kernel may be busy for very long. */
const FORGOTTEN_AFTER = 256;

export class Channel {
  /** Names this view in messages: every open page hears every reply. */
  readonly view = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(36), "");
  readonly kernel: KernelWatch;
  private requests = 0;
  private waiting = new Map<number, Waiting>();
  private cardsHandlers: ((cards: Cards, buffers: DataView[]) => void)[] = [];
  private errorHandlers: ((message: string) => void)[] = [];
  private layersHandlers: (() => void)[] = [];
  private own: string[] | null = null;
  private detach: (() => void)[] = [];

  constructor(
    readonly model: AnyModel,
    host: Element,
  ) {
    this.kernel = new KernelWatch(model, host);
    this.listen("msg:custom", (message: Reply, buffers?: DataView[]) => this.receive(message, buffers ?? []));
  }

  get<K extends keyof Traits>(name: K): Traits[K] | undefined {
    return this.model.get(name) as Traits[K] | undefined;
  }

  onTrait(name: keyof Traits, changed: () => void): void {
    this.listen(`change:${name}`, () => {
      this.kernel.heard();
      changed();
    });
  }

  /** Why nothing can be changed, else empty. */
  get locked(): string {
    return this.get("state")?.locked ?? "";
  }

  /** Layers that are looked at: the watched ones; on a locked session, what this page has chosen instead. */
  get layers(): string[] {
    return (this.locked ? this.own : null) ?? this.get("watched") ?? [];
  }

  onLayers(changed: () => void): void {
    this.layersHandlers.push(changed);
    this.onTrait("watched", changed);
  }

  /** Looks at layers, or no more. What many share is left alone: then it holds for this page. */
  look(layers: string[], on: boolean): void {
    if (!this.locked) {
      this.action(on ? "watch" : "unwatch", { layers }).catch(() => undefined);
      return;
    }
    const others = this.layers.filter((layer) => !layers.includes(layer));
    this.own = on ? [...others, ...layers] : others;
    for (const changed of this.layersHandlers) this.guard(changed);
  }

  onCards(handler: (cards: Cards, buffers: DataView[]) => void): void {
    this.cardsHandlers.push(handler);
  }

  onError(handler: (message: string) => void): void {
    this.errorHandlers.push(handler);
  }

  onLink(handler: (link: Link) => void): void {
    this.kernel.onChange((link) => this.guard(() => handler(link)));
  }

  want(cards: CardWant[]): void {
    this.post({ type: "want", view: this.view, cards } satisfies Want);
  }

  ack(seq: number): void {
    this.post({ type: "ack", view: this.view, seq } satisfies Ack);
  }

  async action(name: ActionName, args: Record<string, unknown> = {}): Promise<Echo> {
    const { reply } = await this.request<Echo>((req) => ({ type: "action", view: this.view, req, name, args }));
    this.report(reply.error); // or that there is none any more
    return reply;
  }

  /** Runs `step`; what it throws is shown in the widget instead of being lost in a console. */
  guard(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.report(error instanceof Error ? error.message : String(error));
      console.error(error);
    }
  }

  report(message: string): void {
    for (const handler of this.errorHandlers) handler(message);
  }

  dispose(): void {
    if (this.kernel.link === "live") this.want([]);
    for (const undo of this.detach.splice(0)) undo();
    this.kernel.dispose();
    this.waiting.clear();
  }

  /** Sends a message that has a reply of its own. */
  request<R extends Reply>(message: (req: number) => unknown): Promise<Answer<R>> {
    const req = ++this.requests;
    this.waiting.delete(req - FORGOTTEN_AFTER);
    return new Promise((done, failed) => {
      this.waiting.set(req, { done: done as Waiting["done"], failed });
      if (!this.post(message(req))) {
        this.waiting.delete(req);
        failed(new Error("no kernel"));
      }
    });
  }

  private post(message: unknown): boolean {
    try {
      this.model.send(message);
      this.kernel.asked();
      return true;
    } catch {
      // A view in a saved file has nobody to send to; the link says so.
      this.kernel.unreachable();
      return false;
    }
  }

  private receive(message: Reply, buffers: DataView[]): void {
    this.kernel.heard();
    if (message?.view !== this.view) return;
    if (message.type === "cards") {
      for (const handler of this.cardsHandlers) this.guard(() => handler(message, buffers));
      return;
    }
    const waiting = this.waiting.get(message.req);
    this.waiting.delete(message.req);
    if (waiting) waiting.done({ reply: message, buffers });
  }

  private listen(event: string, handler: (...args: never[]) => void): void {
    const guarded = (...args: never[]): void => this.guard(() => handler(...args));
    this.model.on(event, guarded);
    this.detach.push(() => this.model.off(event, guarded));
  }
}
