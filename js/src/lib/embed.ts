// Another widget's view inside an element of ours. An anywidget is no Lumino widget, so nobody tells the view inside
// when it is attached and how large it is: here it is told.

import { debounce } from "./dom";

/** A view that is told of several sizes in a row may keep one of the earlier ones. */
const SETTLED = 120;

/** The parts of a Jupyter widget manager and of a view that are used; a host may have no manager. */
export interface WidgetManager {
  get_model(id: string): Promise<unknown>;
  create_view(model: unknown, options?: unknown): Promise<WidgetView>;
}

export interface WidgetView {
  el: HTMLElement;
  luminoWidget?: { node: HTMLElement; processMessage(message: LuminoMessage): void };
  pWidget?: { node: HTMLElement; processMessage(message: LuminoMessage): void };
  remove(): void;
}

interface LuminoMessage {
  type: string;
  isConflatable: boolean;
  conflate(): boolean;
  width?: number;
  height?: number;
}

const message = (type: string): LuminoMessage => ({ type, isConflatable: false, conflate: () => false, width: -1, height: -1 });

export function managerOf(model: { widget_manager?: unknown }): WidgetManager | null {
  const manager = model.widget_manager as Partial<WidgetManager> | undefined;
  return typeof manager?.get_model === "function" && typeof manager.create_view === "function" ? (manager as WidgetManager) : null;
}

/** Shows the view of a model in `host`, which is in the page; the view follows its size. */
export async function embed(manager: WidgetManager, id: string, host: HTMLElement): Promise<{ view: WidgetView; destroy(): void }> {
  const view = await manager.create_view(await manager.get_model(id), {});
  const lumino = view.luminoWidget ?? view.pWidget;
  const tell = (type: string): void => lumino?.processMessage(message(type));
  tell("before-attach");
  host.replaceChildren(lumino?.node ?? view.el);
  tell("after-attach");
  let width = host.clientWidth;
  const follow = debounce(() => {
    // A hidden tab has no width, and a figure drawn into it would keep none.
    if (!host.clientWidth || host.clientWidth === width) return;
    width = host.clientWidth;
    tell("resize");
  }, SETTLED);
  const sizes = new ResizeObserver(follow);
  sizes.observe(host);
  return {
    view,
    destroy: () => {
      sizes.disconnect();
      follow.cancel();
      // A page that has dropped our element already has nothing left to detach: Lumino would throw.
      if (host.isConnected) tell("before-detach");
      try {
        view.remove();
      } catch (error) {
        console.debug("bqplot's figure was gone already", error);
      }
    },
  };
}
