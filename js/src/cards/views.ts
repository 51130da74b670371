// All views of a layer card, in the order of their tabs; their keys are in lib/keys.ts. Of a lazy one the script is
// built from `src/<view>/script.ts`.

import { strips } from "../strips/view";
import { lazy } from "./lazy";
import type { ViewKind } from "./view";

export const VIEWS: ViewKind[] = [
  strips,
  lazy("histogram", "Histogram"),
  lazy("extremes", "Extremes"),
  lazy("curves", "Curves"),
  lazy("weights", "Weights"),
];
