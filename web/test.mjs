// Runs the unit tests. Node 20 cannot read TypeScript, so esbuild bundles each test first.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const built = mkdtempSync(join(here, "node_modules", ".tests-"));
try {
  const tests = ["client/test", "page/test"].flatMap((folder) =>
    readdirSync(join(here, folder)).filter((name) => name.endsWith(".test.ts")).map((name) => `${folder}/${name}`));
  buildSync({
    absWorkingDir: here,
    entryPoints: tests,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    alias: { "@everturn/client": "./client/src/index.ts" },
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    outbase: here,
    outdir: built,
    outExtension: { ".js": ".mjs" },
    define: { FIXTURES: JSON.stringify(join(here, "client/test/fixtures")) },
  });
  const wanted = process.argv.slice(2);
  const files = tests.map((test) => join(built, test.replace(/\.ts$/, ".mjs")))
    .filter((file) => wanted.length === 0 || wanted.some((word) => file.includes(word)));
  process.exitCode = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-timeout=120000", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(built, { recursive: true, force: true });
}
