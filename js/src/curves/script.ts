import css from "../css/curves.css";
import { curves } from "./view";

export default { kind: curves, css };
