// The list of cards: which layers they show, what of them is on screen and therefore wanted, and drawing
// what comes back once a frame.

import { debounce, focusedNear, h, type Part } from "../lib/dom";
import { icon } from "../lib/icons";
import { resolveColor } from "../lib/colormap";
import { managerOf } from "../lib/embed";
import { bytesOf, splitBuffers } from "../lib/pixels";
import type { Cards } from "../lib/protocol";
import type { Root } from "../lib/root";
import { LayerCard, type CardHost } from "./card";
import { DisplayBar, SharedDisplay } from "./display";
import { loadScript } from "./lazy";
import type { Frame, Ink, ViewKind } from "./view";

const WANT_DELAY = 24;
const LATE = 5000;

interface Options {
  /** The views that a card may show. */
  kinds: ViewKind[];
  /** Layers to show, in order. */
  layers(): string[];
  /** Whether a card may be closed, which unwatches its layer. */
  closable: boolean;
  /** What it shares with other lists; else its own. */
  display?: SharedDisplay;
  /** Names the card if it is of no layer; then it has no head. */
  label?: string;
  /** What to show while there are no cards. */
  empty: HTMLElement;
}

/** What cards use of the frame that they lie in. */
export type CardsRoot = Pick<Root, "channel" | "commands" | "element" | "theme" | "onTheme" | "keepFocus" | "addStyles">;

export function mountCards(root: CardsRoot, pane: HTMLElement, options: Options): Part & { update(): void } {
  const { channel, commands } = root;
  const display = options.display ?? new SharedDisplay();
  const cards = new Map<string, LayerCard>();
  const list = h("div", { class: "cards", tabindex: -1 });
  const notes = h("div", { class: "bnotes", role: "status", hidden: true });
  let warn = resolveColor("#f57c00");
  let ink: Ink = { line: "#000", zero: "#ccc", warn: "#f57c00" };
  const readColors = (): void => {
    const probe = h("span", { hidden: true });
    root.element.append(probe);
    const color = (token: string): string => {
      probe.style.color = `var(${token})`;
      return getComputedStyle(probe).color;
    };
    warn = resolveColor(color("--warn"));
    ink = { line: color("--fg1"), zero: color("--ink-2"), warn: color("--warn") };
    probe.remove();
  };

  const alive = (): boolean => channel.kernel.link === "live";
  let dirty = new Set<LayerCard>();
  let frameId = 0;
  let toAck: number | null = null;
  /** Number of the snapshot received last; on the page it can be read once it is drawn. */
  let shown = -1;
  let receivedAt = 0;
  const drawSoon = (which: Iterable<LayerCard>): void => {
    for (const card of which) dirty.add(card);
    frameId ||= requestAnimationFrame(() => {
      frameId = 0;
      const batch = dirty;
      dirty = new Set();
      for (const card of batch) channel.guard(() => card.draw());
      bar.setSamples(Math.max(0, ...[...cards.values()].map(({ samples }) => samples)));
      // The kernel may send the next picture only now that this one is drawn.
      if (toAck !== null) {
        channel.ack(toAck);
        if (!options.label) list.dataset.snapshot = String(shown);
      }
      // Who confirms late, as a hidden page does, may have been forgotten: it says again what it wants.
      if (toAck !== null && performance.now() - receivedAt > LATE) {
        wanted = "";
        wantSoon();
      }
      toAck = null;
    });
  };

  let wanted = "";
  const wantNow = (): void => {
    if (!alive() && channel.kernel.link !== "unknown") return;
    const wants = [...cards.values()].filter(({ visible }) => visible).map((card) => card.want()).filter(({ options: asked }) => asked !== null);
    const key = JSON.stringify(wants);
    if (key === wanted) return;
    wanted = key;
    channel.want(wants);
  };
  const wantSoon = debounce(() => channel.guard(wantNow), WANT_DELAY);
  const bar = new DisplayBar(display);
  display.onChange(() => {
    drawSoon(cards.values());
    wantSoon();
  });
  const frame: Frame = {
    display,
    get theme() {
      return root.theme;
    },
    get ink() {
      return ink;
    },
    get warn() {
      return warn;
    },
    manager: managerOf(channel.model),
    alive,
    locked: () => channel.locked,
    noLoop: () => channel.get("state")?.no_loop ?? "",
    wantSoon,
    showSample: (sample) => !bar.element.hidden && bar.choose(sample),
    act: (name, args) => channel.action(name, args).catch(() => undefined),
    load: (name) => loadScript(channel, name),
    addStyles: (css) => root.addStyles([css]),
  };
  const host: CardHost = {
    frame,
    channel,
    kinds: options.kinds,
    label: options.label ?? "",
    close: options.closable ? (layer) => channel.look([layer], false) : null,
    drawSoon: (card) => drawSoon([card]),
  };

  const byElement = new Map<Element, LayerCard>();
  const onScreen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const card = byElement.get(target);
      if (card) card.visible = isIntersecting;
    }
    wantSoon();
  });
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const card = byElement.get(target);
      if (card?.measure()) drawSoon([card]);
    }
    wantSoon();
  });

  let begun = false;
  const update = (): void => {
    const layers = options.layers();
    const added: string[] = [];
    for (const [layer, card] of cards) {
      if (layers.includes(layer)) continue;
      onScreen.unobserve(card.element);
      sizes.unobserve(card.element);
      byElement.delete(card.element);
      root.keepFocus(() => card.element.remove());
      card.destroy();
      cards.delete(layer);
    }
    layers.forEach((layer, place) => {
      let card = cards.get(layer);
      if (!card) {
        added.push(layer);
        card = new LayerCard(layer, host);
        cards.set(layer, card);
        byElement.set(card.element, card);
        onScreen.observe(card.element);
        sizes.observe(card.element);
      }
      // Moving an element that is in place would lose its focus and scroll position.
      if (list.children[place] !== card.element) list.insertBefore(card.element, list.children[place] ?? null);
    });
    options.empty.hidden = layers.length > 0;
    list.hidden = layers.length === 0;
    // Who watches a layer in the graph wants to see it; cards that were there already stay where they are.
    const first = begun ? cards.get(added[0] ?? "") : undefined;
    if (first && root.element.contains(focusedNear(root.element)) && !list.contains(focusedNear(list))) {
      list.scrollTop = first.element.offsetTop - list.offsetTop - 8;
    }
    begun = true;
    wantSoon();
  };

  const receive = (message: Cards, buffers: Uint8Array[]): void => {
    notes.hidden = message.notes.length === 0;
    notes.replaceChildren(...message.notes.map((note) => h("p", {}, icon("warn", 13), note)));
    const drawn: LayerCard[] = [];
    for (const data of message.cards) {
      const card = cards.get(data.layer);
      if (!card) continue;
      channel.guard(() => card.receive(data, buffers, message.snapshot));
      drawn.push(card);
    }
    drawSoon(drawn);
    // What the first answer told of the tensors may change what is wanted of them.
    wantSoon();
  };
  channel.onCards((message, buffers) => {
    toAck = message.seq;
    shown = message.snapshot;
    receivedAt = performance.now();
    // The frame that confirms is ordered first: a picture that cannot be drawn must not stop those after it.
    drawSoon([]);
    receive(message, buffers.map(bytesOf));
  });

  const showStill = (): void => {
    const still = channel.get("still");
    if (still?.cards) receive(still.cards, splitBuffers(still.data, still.sizes));
  };
  channel.onLink((link) => {
    if (link === "none") showStill();
    if (link === "live") {
      wanted = "";
      wantSoon();
    }
    bar.setAlive(link === "live" || link === "unknown");
    drawSoon(cards.values());
  });
  root.onTheme(() => {
    readColors();
    drawSoon(cards.values());
  });
  channel.onLayers(update);
  channel.onTrait("layers", update);

  const move = (by: number): void => {
    const all = [...cards.values()].map(({ element }) => element);
    const at = all.findIndex((element) => element.contains(focusedNear(element)));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  };
  const focusedCard = (): LayerCard | undefined => [...cards.values()].find(({ element }) => element.contains(focusedNear(element)));
  for (const { key } of options.kinds.length > 1 ? options.kinds : []) commands.set(`view_${key}`, () => focusedCard()?.show(key) ?? false);
  commands.set("previous_card", () => move(-1));
  commands.set("next_card", () => move(1));
  commands.set("copy", () => {
    const card = [...cards.values()].find(({ reading }) => reading);
    if (!card) return false;
    void card.copy();
    return true;
  });
  list.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const card = [...cards.values()].find(({ element }) => element.contains(event.target as Node));
    if (!card?.escape()) return;
    event.preventDefault();
    event.stopPropagation();
  });

  // A sample and a transform are for tensors; statistics are of all samples.
  bar.element.hidden = !options.kinds.some(({ key }) => key === "strips");
  if (!options.label) pane.append(bar.element, notes);
  pane.append(options.empty, list);
  readColors();
  update();
  return {
    update,
    destroy: () => {
      cancelAnimationFrame(frameId);
      wantSoon.cancel();
      for (const card of cards.values()) card.destroy();
      onScreen.disconnect();
      sizes.disconnect();
    },
  };
}
