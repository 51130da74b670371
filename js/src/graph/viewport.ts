// Pan and zoom: the graph lies in a scrolling box, so the wheel and touch scroll as everywhere; dragging pans,
// and Ctrl or Cmd with the wheel zooms about the pointer.

import { h, setText, type Cleanup } from "../lib/dom";

const SMALLEST = 0.15;
const LARGEST = 3;

export class Viewport {
  readonly element = h("div", { class: "gwrap" });
  readonly percent = h("span", { class: "mut num pct" }, "100%");
  private readonly sizer = h("div", { class: "gsize" });
  readonly content = h("div", { class: "gbox" });
  private width = 1;
  private height = 1;
  private scale = 1;
  /** Where the main chain runs; null before the first picture. */
  private chain: number | null = null;
  /** True once the user has chosen a scale: a new layout then keeps it. */
  private chosen = false;

  constructor(cleanup: Cleanup) {
    this.sizer.append(this.content);
    this.element.append(this.sizer);
    cleanup.listen(this.element, "wheel", (event: WheelEvent) => this.onWheel(event), { passive: false });
    cleanup.listen(this.element, "pointerdown", (event: PointerEvent) => this.onDrag(event));
  }

  /** Takes a new picture. At first it is scaled to the width, but never so far that names cannot be read. */
  setSize({ width, height }: { width: number; height: number }, chain: number): void {
    const first = this.chain === null;
    this.width = width;
    this.height = height;
    this.chain = chain;
    if (!this.chosen) this.scale = this.readableScale();
    this.apply();
    if (first) this.centre();
  }

  resized(): void {
    if (!this.chosen) this.scale = this.readableScale();
    this.apply();
    if (!this.chosen) this.centre();
  }

  /** All of the graph at once; pressed again, back to a size that can be read. */
  fit(): void {
    const whole = clamp(Math.min(1, (this.element.clientWidth - 2) / this.width, (this.element.clientHeight - 2) / this.height));
    this.chosen = Math.abs(whole - this.scale) > 0.005;
    this.scale = this.chosen ? whole : this.readableScale();
    this.apply();
  }

  zoomBy(factor: number): void {
    const { clientWidth, clientHeight } = this.element;
    this.zoomAt(factor, clientWidth / 2, clientHeight / 2);
  }

  reveal(target: HTMLElement): void {
    const box = this.element.getBoundingClientRect();
    const at = target.getBoundingClientRect();
    if (at.top < box.top + 8 || at.bottom > box.bottom - 8) this.element.scrollTop += at.top - box.top - box.height / 3;
    if (at.left < box.left || at.right > box.right) this.element.scrollLeft += at.left - box.left - 12;
  }

  private readableScale(): number {
    const fits = this.element.clientWidth / this.width;
    if (!fits) return 1;
    // A little small, and all of it, rather than a little larger and cut.
    return fits >= 0.65 ? Math.min(1, fits) : 0.75;
  }

  /** A graph that is wider than the pane shows its main chain, and its left edge with the names if both fit. */
  private centre(): void {
    const chain = (this.chain ?? 0) * this.scale;
    const room = this.element.clientWidth;
    this.element.scrollLeft = chain < room * 0.75 ? 0 : chain - room / 2;
  }

  private zoomAt(factor: number, x: number, y: number): void {
    const before = this.scale;
    this.scale = clamp(this.scale * factor);
    this.chosen = true;
    const ratio = this.scale / before;
    const left = (this.element.scrollLeft + x) * ratio - x;
    const top = (this.element.scrollTop + y) * ratio - y;
    this.apply();
    this.element.scrollTo(left, top);
  }

  private apply(): void {
    this.content.style.transform = `scale(${this.scale})`;
    this.content.style.width = `${this.width}px`;
    this.content.style.height = `${this.height}px`;
    this.sizer.style.width = `${this.width * this.scale}px`;
    this.sizer.style.height = `${this.height * this.scale}px`;
    setText(this.percent, `${Math.round(this.scale * 100)}%`);
  }

  private onWheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    this.zoomAt(Math.exp(-event.deltaY * 0.0022), event.clientX - box.left, event.clientY - box.top);
  }

  /** A drag pans; a press that does not move stays a click on the node under it. */
  private onDrag(start: PointerEvent): void {
    if (start.button !== 0 || start.pointerType === "touch") return;
    const { scrollLeft, scrollTop } = this.element;
    let moved = false;
    const move = (event: PointerEvent): void => {
      const dx = event.clientX - start.clientX;
      const dy = event.clientY - start.clientY;
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      this.element.classList.add("drag");
      this.element.scrollTo(scrollLeft - dx, scrollTop - dy);
    };
    const end = (): void => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", end);
      window.removeEventListener("pointercancel", end);
      this.element.classList.remove("drag");
      if (!moved) return;
      const swallow = (event: Event): void => event.stopPropagation();
      this.element.addEventListener("click", swallow, { capture: true, once: true });
      setTimeout(() => this.element.removeEventListener("click", swallow, { capture: true }), 0);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
  }
}

function clamp(scale: number): number {
  return Math.max(SMALLEST, Math.min(LARGEST, scale));
}
