import css from "./css/controls.css";
import { mountControls } from "./controls/mount";
import { widget } from "./lib/root";

export default widget([css], (root) => {
  root.app.classList.add("alone");
  return mountControls(root);
});
