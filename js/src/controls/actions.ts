// Sends the actions of the toolbar and remembers which of them still wait.

import type { Channel } from "../lib/channel";
import type { ActionName } from "../lib/protocol";

/** Actions that `cancel` takes back while they wait. */
const CANCELABLE: Partial<Record<ActionName, string>> = { stop: "stop", request_snapshot: "refresh" };

export class Actions {
  private waiting = new Map<ActionName, number>();

  constructor(
    private readonly channel: Channel,
    private readonly changed: () => void,
  ) {}

  /** True while the kernel has not yet done what the button asked. */
  queued(name: ActionName): boolean {
    const pending = CANCELABLE[name];
    return this.waiting.has(name) || (pending !== undefined && (this.channel.get("state")?.pending ?? []).includes(pending));
  }

  /** A press; the second press on a command that waits takes it back. */
  press(name: ActionName, args: Record<string, unknown> = {}): void {
    const again = this.queued(name);
    if (again && !(name in CANCELABLE)) return;
    void this.send(again ? "cancel" : name, args);
  }

  async send(name: ActionName, args: Record<string, unknown> = {}): Promise<void> {
    this.count(name, 1);
    try {
      await this.channel.action(name, name === "cancel" ? {} : args);
    } catch {
      // The link already says that nobody is there.
    }
    this.count(name, -1);
  }

  /** Nothing waits for a kernel that is gone. */
  forget(): void {
    this.waiting.clear();
    this.changed();
  }

  private count(name: ActionName, by: number): void {
    const count = (this.waiting.get(name) ?? 0) + by;
    if (count > 0) this.waiting.set(name, count);
    else this.waiting.delete(name);
    this.changed();
  }
}
