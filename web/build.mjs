// Builds the page into dist/: names carry a hash of the content, and index.html has no inline script or style.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "dist");

/** Builds the page, and returns what its files are and weigh. */
export async function buildPage({ isDevelopment = false } = {}) {
  const options = {
    absWorkingDir: here,
    bundle: true,
    minify: !isDevelopment,
    format: "esm",
    target: ["es2022"],
    metafile: true,
    write: false,
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    outdir: dist,
    entryNames: "assets/[name]-[hash]",
    chunkNames: "assets/[name]-[hash]",
    assetNames: "assets/[name]-[hash]",
    loader: { ".svg": "file" },
  };
  const script = await build({ ...options, entryPoints: { page: "page/src/main.tsx" }, splitting: true });
  const style = await build({ ...options, entryPoints: { page: "page/style/page.css" } });
  const icon = await readFile(join(here, "page/icon.svg"));
  const iconName = `assets/icon-${createHash("sha256").update(icon).digest("hex").slice(0, 8)}.svg`;
  const files = new Map([[iconName, icon]]);
  for (const { path, contents } of [...script.outputFiles, ...style.outputFiles]) {
    files.set(path.slice(dist.length + 1).replaceAll("\\", "/"), Buffer.from(contents));
  }
  const entry = (meta, from) =>
    "/" + Object.entries(meta.outputs).find(([, output]) => output.entryPoint === from)[0].replace(/^dist\//, "");
  // What the entry imports is loaded beside it, not after it.
  const main = entry(script.metafile, "page/src/main.tsx");
  const imported = Object.entries(script.metafile.outputs).find(([name]) => main === "/" + name.replace(/^dist\//, ""))[1].imports;
  const preloads = imported.filter(({ kind }) => kind === "import-statement")
    .map(({ path }) => `<link rel="modulepreload" href="/${path.replace(/^dist\//, "")}">`).join("\n    ");
  const html = (await readFile(join(here, "page/index.html"), "utf8"))
    .replace("%ICON%", `/${iconName}`)
    .replace("%STYLE%", entry(style.metafile, "page/style/page.css"))
    .replace("%SCRIPT%", main)
    .replace("%PRELOADS%", preloads);
  files.set("index.html", Buffer.from(html));
  await rm(dist, { recursive: true, force: true });
  for (const [name, bytes] of files) {
    await mkdir(dirname(join(dist, name)), { recursive: true });
    await writeFile(join(dist, name), bytes);
  }
  return new Map([...files].map(([name, bytes]) => [name, { bytes: bytes.length, gzip: gzipSync(bytes).length }]));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, { bytes, gzip }] of [...(await buildPage())].sort()) {
    console.log(`${name.padEnd(40)} ${String(bytes).padStart(8)} ${String(gzip).padStart(8)} gz`);
  }
}
