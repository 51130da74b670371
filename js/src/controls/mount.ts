// The controls: toolbar, banners and code strip, with room for a body between them.

import type { Part } from "../lib/dom";
import type { Root } from "../lib/root";
import { Actions } from "./actions";
import { Banner, Failure, Notice, ProgressRow } from "./banners";
import { CodeStrip } from "./code";
import { Toolbar } from "./toolbar";

/** Mounts the controls in the frame; `body` (graph and cards of the dashboard) goes above the code strip. */
export function mountControls(root: Root, ...body: HTMLElement[]): Part {
  const { channel } = root;
  const code = new CodeStrip();
  const actions = new Actions(channel, () => update());
  const toolbar = new Toolbar(root, actions, code.toggle);
  const progress = new ProgressRow();
  const banner = new Banner(() => channel.kernel.reconnect());
  const notice = new Notice();
  const failure = new Failure();
  root.app.append(toolbar.element, progress.element, root.errors, banner.element, notice.element, failure.element, ...body, code.element);

  const update = (): void => {
    const state = channel.get("state");
    const { link } = channel.kernel;
    banner.update(state, link, channel.kernel.canReconnect);
    if (!state) return;
    root.keepFocus(() => toolbar.update(state, link));
    progress.update(state, link);
    notice.update(state);
    failure.update(state.status === "failed" ? state.error : null);
    code.update(state);
  };
  channel.onTrait("state", update);
  channel.onLink((link) => {
    if (link === "gone" || link === "none") actions.forget();
    update();
  });
  update();
  return { destroy: () => undefined };
}
