import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";

import { Api } from "../src/api.js";
import { Link, type LinkState } from "../src/link.js";
import { TestServer, Until } from "./server.js";

const STATUS = { version: 1, step: 1, title: "", status: "running", archived: false, queue: [], asks: [], usage: {} };

const line = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
const reset = (cursor: string) => line("reset", { chat: "a", cursor, messages: [], status: STATUS });
const delta = (n: number, cursor?: string) =>
  line("delta", { chat: "a", ...(cursor ? { cursor } : {}), step: 1, n, at: 1, kind: "text", text: `t${n} ` });

/** A link to a server that gives each connection its own script. */
async function linked(scripts: Array<(response: ServerResponse, chats: string) => void>, times = {}) {
  const server = new TestServer();
  const until = new Until();
  const url = await server.start((heard, response) => {
    const script = scripts[Math.min(server.heard.length, scripts.length) - 1];
    script?.(response, heard.url.searchParams.get("chats") ?? "");
  });
  const states: LinkState[] = [];
  let badFolds = 0;
  const link = new Link(new Api({ url }), {
    onView: until.notify,
    onState: (state) => (states.push(state), until.notify()),
    onBadFold: () => (badFolds += 1),
  }, times);
  link.follow(["a"]);
  link.start();
  const text = () => link.view("a")?.draft?.parts.map((part) => (part.type === "text" ? part.text : "")).join("") ?? "";
  const stop = async () => {
    link.stop();
    await server.stop();
  };
  return { server, link, until, states, text, stop, badFolds: () => badFolds };
}

const sends = (...lines: string[]) => (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const each of lines) response.write(each);
};

/** Goes on where the client is: how much it got before a cut is the network's to decide. */
const goesOn = (...deltas: string[]) => (response: ServerResponse, chats: string) => {
  const cursor = Number(/^a@(\d+)/.exec(chats)?.[1] ?? 0);
  sends(...(cursor === 0 ? [reset("1")] : []), ...(cursor < 2 ? [delta(1, "2")] : []), ...deltas)(response);
};

test("a stream that is cut goes on at the cursor, and half events come again", async () => {
  const { server, until, text, stop } = await linked([
    (response) => {
      sends(reset("1"), delta(1, "2"), delta(2))(response);
      setImmediate(() => response.destroy());
    },
    goesOn(delta(2), delta(3, "3")),
  ]);
  await until.holds(() => text() === "t1 t2 t3 ");
  assert.equal(server.heard[0]?.url.searchParams.get("chats"), "a");
  assert.match(server.heard[1]?.url.searchParams.get("chats") ?? "", /^a(@[12])?$/);
  await stop();
});

test("a stream without a byte is a cut", async () => {
  const { until, text, states, stop } = await linked([sends(reset("1"), delta(1, "2")), goesOn(delta(2, "3"))], { silenceMs: 50 });
  await until.holds(() => text() === "t1 t2 ");
  assert.ok(states.includes("waiting"));
  await stop();
});

test("events that do not fit together are read anew, without a cursor", async () => {
  const { server, until, text, stop, badFolds } = await linked([
    sends(reset("1"), delta(1, "2"), delta(3, "3")),
    sends(reset("1"), delta(1, "2"), delta(2, "3"), delta(3, "4")),
  ]);
  await until.holds(() => text() === "t1 t2 t3 ");
  assert.equal(badFolds(), 1);
  assert.equal(server.heard[1]?.url.searchParams.get("chats"), "a");
  await stop();
});

test("a refused token ends the link, and a busy server does not", async () => {
  const { until, states, stop } = await linked([
    (response) => response.writeHead(503, { "retry-after": "0" }).end("{}"),
    (response) => response.writeHead(401).end("{}"),
  ]);
  await until.holds(() => states.at(-1) === "ended");
  assert.deepEqual(states, ["opening", "waiting", "ended"]);
  await stop();
});

test("a new chat opens the stream again, with the cursors of the others", async () => {
  const { server, link, until, text, stop } = await linked([sends(reset("1"), delta(1, "2")), sends(delta(2, "3"))]);
  await until.holds(() => text() === "t1 ");
  link.follow(["a", "b"]);
  await until.holds(() => text() === "t1 t2 ");
  assert.equal(server.heard[1]?.url.searchParams.get("chats"), "a@2,b");
  await stop();
});
