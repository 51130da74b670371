// Invented tensors that cover every layout and every odd value, as functions (kind, sample, channel, row, col).

const noise = (...seed) => {
  let h = 2166136261;
  for (const v of seed) h = Math.imul(h ^ (v + 0x9e37), 16777619);
  h ^= h >>> 13; h = Math.imul(h, 0x5bd1e995); h ^= h >>> 15;
  return (h >>> 0) / 4294967296 - 0.5;
};
const wave = (c, r, k, n) => Math.sin(c * 1.7 + (r / n) * 6) * Math.cos(c * 0.9 + (k / n) * 5) * Math.exp(-(((r - n / 2) ** 2 + (k - n / 2) ** 2) / (n * n * 0.12)));

export const LAYERS = {
  conv1: { cls: "Conv2d", detail: "1, 16, kernel_size=(3, 3)", layout: "tiles", shape: [32, 16, 28, 28], axes: "B C H W", dead: [9, 13],
    value: (kind, s, c, r, k) => (kind === "gradients" ? 1.6e-4 : 2.1) * (kind === "gradients" ? noise(c, r, k, s) : wave(c + s, r, k, 28) + 0.02 * noise(c, r, k)) },
  "stage1.0.conv1": { cls: "Conv2d", detail: "16, 64, kernel_size=(3, 3)", layout: "tiles", shape: [32, 64, 28, 28], axes: "B C H W", dead: [3, 9, 13], bad: 1,
    value: (kind, s, c, r, k) => (kind === "gradients" ? 5e-6 * noise(c, r, k, s) : wave(c * 3 + s, r, k, 28)) },
  "stage1.0.relu1": { cls: "relu", detail: "", layout: "tiles", shape: [32, 64, 14, 14], axes: "B C H W", calls: 2, dead: [],
    value: (kind, s, c, r, k) => Math.max(0, wave(c * 2 + s, r, k, 14)) },
  wide: { cls: "Conv2d", detail: "64, 4096, 1", layout: "tiles", shape: [8, 4096, 7, 7], axes: "B C H W", dead: [17, 1234], kept: "first 8 of 32 samples",
    value: (kind, s, c, r, k) => wave(c + s, r, k, 7) },
  big: { cls: "Conv2d", detail: "3, 8, 7, stride=2", layout: "tiles", shape: [4, 8, 224, 224], axes: "B C H W", dead: [],
    value: (kind, s, c, r, k) => wave(c + s, r, k, 224) },
  tokens: { cls: "LayerNorm", detail: "(256,)", layout: "tokens", shape: [8, 64, 256], axes: "B T C", dead: [],
    value: (kind, s, c, r, k) => Math.sin(r * 0.3 + k * 0.05 + s) * noise(r, k) },
  conv1d: { cls: "Conv1d", detail: "1, 32, 9", layout: "lines", shape: [16, 32, 400], axes: "B C L", dead: [4],
    value: (kind, s, c, r, k) => Math.sin(k * 0.05 * (1 + c * 0.1) + s) * Math.exp(-k / 300) },
  fc: { cls: "Linear", detail: "512, 10", layout: "bar", shape: [32, 10], axes: "B C", dead: [], value: (kind, s, c) => 3 * noise(c, s, 5) },
  embed: { cls: "Linear", detail: "64, 2048", layout: "bar", shape: [32, 2048], axes: "B C", dead: [], value: (kind, s, c) => 3 * noise(c, s, 5) },
  volume: { cls: "Conv3d", detail: "1, 8, 3", layout: "slices", shape: [2, 8, 12, 20, 20], axes: "B C D H W", depth: 12, dead: [],
    value: (kind, s, c, r, k, d) => wave(c + s + d * 0.3, r, k, 20) },
  loss: { cls: "CrossEntropyLoss", detail: "", layout: "scalar", shape: [], axes: "", dead: [], value: () => 1.17132 },
  unseen: { cls: "Linear", detail: "", layout: "bar", shape: [1, 4], axes: "", dead: [], missing: "not captured: the layer did not run in this batch", value: () => 0 },
  "lstm": { cls: "LSTM", detail: "28, 64", layout: "tokens", shape: [8, 28, 64], axes: "B T C", leaves: ["lstm[0]", "lstm[1][0]", "lstm[1][1]"], dead: [],
    value: (kind, s, c, r, k) => Math.tanh(noise(r, k, s) * 3) },
};

const transforms = { none: (v) => v, abs: Math.abs, square: (v) => v * v };

function geometry(layer) {
  const { layout, shape } = layer;
  if (layout === "tiles") return { channels: shape[1], full: [shape[2], shape[3]] };
  if (layout === "slices") return { channels: shape[1], full: [shape[3], shape[4]] };
  if (layout === "lines") return { channels: shape[1], full: [1, shape[2]] };
  if (layout === "tokens") return { channels: 1, full: [shape[1], shape[2]] };
  if (layout === "bar") return { channels: shape[1], full: [1, 1] };
  return { channels: 1, full: [1, 1] };
}

export function valueAt(name, kind, want, channel, row, col, step) {
  const layer = LAYERS[name];
  const f = transforms[want.transform];
  const { channels } = geometry(layer);
  const one = (c) => {
    if (layer.dead.includes(c)) return 0;
    if (layer.bad && kind === "activations" && c === 5 && row > 8 && row < 14 && col > 5 && col < 12) return [NaN, Infinity, -Infinity][Math.floor((col - 6) / 2)];
    return f(layer.value(kind, want.sample + step * 0.1, c, row, col, want.depth));
  };
  if (!want.average) return one(channel);
  let sum = 0;
  const n = Math.min(channels, 16);
  for (let c = 0; c < n; c++) sum += one(c);
  return sum / n;
}

const code = (v, scale) => (Number.isNaN(v) ? 0 : v === Infinity ? 2 : v === -Infinity ? 1 : scale ? Math.max(3, Math.min(255, Math.round((v / scale) * 126) + 129)) : 129);

export function makeCard(card, step, buffers) {
  if (card.view !== "strips") return { layer: card.layer, cls: "", detail: "", call: 1, calls: 0, leaf: 0, leaves: [], note: "", shape: [], dtype: "", axes: null, attention: "none", view: card.view, failed: "this page invents strips only", content: null };
  const want = { layer: card.layer, call: card.call, leaf: card.leaf, ...card.options };
  const layer = LAYERS[want.layer];
  if (!layer) return { layer: want.layer, cls: "Module", detail: "", call: 1, calls: 0, leaf: 0, leaves: [want.layer], note: "", shape: [], dtype: "", axes: null, attention: "none", view: "strips", failed: "", content: { strips: ["activations", "gradients"].map((kind) => ({ kind, missing: "not captured: unknown here" })) } };
  const { channels, full } = geometry(layer);
  const strips = ["activations", "gradients"].map((kind) => {
    if (layer.missing || (layer.layout === "scalar" && kind === "gradients")) return { kind, missing: layer.missing ?? "not captured: no gradient reaches it" };
    const shown = want.average ? 1 : channels;
    const first = Math.min(want.first, shown - 1);
    const count = Math.max(0, Math.min(want.count, shown - first));
    const pooled = Math.max(1, Math.ceil(Math.max(...full) / want.px));
    const lines = layer.layout === "lines";
    const pool = lines ? [1, pooled] : [Math.min(pooled, full[0]), Math.min(pooled, full[1])];
    const tile = lines ? [pooled > 1 ? 2 : 1, Math.ceil(full[1] / pool[1])] : [Math.ceil(full[0] / pool[0]), Math.ceil(full[1] / pool[1])];
    const values = [];
    const nonfinite = { nan: 0, posinf: 0, neginf: 0 };
    for (let c = first; c < first + count; c++) {
      if (lines) {
        const rows = pooled > 1 ? [Math.min, Math.max] : [Math.max];
        for (const pick of rows) for (let k = 0; k < tile[1]; k++) {
          const block = [];
          for (let j = k * pool[1]; j < Math.min(full[1], (k + 1) * pool[1]); j++) block.push(valueAt(want.layer, kind, want, c, 0, j, step));
          values.push(pick(...block));
        }
        continue;
      }
      for (let r = 0; r < tile[0]; r++) for (let k = 0; k < tile[1]; k++) {
        let sum = 0, n = 0;
        for (let i = r * pool[0]; i < Math.min(full[0], (r + 1) * pool[0]); i++) for (let j = k * pool[1]; j < Math.min(full[1], (k + 1) * pool[1]); j++) { sum += valueAt(want.layer, kind, want, c, i, j, step); n++; }
        values.push(sum / n);
      }
    }
    for (const v of values) { if (Number.isNaN(v)) nonfinite.nan++; else if (v === Infinity) nonfinite.posinf++; else if (v === -Infinity) nonfinite.neginf++; }
    const scale = Math.max(0, ...values.filter(Number.isFinite).map(Math.abs));
    buffers.push(new DataView(Uint8Array.from(values, (v) => code(v, scale)).buffer));
    return { kind, missing: "", layout: layer.layout, shape: layer.shape, dtype: "float32", axes: layer.axes, samples: layer.shape[0] ?? 0, kept: layer.kept ?? "", channels, first, count, tile, full, pool, scale,
      unsigned: want.transform !== "none", nonfinite, dead: layer.dead.filter((c) => c >= first && c < first + count && !want.average), depth: layer.depth ?? 0,
      value: layer.layout === "scalar" ? values[0] : null, buffer: buffers.length - 1 };
  });
  return { layer: want.layer, cls: layer.cls, detail: layer.detail, call: want.call, calls: layer.calls ?? 1, leaf: want.leaf, leaves: layer.leaves ?? [want.layer], note: layer.note ?? "", shape: layer.shape, dtype: layer.missing ? "" : "float32", axes: null, attention: "none", view: "strips", failed: "", content: { strips } };
}

export function makeExact(message, step) {
  const layer = LAYERS[message.card.layer];
  const { full } = geometry(layer);
  const [r0, r1, c0, c1] = message.ask.window ?? [0, full[0], 0, full[1]];
  const out = new Float32Array((r1 - r0) * (c1 - c0));
  let at = 0;
  for (let r = r0; r < r1; r++) for (let c = c0; c < c1; c++) out[at++] = valueAt(message.card.layer, message.ask.kind, message.card.options, message.ask.channel, r, c, step);
  return { window: [r0, r1, c0, c1], buffer: new DataView(out.buffer) };
}
