// Thumbnails of samples, all of them on one canvas behind their buttons: a browser that composites makes each canvas,
// and whatever lies over it, a layer of its own, and two dozen of them slow down every frame of the page.

import { h } from "../lib/dom";
import type { Thumb } from "../lib/protocol_inputs";
import { putBytes, scaleFor } from "./bytes";

const one = h("canvas");

/** The place that a thumbnail takes in its button, of the size that it is drawn at. */
export function faceOf({ rows, columns }: Thumb, edge: number): HTMLElement {
  const scale = scaleFor(rows, columns, edge * devicePixelRatio) / devicePixelRatio;
  const face = h("i", { class: "ipix" });
  face.style.cssText = `width:${columns * scale}px;height:${rows * scale}px`;
  return h("span", { class: "iface" }, face);
}

/** Draws thumbnails where their places lie in `shelf`, which is positioned and holds the canvas and them. */
export function drawFaces(canvas: HTMLCanvasElement, shelf: HTMLElement, thumbs: readonly Thumb[], buffers: readonly Uint8Array[]): void {
  const ratio = devicePixelRatio;
  const places = [...shelf.querySelectorAll<HTMLElement>(".ipix")];
  canvas.hidden = places.length === 0;
  if (canvas.hidden) return;
  const boxes = places.map(({ offsetLeft, offsetTop, offsetWidth, offsetHeight }) => [offsetLeft, offsetTop, offsetWidth, offsetHeight].map((edge) => Math.round(edge * ratio)) as [number, number, number, number]);
  const width = Math.max(...boxes.map(([left, , wide]) => left + wide));
  const height = Math.max(...boxes.map(([, top, , high]) => top + high));
  canvas.width = width;
  canvas.height = height;
  canvas.style.cssText = `width:${width / ratio}px;height:${height / ratio}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.imageSmoothingEnabled = false;
  thumbs.filter(({ buffer }) => buffer >= 0).forEach((thumb, at) => {
    const { rows, columns, colour, buffer } = thumb;
    const box = boxes[at];
    if (!box || !rows || !columns) return;
    one.width = columns;
    one.height = rows;
    putBytes(one, { rows, columns, colour, bytes: buffers[buffer] ?? new Uint8Array(0) });
    context.drawImage(one, ...box);
  });
}
