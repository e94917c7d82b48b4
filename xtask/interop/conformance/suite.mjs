// The conformance suite of MCP plays servers to our client, once per scenario and revision of the protocol. Our client is the
// program in CLIENT. Prints a line of JSON per check.
//
// The suite needs Node 22; where the machine's is older, the one beside it is used.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { promisify } from "node:util";

const run = promisify(execFile);
const SUITE = "node_modules/@modelcontextprotocol/conformance";
const beside = `node_modules/node-linux-${process.arch}/bin/node`;
const node = Number(process.versions.node.split(".")[0]) < 22 && existsSync(beside) ? beside : process.execPath;
const REVISIONS = ["2025-11-25", "2026-07-28"];
const AT_ONCE = 2;

// What our client does otherwise on purpose, or not yet.
const WAIVED = {
  "elicitation-sep1034-client-defaults": "questions in the middle of a call are declined: they could not outlive the daemon",
  "auth/scope-step-up": "a person is asked to log in again with the scopes that are missing",
};

function say(line) {
  console.log(JSON.stringify(line));
}

async function scenarios() {
  const { stdout } = await run(node, [`${SUITE}/dist/index.js`, "list"]);
  const ofClients = stdout.split("Client scenarios")[1].split("Authorization server scenarios")[0];
  return [...ofClients.matchAll(/- (\S+) \[([^\]]*)\]/g)].map(([, name, revisions]) => ({ name, revisions: revisions.split(",") }));
}

async function tried(name, revision) {
  const options = ["client", "--command", process.env.CLIENT, "--scenario", name, "--spec-version", revision, "--verbose"];
  try {
    await run(node, [`${SUITE}/dist/index.js`, ...options], { timeout: 60_000, maxBuffer: 32 << 20 });
    return { ok: true, why: null };
  } catch (error) {
    const told = `${error.stdout ?? ""}\n${error.stderr ?? ""}`.split("\n");
    const failed = told.filter((line) => /FAIL|✗|\[x\]/i.test(line)).slice(0, 5);
    return { ok: false, why: (failed.length > 0 ? failed : told.slice(-5)).join(" | ").slice(0, 1000) };
  }
}

say({ peer: "MCP conformance suite", version: JSON.parse(readFileSync(`${SUITE}/package.json`)).version });
const all = await scenarios();
const waiting = REVISIONS.flatMap((revision) =>
  all.filter(({ name, revisions }) => revisions.includes(revision) && !(name in WAIVED)).map(({ name }) => ({ name, revision })),
);
const only = process.env.ONLY;
async function worker() {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    if (!only || next.name.includes(only)) say({ check: `${next.revision} ${next.name}`, ...(await tried(next.name, next.revision)) });
  }
}
await Promise.all(Array.from({ length: AT_ONCE }, worker));
