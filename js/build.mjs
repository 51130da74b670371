// Bundles each widget into one file beside its Python module. The result is committed; CI rebuilds it and
// fails on a difference, so nothing here may depend on the time or the machine.
import { readFile } from "node:fs/promises";
import * as esbuild from "esbuild";

const minifiedCss = {
  name: "css-as-minified-text",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const { code } = await esbuild.transform(source, { loader: "css", minify: true, target: "es2022" });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

const WIDGETS = ["controls", "graph", "strips", "histogram", "extremes", "curves", "weights", "run", "inputs", "dashboard"];
/** Scripts that a dashboard asks the kernel for when a view is first looked at. */
const VIEWS = ["histogram", "extremes", "curves", "weights", "run", "timeline", "inputs"];

const options = {
  entryPoints: [
    ...WIDGETS.map((name) => ({ in: `src/${name}.ts`, out: name })),
    ...VIEWS.map((name) => ({ in: `src/${name}/script.ts`, out: `views/${name}` })),
  ],
  outdir: "../nansense_widgets/widgets/static",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  logLevel: "info",
  plugins: [minifiedCss],
};

if (process.argv.includes("--watch")) {
  await (await esbuild.context(options)).watch();
} else {
  const { metafile } = await esbuild.build({ ...options, metafile: true });
  for (const [path, { bytes }] of Object.entries(metafile.outputs)) {
    if (bytes > 150 * 1024) throw new Error(`${path} has ${bytes} bytes; a widget may have 150 kB`);
  }
}
