import inputsCss from "../css/inputs.css";
import { inputs } from "./view";

export default { kind: inputs, css: inputsCss };
