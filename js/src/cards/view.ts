// What a view of a layer card is: the card is a shell around one of several, and only the one that is looked at
// asks the kernel for anything.

import type { Answer } from "../lib/channel";
import type { ActionName, Card, Echo, Part, Reply, Shows, Transform, ViewName } from "../lib/protocol";
import type { Rgb } from "../lib/colormap";
import type { Theme } from "../lib/theme";
import type { WidgetManager } from "../lib/embed";
import type { ViewScript } from "./lazy";

/** How values are shown. */
export interface DisplayValues {
  sample: number;
  average: boolean;
  transform: Transform;
  /** Of a perturbed batch. */
  shows: Shows;
}

/** The same for all cards, also those of other panes; whoever sets it, all of them draw anew. */
export interface Display extends Readonly<DisplayValues> {
  set(change: Partial<DisplayValues>): void;
}

/** Colours of the page, as canvases need them. */
export interface Ink {
  line: string;
  zero: string;
  warn: string;
}

/** The frame that all cards lie in. */
export interface Frame {
  readonly display: Display;
  readonly theme: Theme;
  readonly ink: Ink;
  readonly warn: Rgb;
  /** Shows widgets that are not ours; null where the page has none. */
  readonly manager: WidgetManager | null;
  alive(): boolean;
  /** Why nothing can be changed, else empty. */
  locked(): string;
  /** Why nothing trains here, else empty. */
  noLoop(): string;
  /** Says what is wanted now, a little later. */
  wantSoon(): void;
  /** Carries out an action; undefined if there is nobody to ask. What goes wrong is shown. */
  act(name: ActionName, args: Record<string, unknown>): Promise<Echo | undefined>;
  /** Shows a sample of the batch in all cards; false where no view here shows samples. */
  showSample(sample: number): boolean;
  /** The script of a view that is not part of this widget's own. */
  load(name: ViewName): Promise<ViewScript["default"]>;
  addStyles(css: string): void;
}

/** What a view needs of its card. */
export interface ViewHost {
  readonly layer: string;
  readonly frame: Frame;
  /** Asks the kernel's side of this view about one place of the picture. */
  fetch<R extends Reply>(ask: unknown): Promise<Answer<R>>;
  /** Something other than an answer changed what is to be drawn. */
  drawSoon(): void;
}

/** One view of one card. */
export interface CardView {
  /** What lies in the panel. */
  readonly element: HTMLElement;
  /** What stands beside the tabs. */
  readonly tools?: HTMLElement;
  /** True if it shows one call and one output of the layer, so that these can be chosen. */
  readonly ofOneCall?: boolean;
  /** Samples to choose from, as far as known. */
  readonly samples?: number;
  /** Which part of complex values is drawn, if that can be chosen. */
  part?: Part;
  /** What `c` copies: the value under the pointer, or "". */
  readonly reading?: string;
  /** This view's own part of a `CardWant`; null while nothing is to be asked for. */
  options(): unknown;
  /** An answer: the card's `content`, the buffers that it points into, and the number of the snapshot. */
  receive(card: Card, buffers: Uint8Array[], snapshot: number): void;
  draw(): void;
  /** The card may have another width: true if it is to be drawn anew. */
  measure(): boolean;
  /** True if something was open that Escape closes. */
  escape?(): boolean;
  destroy?(): void;
}

export interface ViewKind {
  key: ViewName;
  title: string;
  make(host: ViewHost): CardView;
}
