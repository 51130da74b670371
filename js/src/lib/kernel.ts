// Whether somebody is at the other end. What was seen in JupyterLab 4.6 with ipywidgets 8.1:
// - restart (and a killed kernel that the server restarts): status `restarting`, then `comm_live_update`; the
//   kernel object stays the same and becomes idle again, but `model.send` throws "Cannot send" for good;
// - a model without a comm, as in a saved file beside a new kernel: the view's element has the class
//   `jupyter-widgets-disconnected`, and what is sent comes to nothing without a word;
// - shutdown, or another kernel chosen: the kernel object is disposed;
// - a lost websocket: connection status `connecting` or `disconnected`, and `connected` when it is back;
// - a busy kernel: status `busy` and nothing else, which therefore must mean nothing here.
// In a page without any kernel nothing of the kind is there: the model answers `get`, and that is all.

import type { AnyModel } from "./channel";

/**
 * `unknown` nothing was heard yet; `live`; `lost` the connection is away, the kernel may be well; `gone` the
 * kernel that held the session ended; `none` a saved picture that never had a kernel here.
 */
export type Link = "unknown" | "live" | "lost" | "gone" | "none";

interface Signal<T> {
  connect(slot: (sender: unknown, args: T) => void): void;
  disconnect(slot: (sender: unknown, args: T) => void): void;
}

/** The part of JupyterLab's kernel connection that is used; other hosts have less or nothing. */
interface Kernel {
  status?: string;
  connectionStatus?: string;
  statusChanged?: Signal<string>;
  connectionStatusChanged?: Signal<string>;
  disposed?: Signal<void>;
  reconnect?(): Promise<void>;
}

const SILENCE_WITH_KERNEL = 4000;
const SILENCE_WITHOUT_KERNEL = 1500;
const ENDED = new Set(["restarting", "autorestarting", "terminating", "dead"]);

export class KernelWatch {
  link: Link = "unknown";
  private readonly kernel: Kernel | undefined;
  private handlers: ((link: Link) => void)[] = [];
  private undo: (() => void)[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private idleChecks = 0;

  constructor(
    model: AnyModel,
    private readonly host: Element,
  ) {
    this.kernel = kernelOf(model);
    const { kernel } = this;
    if (kernel) {
      connect(kernel.statusChanged, (status) => void (ENDED.has(status) && this.set("gone")), this.undo);
      connect(kernel.disposed, () => this.set("gone"), this.undo);
      connect(kernel.connectionStatusChanged, (status) => this.connection(status), this.undo);
    }
    const commChanged = (): void => void setTimeout(() => this.lookAtHost());
    model.on("comm_live_update", commChanged);
    this.undo.push(() => model.off("comm_live_update", commChanged));
    commChanged();
    if (!kernel) {
      // Nobody to ask; where there is a kernel, the first request tells (cards ask at once).
      this.asked();
    }
  }

  onChange(handler: (link: Link) => void): void {
    this.handlers.push(handler);
  }

  /** Anything that arrives proves that the session is there. */
  heard(): void {
    this.idleChecks = 0;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.set("live");
  }

  /** Something was sent: if nothing has ever been heard, silence means a saved picture. */
  asked(): void {
    if (this.link !== "unknown" || this.timer !== undefined) return;
    this.timer = setTimeout(() => this.silent(), this.kernel ? SILENCE_WITH_KERNEL : SILENCE_WITHOUT_KERNEL);
  }

  /** Sending itself failed. */
  unreachable(): void {
    if (this.link !== "lost") this.set(this.link === "live" || this.link === "gone" ? "gone" : "none");
  }

  get canReconnect(): boolean {
    return this.link === "lost" && typeof this.kernel?.reconnect === "function";
  }

  reconnect(): void {
    this.kernel?.reconnect?.().catch(() => undefined);
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const step of this.undo.splice(0)) step();
    this.handlers = [];
  }

  private lookAtHost(): void {
    if (this.host.closest(".jupyter-widgets-disconnected")) this.unreachable();
  }

  private silent(): void {
    this.timer = undefined;
    if (this.link !== "unknown") return;
    // A kernel that is busy, or still starting, says nothing; only an idle one that does not answer, twice, counts.
    if (!this.kernel || (this.kernel.status === "idle" && ++this.idleChecks > 1)) this.set("none");
    else this.asked();
  }

  private connection(status: string): void {
    if (this.link === "gone") return;
    if (status === "connected") {
      if (this.link === "lost") this.set("live");
    } else if (this.link === "live") this.set("lost");
  }

  private set(link: Link): void {
    if (this.link === link) return;
    this.link = link;
    for (const handler of this.handlers) handler(link);
  }
}

function kernelOf(model: AnyModel): Kernel | undefined {
  try {
    const manager = model.widget_manager as { kernel?: Kernel | null } | undefined;
    return manager?.kernel ?? undefined;
  } catch {
    return undefined;
  }
}

function connect<T>(signal: Signal<T> | undefined, slot: (args: T) => void, undo: (() => void)[]): void {
  if (typeof signal?.connect !== "function") return;
  const wrapped = (_: unknown, args: T): void => slot(args);
  signal.connect(wrapped);
  undo.push(() => signal.disconnect(wrapped));
}
