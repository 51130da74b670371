// Invented graphs: a small residual net, and a large one to measure with.

const node = (name, kind, cls, more = {}) => ({ name, label: name.split(".").pop(), parent: name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "", kind, cls, detail: "", params: 0, shapes: [[32, 64, 28, 28]], calls: 1, ran: true, scope: false, note: "", ...more });

function build(nodes, pairs, traced = true) {
  const at = new Map(nodes.map((n, i) => [n.name, i]));
  if (!traced) nodes = nodes.filter((n) => n.kind !== "op").map((n) => ({ ...n, ran: false, calls: 0, shapes: [] }));
  return { version: 1, model: "Net", traced, nodes, edges: traced ? pairs.map(([a, b]) => [at.get(a), at.get(b)]) : [] };
}

function block(prefix, from, nodes, pairs, down = false) {
  nodes.push(node(prefix, "module", "BasicBlock", { scope: true, params: 74112 }));
  const names = ["conv1", "bn1", "relu1", "conv2", "bn2"];
  const cls = { conv1: "Conv2d", bn1: "BatchNorm2d", relu1: "relu", conv2: "Conv2d", bn2: "BatchNorm2d" };
  let last = from;
  for (const n of names) {
    nodes.push(node(`${prefix}.${n}`, n === "relu1" ? "op" : "module", cls[n], { params: n.startsWith("conv") ? 36864 : n.startsWith("bn") ? 128 : 0, detail: n.startsWith("conv") ? "64, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False" : "" }));
    pairs.push([last, `${prefix}.${n}`]);
    last = `${prefix}.${n}`;
  }
  let skip = from;
  if (down) {
    nodes.push(node(`${prefix}.downsample`, "module", "Sequential", { scope: true }), node(`${prefix}.downsample.0`, "module", "Conv2d"), node(`${prefix}.downsample.1`, "module", "BatchNorm2d"));
    pairs.push([from, `${prefix}.downsample.0`], [`${prefix}.downsample.0`, `${prefix}.downsample.1`]);
    skip = `${prefix}.downsample.1`;
  }
  nodes.push(node(`${prefix}.add`, "op", "add"), node(`${prefix}.relu2`, "op", "relu"));
  pairs.push([last, `${prefix}.add`], [skip, `${prefix}.add`], [`${prefix}.add`, `${prefix}.relu2`]);
  return `${prefix}.relu2`;
}

export function resnet(stages = 2, blocks = 2, traced = true) {
  const nodes = [node("x", "input", "input", { shapes: [[32, 1, 28, 28]] }), node("conv1", "module", "Conv2d", { detail: "1, 16, kernel_size=(3, 3), padding=(1, 1)", params: 160 }), node("bn1", "module", "BatchNorm2d", { params: 32 }), node("relu", "op", "relu")];
  const pairs = [["x", "conv1"], ["conv1", "bn1"], ["bn1", "relu"]];
  let last = "relu";
  for (let s = 1; s <= stages; s++) {
    nodes.push(node(`stage${s}`, "module", "Sequential", { scope: true }));
    for (let b = 0; b < blocks; b++) last = block(`stage${s}.${b}`, last, nodes, pairs, b === 0 && s > 1);
  }
  nodes.push(node("head", "module", "Sequential", { scope: true, shapes: [[32, 10]] }), node("head.pool", "module", "AdaptiveAvgPool2d"), node("head.flatten", "module", "Flatten"), node("head.a_rather_long_layer_name", "module", "Linear", { params: 650 }), node("aux_head", "module", "Linear", { ran: false, calls: 0, shapes: [], note: "defined but never called by forward" }));
  pairs.push([last, "head.pool"], ["head.pool", "head.flatten"], ["head.flatten", "head.a_rather_long_layer_name"]);
  return build(nodes, pairs, traced);
}

export const flat = (n) => build(Array.from({ length: n }, (_, i) => node(`op${i}`, "op", "relu")), Array.from({ length: n - 1 }, (_, i) => [`op${i}`, `op${i + 1}`]).concat(Array.from({ length: Math.floor(n / 5) }, (_, i) => [`op${i * 5}`, `op${Math.min(n - 1, i * 5 + 4)}`])));

export function inception() {
  const nodes = [node("x", "input", "input")], pairs = [];
  let last = ["x"];
  for (let b = 0; b < 3; b++) {
    const p = `mix${b}`;
    nodes.push(node(p, "module", "Inception", { scope: true }));
    const ends = [];
    for (let k = 0; k < 4; k++) {
      let from = null;
      for (let j = 0; j <= Math.min(k, 2); j++) {
        const name = `${p}.b${k}_${j}`;
        nodes.push(node(name, "module", "Conv2d"));
        if (from) pairs.push([from, name]); else for (const l of last) pairs.push([l, name]);
        from = name;
      }
      ends.push(from);
    }
    nodes.push(node(`${p}.cat`, "op", "cat"));
    for (const e of ends) pairs.push([e, `${p}.cat`]);
    last = [`${p}.cat`];
  }
  return build(nodes, pairs);
}
