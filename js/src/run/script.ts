import curvesCss from "../css/curves.css";
import knobsCss from "../css/knobs.css";
import runCss from "../css/run.css";
import { run } from "./view";

export default { kind: run, css: curvesCss + knobsCss + runCss };
