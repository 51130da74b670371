// How far perturbations have got: the share of each layer's units that changed.

import { ancestors, type Tree } from "./tree";

export class Moved {
  private constructor(private readonly shares: ReadonlyMap<string, number>) {}

  /** null where nothing is perturbed. Of a scope it is the largest share of what is in it. */
  static of(shares: Record<string, number> | undefined, tree: Tree): Moved | null {
    const known = Object.entries(shares ?? {});
    if (!known.length) return null;
    const all = new Map<string, number>();
    for (const [name, share] of known) {
      const node = tree.byName.get(name);
      if (!node) continue;
      for (const scope of ancestors(tree.byName, node)) all.set(scope, Math.max(all.get(scope) ?? 0, share));
    }
    for (const [name, share] of known) all.set(name, Math.max(all.get(name) ?? 0, share));
    return new Moved(all);
  }

  /** undefined where nothing is known, as of a layer that did not run. */
  of(name: string): number | undefined {
    return this.shares.get(name);
  }
}

/** Neither all nor nothing is said of what is only nearly so. */
export function movedText(share: number): string {
  if (share <= 0) return "0 %";
  if (share >= 1) return "100 %";
  return share < 0.01 ? "<1 %" : share > 0.99 ? ">99 %" : `${Math.round(share * 100)} %`;
}

export function movedLabel(share: number | undefined): string {
  return share === undefined ? "" : `${movedText(share)} of units changed`;
}
