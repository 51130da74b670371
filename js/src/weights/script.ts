import knobsCss from "../css/knobs.css";
import css from "../css/weights.css";
import { weights } from "./view";

export default { kind: weights, css: knobsCss + css };
