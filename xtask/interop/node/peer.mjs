// What the checks share: the stage, the scenes, and a line of JSON a check.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const stage = JSON.parse(process.env.STAGE);
export const { url: URL, key: KEY, scenes: SCENES } = stage;

export const TOOLS = {
  weather: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  now: { type: "object", properties: {} },
};
export const RESULTS = { weather: "cold", now: "noon" };

const say = (line) => console.log(JSON.stringify(line));

export function peer(name) {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  say({ peer: `${name} (Node)`, version });
}

/** One check: what goes wrong inside is told, and the next one goes on. */
export async function check(name, body) {
  try {
    await body();
    say({ check: name, ok: true });
  } catch (error) {
    say({ check: name, ok: false, why: `${error.name}: ${error.message}` });
  }
}

/** What was seen is what the script says, whole. */
export const same = (seen, expected) =>
  assert.deepEqual(seen, expected, `saw ${JSON.stringify(seen)}, expected ${JSON.stringify(expected)}`);

/** The SDK throws its own typed error, with the status it got. */
export async function throws(kind, status, body) {
  try {
    await body();
  } catch (error) {
    if (!(error instanceof kind)) throw error;
    return same(error.status, status);
  }
  throw new Error(`no ${kind.name}`);
}

export async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}
