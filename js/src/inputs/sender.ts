// Sends what is painted: the first pixel at once, then pixels are collected, and the next piece leaves at most once a frame
// and only when the one before was answered. So a slow kernel gets few large pieces and a fast one many small ones.

import type { Cell } from "./stroke";

/** What the pixels of one stroke become. */
export interface Paint {
  /** Numbers strokes: all pieces of one are one change, and undone together. */
  stroke: number;
  cells: Cell[];
  /** Levels that are drawn until the kernel has answered; null: what was there originally. */
  levels: number[] | null;
}

interface Host {
  /** Resolves to false if the kernel refused it. */
  send(paint: Paint, join: boolean): Promise<boolean>;
  nextFrame(run: () => void): void;
  /** What was refused is to be forgotten, and all that waited behind it. */
  failed(): void;
}

export class Sender {
  private readonly waiting: Paint[] = [];
  private begun = -1;
  private busy = false;

  constructor(private readonly host: Host) {}

  add(paint: Paint): void {
    const last = this.waiting[this.waiting.length - 1];
    if (last && last.stroke === paint.stroke) last.cells.push(...paint.cells);
    else this.waiting.push({ ...paint, cells: [...paint.cells] });
    this.next();
  }

  /** Nothing waits and nothing is on its way. */
  get idle(): boolean {
    return !this.busy && this.waiting.length === 0;
  }

  private next(): void {
    if (this.busy || !this.waiting.length) return;
    this.busy = true;
    void this.send();
  }

  private async send(): Promise<void> {
    const paint = this.waiting.shift();
    if (paint) {
      const join = paint.stroke === this.begun;
      this.begun = paint.stroke;
      const done = await this.host.send(paint, join).catch(() => false);
      if (!done) {
        this.waiting.length = 0;
        this.host.failed();
      }
    }
    this.host.nextFrame(() => {
      this.busy = false;
      this.next();
    });
  }
}
