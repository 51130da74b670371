import cardsCss from "./css/cards.css";
import controlsCss from "./css/controls.css";
import dashboardCss from "./css/dashboard.css";
import graphCss from "./css/graph.css";
import { mountDashboard } from "./dashboard/mount";
import { widget } from "./lib/root";

export default widget([controlsCss, graphCss, cardsCss, dashboardCss], mountDashboard);
