import controlsCss from "./css/controls.css";
import dashboardCss from "./css/dashboard.css";
import graphCss from "./css/graph.css";
import stripsCss from "./css/strips.css";
import { mountDashboard } from "./dashboard/mount";
import { widget } from "./lib/root";

export default widget([controlsCss, graphCss, stripsCss, dashboardCss], mountDashboard);
