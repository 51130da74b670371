// All views of a layer card, in the order of their tabs; their keys are in lib/keys.ts.

import { strips } from "../strips/view";
import type { ViewKind } from "./view";

export const VIEWS: ViewKind[] = [strips];
