// Which layers a filter means: globs over names (`stage1.*`), classes (`Conv2d`), or a part of either.

import type { GraphNode } from "../lib/protocol";

/** A shell-style pattern as a regular expression over the whole text. */
export function globToRegExp(glob: string): RegExp {
  let source = "";
  for (let i = 0; i < glob.length; i++) {
    const char = glob[i] ?? "";
    if (char === "*") source += ".*";
    else if (char === "?") source += ".";
    else if (char === "[") {
      const end = glob.indexOf("]", i + 2);
      if (end < 0) source += "\\[";
      else {
        source += `[${glob.slice(i + 1, end).replace(/^!/, "^").replace(/\\/g, "\\\\")}]`;
        i = end;
      }
    } else source += char.replace(/[\\^$.|+(){}\]]/g, "\\$&");
  }
  return new RegExp(`^${source}$`, "i");
}

/** Tells of each node whether it matches; several patterns may be given with commas or spaces between. */
export function matcher(filter: string): ((node: GraphNode) => boolean) | null {
  const patterns = filter.split(/[\s,]+/).filter(Boolean);
  if (!patterns.length) return null;
  const tests = patterns.map((pattern) => {
    if (/[*?[]/.test(pattern)) {
      const glob = globToRegExp(pattern);
      return (node: GraphNode) => glob.test(node.name) || glob.test(node.cls);
    }
    const part = pattern.toLowerCase();
    return (node: GraphNode) => node.name.toLowerCase().includes(part) || node.cls.toLowerCase().includes(part);
  });
  return (node) => tests.some((test) => test(node));
}

/**
 * The layers that a filter offers to watch. A scope is offered only where it is meant itself, by its class or
 * its whole name: `stage1.*` means the layers inside and not each block around them once more.
 */
export function matches(nodes: GraphNode[], filter: string): GraphNode[] {
  const test = matcher(filter);
  if (!test) return [];
  const names = filter.split(/[\s,]+/).filter(Boolean).map((pattern) => pattern.toLowerCase());
  return nodes.filter((node) => test(node) && (!node.scope || names.includes(node.name.toLowerCase()) || names.includes(node.cls.toLowerCase())));
}
