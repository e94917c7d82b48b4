// Has openapi-typescript make types of the server's document, and tsc read them under --strict.
//
// The server is at SERVER, its token in TOKEN. Beside the types stands a program that uses each schema and each operation by
// its name, so that a type that came out empty or wrong does not compile.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const say = (fields) => console.log(JSON.stringify(fields));
const check = (name, run) => {
  try {
    run();
    say({ check: name, ok: true });
  } catch (error) {
    say({ check: name, ok: false, why: String(error.stdout || error.message).slice(0, 2000) });
  }
};
const bin = (name, file) => join(require.resolve(`${name}/package.json`), "..", file);

const { version } = JSON.parse(readFileSync(bin("openapi-typescript", "package.json")));
say({ peer: "openapi-typescript", version });

const base = process.env.SERVER.startsWith("http") ? process.env.SERVER : `http://${process.env.SERVER}`;
const answer = await fetch(`${base}/openapi.json`, { headers: { authorization: `Bearer ${process.env.TOKEN}` } });
const document = await answer.json();
const place = mkdtempSync(join(process.cwd(), "types-"));
writeFileSync(join(place, "openapi.json"), JSON.stringify(document));

check("types are generated", () => {
  const cli = bin("openapi-typescript", "bin/cli.js");
  execFileSync("node", [cli, join(place, "openapi.json"), "--output", join(place, "api.ts")], { encoding: "utf8" });
});

const schemas = Object.keys(document.components.schemas);
const operations = Object.values(document.paths).flatMap((path) => Object.values(path).map((verb) => verb.operationId));
const program = [
  'import type { components, operations } from "./api.js";',
  "type Schemas = components[\"schemas\"];",
  "type Known<T> = [T] extends [never] ? false : unknown extends T ? false : true;",
  ...schemas.map((name, n) => `export const schema${n}: Known<Schemas["${name}"]> = true;`),
  ...operations.map((name, n) => `export const operation${n}: Known<operations["${name}"]> = true;`),
  "export function text(message: Schemas[\"Message\"]): string {",
  "  switch (message.kind) {",
  '    case "user": return `${message.receipt ?? 0} ${message.key ?? ""} ${message.parts.length}`;',
  '    case "context": return message.text;',
  '    case "reply": return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");',
  '    case "result": return message.output;',
  '    case "summary": return message.text;',
  "  }",
  "}",
];
writeFileSync(join(place, "uses.ts"), program.join("\n"));
check(`tsc --strict reads ${schemas.length} schemas and ${operations.length} operations`, () => {
  const flags = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "false"];
  execFileSync("node", [bin("typescript", "bin/tsc"), ...flags, join(place, "uses.ts")], { encoding: "utf8" });
});
