// A stand-in for anywidget and the kernel. Query: widget, state, theme, width, graph, watch, dead.

import { flat, inception, resnet } from "./graphs.js";
import { LAYERS, makeCard, makeExact } from "./tensors.js";

const query = new URLSearchParams(location.search);
const pick = (name, otherwise) => query.get(name) ?? otherwise;
document.body.dataset.jpThemeLight = String(pick("theme", "light") !== "dark");
const root = document.getElementById("root");
if (query.get("width")) root.style.width = `${query.get("width")}px`;

const position = { phase: "train", epoch: 2, batch_idx: 136, batches: 203, epochs: 10 };
const kind = pick("state", "paused");
const state = {
  status: ["gone", "before", "none", "lost", "notice"].includes(kind) ? "paused" : kind, detail: kind === "closed" ? "Closed: another session was started in this kernel." : "", mode: "step_batch",
  position: kind === "waiting" ? null : position, standing: "in", shown: kind === "waiting" ? null : position, pending: [],
  progress: { epoch_done: 137, epoch_total: 203, epoch_left_s: 12.4, run_done: 643, run_total: 2530, run_left_s: 341, batch_s: 0.18 },
  phases: { train: 203, val: 50 }, error: null, update_frequency: { unit: "epoch", n: 1, phase: null }, stats_scope: "watched", last_action: "session.step_batch()", cost: { layers: 3, bytes: 11.8e6, seconds: 0.41 },
  locked: "", no_loop: "",
  notice: kind === "notice" ? "This kernel cannot hear clicks while a cell runs: start the loop with session.launch." : "",
};
if (kind === "before") { state.position = { phase: "val", epoch: 2, batch_idx: 0, batches: 50, epochs: 10 }; state.standing = "before"; state.shown = { ...position, batch_idx: 202 }; }
if (kind === "running") { state.pending = query.has("pending") ? ["stop"] : []; state.shown = { ...position, batch_idx: 99 }; }
if (kind === "failed") state.error = { type: "RuntimeError", message: "The size of tensor a (64) must match the size of tensor b (32) at non-singleton dimension 1", line: "train.py:41  loss = criterion(model(inputs), targets)", traceback: "Traceback (most recent call last):\n  File \"train.py\", line 41, in loop\n    loss = criterion(model(inputs), targets)\nRuntimeError: The size of tensor a (64) must match the size of tensor b (32)", position };
if (kind === "finished") state.progress = { ...state.progress, epoch_done: 203, run_done: 2530, epoch_left_s: 0, run_left_s: 0 };

const graphs = { resnet: () => resnet(2, 2), untraced: () => resnet(2, 2, false), large: () => resnet(12, 13), flat: () => flat(1500), inception, none: () => ({ version: 0, model: "", traced: false, nodes: [], edges: [] }) };

class FakeModel {
  sent = [];
  step = 0;
  handlers = new Map();
  traits = { state, graph: graphs[pick("graph", "resnet")](), watched: pick("watch", "conv1,stage1.0.conv1").split(",").filter(Boolean), layers: [], still: { cards: null, sizes: [], data: null } };
  signals = {};
  constructor() {
    const signal = (name) => ({ connect: (f) => (this.signals[name] ??= []).push(f), disconnect() {} });
    if (kind !== "none") this.widget_manager = { kernel: { status: "idle", connectionStatus: "connected", statusChanged: signal("status"), connectionStatusChanged: signal("connection"), disposed: signal("disposed"), reconnect: async () => this.signal("connection", "connected") } };
  }
  signal(name, value) { for (const f of this.signals[name] ?? []) f(null, value); }
  get(name) { return this.traits[name]; }
  set(name, value) { this.traits[name] = value; this.emit(`change:${name}`); }
  on(event, f) { this.handlers.set(event, [...(this.handlers.get(event) ?? []), f]); }
  off(event, f) { this.handlers.set(event, (this.handlers.get(event) ?? []).filter((g) => g !== f)); }
  emit(event, ...args) { for (const f of this.handlers.get(event) ?? []) f(...args); }
  save_changes() {}
  reply(message, buffers = [], delay = 8) { setTimeout(() => this.emit("msg:custom", message, buffers), delay); }
  send(message) {
    this.sent.push(structuredClone(message));
    if (kind === "none") return;
    const { view, req } = message;
    if (message.type === "want") { this.wants = message.cards; this.view = view; this.strips(); }
    if (message.type === "fetch") { const { window, buffer } = makeExact(message, this.step); this.reply({ type: "exact", view, req, snapshot: this.step, missing: "", channel: message.ask.channel, window, dtype: "float32" }, [buffer], Number(pick("lag", 15))); }
    if (message.type === "action") this.act(message);
    if (message.type === "script") void fetch(`../../nansense_widgets/widgets/static/views/${message.name}.js`).then((r) => r.arrayBuffer()).then((code) => this.reply({ type: "script", view, req, name: message.name }, [new DataView(code)]));
  }
  strips() {
    const buffers = [];
    const cards = this.wants.map((want) => makeCard(want, this.step, buffers));
    this.seq = (this.seq ?? 0) + 1;
    this.reply({ type: "cards", view: this.view, seq: this.seq, snapshot: this.step, position, notes: [], cards }, buffers);
  }
  act({ view, req, name, args }) {
    const watched = new Set(this.traits.watched);
    if (name === "watch") { args.layers.forEach((l) => watched.add(l)); this.set("watched", [...watched]); }
    if (name === "unwatch") { args.layers.forEach((l) => watched.delete(l)); this.set("watched", [...watched]); }
    if (name.startsWith("step")) { this.step++; const p = { ...this.traits.state.position, batch_idx: this.traits.state.position.batch_idx + 1 }; this.set("state", { ...this.traits.state, position: p, shown: p, last_action: `session.${name}()` }); if (this.wants) this.strips(); }
    if (name === "set_update_frequency") this.set("state", { ...this.traits.state, update_frequency: args });
    const error = name === "step_until_position" && args.epoch > 50 ? "epoch 51 is beyond the run" : "";
    this.reply({ type: "echo", view, req, code: `session.${name}()`, error }, [], Number(pick("echo", 20)));
  }
}

const model = new FakeModel();
window.model = model;
window.LAYERS = LAYERS;
const { default: widget } = await import(`../../nansense_widgets/widgets/static/${pick("widget", "dashboard")}.js`);
if (kind === "none") {
  const buffers = [];
  const cards = model.traits.watched.map((layer) => makeCard({ layer, call: 1, leaf: 0, view: "strips", options: { sample: 0, average: false, transform: "none", first: 0, count: 16, px: 56, depth: 0 } }, 0, buffers));
  const sizes = buffers.map((b) => b.byteLength);
  const data = new Uint8Array(sizes.reduce((a, b) => a + b, 0));
  let at = 0;
  for (const b of buffers) { data.set(new Uint8Array(b.buffer), at); at += b.byteLength; }
  model.traits.still = { cards: { type: "cards", view: "", seq: 0, snapshot: 3, position, notes: [], cards }, sizes, data: new DataView(data.buffer) };
}
const start = performance.now();
window.cleanup = widget.render({ model, el: root });
window.opened = performance.now() - start;
if (kind === "gone") setTimeout(() => model.signal("status", "restarting"), 400);
if (kind === "lost") setTimeout(() => model.signal("connection", "disconnected"), 400);
