import css from "../css/histogram.css";
import { histogram } from "./view";

export default { kind: histogram, css };
