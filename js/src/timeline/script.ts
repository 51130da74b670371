import timelineCss from "../css/timeline.css";
import { timeline } from "./view";

export default { kind: timeline, css: timelineCss };
