import css from "../css/extremes.css";
import { extremes } from "./view";

export default { kind: extremes, css };
