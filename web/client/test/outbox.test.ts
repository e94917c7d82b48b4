import assert from "node:assert/strict";
import { test } from "node:test";

import { Api, type Refused } from "../src/api.js";
import { LOCAL, Outbox, type OutboxEvents, type OutboxRecord } from "../src/outbox.js";
import { MemoryStore } from "../src/outbox_store.js";
import { type Heard, TestServer, Until } from "./server.js";

let boxes = 0;

/** An outbox with a server that answers with these statuses, the last one for ever. */
async function boxed(statuses: number[], store = new MemoryStore(), more: OutboxEvents = {}) {
  const server = new TestServer();
  const until = new Until();
  const url = await server.start((heard: Heard, response) => {
    const status = statuses[Math.min(server.heard.length, statuses.length) - 1] ?? 200;
    const body = heard.url.pathname === "/v1/chats" ? { id: "real" } : { type: `urn:everturn:problem:p${status}`, detail: `refused with ${status}` };
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  const done: OutboxRecord[] = [];
  const refused: Refused[] = [];
  const outbox = new Outbox(new Api({ url }), store, {
    ...more,
    onDone: (record) => (done.push(record), until.notify()),
    onRefused: (_, error) => (refused.push(error), until.notify()),
  }, `box-${boxes++}`);
  const stop = async () => {
    outbox.close();
    await server.stop();
  };
  return { server, outbox, until, done, refused, store, stop };
}

const say = (text: string) => ({ verb: "send" as const, body: { text } });

/** PG12: a message that is repeated has one key. */
test("a message is sent again under one key until it is taken", async () => {
  const { server, outbox, until, done, store, stop } = await boxed([503, 503, 202]);
  const { key } = await outbox.add("a", say("hello"));
  await until.holds(() => done.length === 1);
  assert.deepEqual(server.heard.map((heard) => heard.key), [key, key, key]);
  await until.holds(() => outbox.records.length === 0 || (setImmediate(until.notify), false));
  assert.deepEqual(await store.all(), []);
  await stop();
});

/** PG14: orders of a chat are sent in the order they were given. */
test("orders of a chat keep their order, and a broken chat holds up no other", async () => {
  const { server, outbox, until, done, stop } = await boxed([503, 202]);
  await Promise.all([outbox.add("a", say("1")), outbox.add("a", say("2")), outbox.add("a", say("3")), outbox.add("b", say("4"))]);
  await until.holds(() => done.length === 4);
  const said = server.heard.slice(1).filter((heard) => heard.url.pathname.includes("/a/")).map((heard) => (heard.body as { text: string }).text);
  assert.deepEqual(said.filter((text, at) => said.indexOf(text) === at), ["1", "2", "3"]);
  await stop();
});

/** PG13: what an earlier page left behind is sent by the next. */
test("records outlive the page", async () => {
  const store = new MemoryStore();
  await store.put({ key: "k", place: 1, chat: "a", order: say("left behind"), at: 1 });
  const { server, outbox, until, done, stop } = await boxed([202], store);
  await outbox.start();
  await until.holds(() => done.length === 1);
  assert.equal(server.heard[0]?.key, "k");
  await stop();
});

test("a refusal for good gives the message back", async () => {
  const { outbox, until, refused, store, stop } = await boxed([409]);
  await outbox.add("a", say("too late"));
  await until.holds(() => refused.length === 1);
  assert.equal(refused[0]?.message, "refused with 409");
  assert.deepEqual(await store.all(), []);
  await stop();
});

test("a session that has ended keeps the message", async () => {
  const { server, outbox, until, done, store, stop } = await boxed([401, 202]);
  await outbox.add("a", say("later"));
  await until.holds(() => server.heard.length === 1 || (setImmediate(until.notify), false));
  assert.equal((await store.all()).length, 1);
  outbox.nudge();
  await until.holds(() => done.length === 1 || (outbox.nudge(), setImmediate(until.notify), false));
  await stop();
});

test("a new chat and its first messages are sent to the chat that was made", async () => {
  let named: [string, string] | undefined;
  const { server, outbox, until, done, stop } = await boxed([201], new MemoryStore(), { onNamed: (local, chat) => (named = [local, chat.id]) });
  const local = `${LOCAL}1`;
  await Promise.all([outbox.add(local, { verb: "create", body: {} }), outbox.add(local, say("first"))]);
  await until.holds(() => done.length === 2);
  assert.deepEqual(named, [local, "real"]);
  assert.deepEqual(server.heard.map((heard) => heard.url.pathname), ["/v1/chats", "/v1/chats/real/messages"]);
  await stop();
});
