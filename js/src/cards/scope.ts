// What statistics of a layer are of, where its call and output cannot be chosen.

import type { Card } from "../lib/protocol";

export function scopeText({ calls, leaves }: Card): string {
  return [calls > 1 && `all ${calls} calls`, leaves.length > 1 && `first of ${leaves.length} outputs`].filter(Boolean).join(" \u00b7 ");
}
