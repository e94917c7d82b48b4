// Serves the page from the sources beside a running server, for work on the page.
//
//   EVERTURN_TOKEN=$(cat .../token) npm run dev           the page on http://127.0.0.1:4150, the server on 4140
//
// The page is built anew for each load. Requests for /v1 go to the server with the token, so that no login is needed, and the
// page has the headers that the server gives it.
import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { buildPage } from "./build.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const port = Number(process.env.PORT ?? 4150);
const server = new URL(process.env.EVERTURN_URL ?? "http://127.0.0.1:4140");
const token = process.env.EVERTURN_TOKEN;
if (!token) throw new Error("set EVERTURN_TOKEN to a token of the server, for example of its file `token`");

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; font-src 'self'; " +
  "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
  "require-trusted-types-for 'script'; trusted-types 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

function proxy(incoming, outgoing) {
  const headers = { ...incoming.headers, host: server.host, authorization: `Bearer ${token}` };
  for (const name of ["cookie", "x-everturn-key", "origin", "connection"]) delete headers[name];
  const upstream = request(new URL(incoming.url, server), { method: incoming.method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
    answer.on("error", () => outgoing.destroy());
    answer.on("aborted", () => outgoing.destroy());
  });
  upstream.on("error", () => outgoing.destroy());
  outgoing.on("close", () => upstream.destroy());
  incoming.pipe(upstream);
}

async function file(incoming, outgoing) {
  const path = normalize(new URL(incoming.url, "http://page").pathname);
  const name = extname(path) ? path : "/index.html";
  if (name === "/index.html") await buildPage({ isDevelopment: true });
  try {
    const bytes = await readFile(join(here, "dist", name));
    outgoing.writeHead(200, {
      "content-type": TYPES[extname(name)] ?? "application/octet-stream",
      "content-security-policy": POLICY,
      "cache-control": "no-store",
    });
    outgoing.end(bytes);
  } catch {
    outgoing.writeHead(404).end();
  }
}

createServer((incoming, outgoing) => {
  const isApi = incoming.url.startsWith("/v1/") || incoming.url === "/metrics";
  if (incoming.url === "/v1/session") {
    outgoing.writeHead(200, { "content-type": "application/json" });
    const scopes = ["read", "chat", "approve", "admin", "metrics"];
    outgoing.end(JSON.stringify({ owner: "local", scopes, key: "development", version: "development" }));
  } else if (isApi) proxy(incoming, outgoing);
  else void file(incoming, outgoing);
}).listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}`));
