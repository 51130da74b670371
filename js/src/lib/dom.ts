// Small helpers over the DOM; there is no framework here.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

/** An element with attributes (`on*` functions become listeners) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/** The same for SVG. */
export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
}

function append(element: Element, children: Child[]): void {
  for (const child of children) if (child) element.append(child);
}

/** Sets text only where it differs, so that a screen reader and a selection are left in peace. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Fills a select, again only where its entries differ: an open one would close. */
export function setOptions(select: HTMLSelectElement, entries: [value: string, text: string][], value: string): void {
  const key = JSON.stringify(entries);
  if (select.dataset.entries !== key) {
    select.dataset.entries = key;
    select.replaceChildren(...entries.map(([id, text]) => h("option", { value: id }, text)));
  }
  select.value = value;
}

/** Whether the focus has gone from an element to another card or elsewhere, and the pointer is not on its own either. */
export function hasLeft(element: HTMLElement, to: EventTarget | null): boolean {
  const card = element.closest(".card");
  return !card?.contains(to as Node | null) && !card?.matches(":hover");
}

/** The element with the focus, in the document or the shadow tree that `element` lives in. */
export function focusedNear(element: Node): Element | null {
  const root = element.getRootNode();
  return root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
}

/** True where keys belong to what the user is typing or choosing. */
export function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, select, textarea, [contenteditable]") !== null;
}

/** Calls `run` once, `delay` ms after the last of several calls in a row. */
export function debounce(run: () => void, delay: number): { (): void; cancel(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const call = (): void => {
    clearTimeout(timer);
    timer = setTimeout(run, delay);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Copies text; the older way is for pages that are not served from a safe origin. */
export async function copyText(text: string, near: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { style: "position:absolute;opacity:0;height:0" });
    const focused = focusedNear(near);
    area.value = text;
    near.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    return done;
  }
}

/** What a mounted part of a widget gives back. */
export interface Part {
  destroy(): void;
}

/** Collects what must be undone when a part goes. */
export class Cleanup {
  private steps: (() => void)[] = [];

  add(step: () => void): void {
    this.steps.push(step);
  }

  listen(target: EventTarget, type: string, handler: (event: never) => void, options?: AddEventListenerOptions): void {
    target.addEventListener(type, handler as EventListener, options);
    this.add(() => target.removeEventListener(type, handler as EventListener, options));
  }

  run(): void {
    for (const step of this.steps.splice(0).reverse()) step();
  }
}

/** Enter in a field submits its form. JupyterLab cancels what the browser would do by itself inside a notebook. */
export function submitOnEnter(form: HTMLFormElement): void {
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
    event.preventDefault();
    event.stopPropagation();
    form.requestSubmit();
  });
}
