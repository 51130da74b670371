import css from "../css/curves.css";
import statisticsCss from "../css/histogram.css";
import { curves } from "./view";

export default { kind: curves, css: statisticsCss + css };
