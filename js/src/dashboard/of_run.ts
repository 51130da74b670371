// A pane that shows the run or its inputs, not a layer: one card without a head, with a line to the kernel of its own,
// so that what is wanted of layers and of these are told apart.

import { lazy } from "../cards/lazy";
import type { SharedDisplay } from "../cards/display";
import { mountCards } from "../cards/mount";
import { Channel } from "../lib/channel";
import { h, type Part } from "../lib/dom";
import { Commands } from "../lib/keys";
import type { ViewName } from "../lib/protocol";
import type { Root } from "../lib/root";

export function mountOfRun(root: Root, pane: HTMLElement, key: ViewName, title: string, display?: SharedDisplay): Part {
  const channel = new Channel(root.channel.model, root.element);
  channel.onError((message) => root.showError(message));
  const cards = mountCards(
    {
      channel,
      commands: new Commands(),
      element: root.element,
      get theme() {
        return root.theme;
      },
      onTheme: (changed) => root.onTheme(changed),
      keepFocus: (change) => root.keepFocus(change),
      addStyles: (styles) => root.addStyles(styles),
    },
    pane,
    { kinds: [lazy(key, title)], layers: () => [key], closable: false, label: title, empty: h("div"), ...(display && { display }) },
  );
  return {
    destroy: () => {
      cards.destroy();
      channel.dispose();
    },
  };
}
