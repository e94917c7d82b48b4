// The client of AG-UI against the daemon.
import { HttpAgent } from "@ag-ui/client";
import { Daemon, check, dice, peer, proxy, same, until } from "./peer.mjs";

// A body that breaks escapes as a rejection nobody can catch, beside the failed run.
process.on("unhandledRejection", () => {});

const config = `
[agents.numbers]
model = "understudy/numbered"
`;
const MAP = {
  name: "map",
  description: "Shows a map.",
  parameters: { type: "object", properties: { of: { type: "string" } }, required: ["of"] },
};

peer(["@ag-ui/client"], "AG-UI");
const daemon = await Daemon.start(config);
let number = 0;

/** A client: it remembers how its last run ended, and counts requests. */
const open = ({ agent = "default", thread = `thread-${number++}`, url = daemon.url, messages = [] } = {}) => {
  const client = new HttpAgent({ url: `${url}/ag-ui/${agent}`, headers: daemon.headers, threadId: thread });
  client.setMessages(messages);
  client.subscribe({
    onRunFinishedEvent: ({ event }) => void (client.end = event),
    onRunErrorEvent: ({ event }) => void (client.end = event),
    onRunFailed: ({ error }) => void (client.failed = error),
  });
  return client;
};
const run = async (client, parameters = {}) => {
  client.end = client.failed = undefined;
  await client.runAgent(parameters).catch((error) => (client.failed = error));
  return client.end?.outcome;
};
const say = (client, content) => client.addMessage({ id: crypto.randomUUID(), role: "user", content });
/** What a page shows of messages. */
const shown = (messages) => JSON.parse(JSON.stringify(messages));
/** The messages of a client that joins now. */
const joined = async (client, agent = "default") => {
  const other = open({ agent, thread: client.threadId });
  await run(other);
  same(other.failed, undefined, `joined: ${other.failed}`);
  return shown(other.messages);
};

await check("E01 text, reasoning, a tool of the server, a broken answer: the transcript", async () => {
  const client = open();
  for (const words of ["hello", "dice", "break", "long"]) {
    say(client, words);
    same(await run(client), { type: "success" }, `${words} ${client.failed}`);
  }
  same(shown(client.messages), await joined(client));
});

await check("E02 a tool of the client: pending, result, continuation", async () => {
  const client = open();
  say(client, "Where is it?");
  const outcome = await run(client, { tools: [MAP] });
  same([outcome?.type, outcome?.pendingToolCallIds?.length], ["success", 1], `${client.failed}`);
  const [toolCallId] = outcome.pendingToolCallIds;
  client.addMessage({ id: "result", role: "tool", toolCallId, content: "kelp" });
  same(await run(client, { tools: [MAP] }), { type: "success" }, `${client.failed}`);
  same(client.messages.at(-1).content.includes("kelp"), true);
});

await check("E03 an approval by interrupt and resume, also cancelled, and after a restart", async () => {
  for (const [resume, restarts] of [
    [{ status: "resolved", payload: { approved: true } }, false],
    [{ status: "cancelled" }, false],
    [{ status: "resolved", payload: { approved: true } }, true],
  ]) {
    const client = open();
    say(client, "note");
    const outcome = await run(client);
    same(outcome?.type, "interrupt", `${client.failed}`);
    if (restarts) {
      await daemon.end("SIGKILL");
      await daemon.again();
    }
    const [{ id: interruptId }] = outcome.interrupts;
    same(await run(client, { resume: [{ interruptId, ...resume }] }), { type: "success" }, `${client.failed}`);
    same(shown(client.messages), await joined(client));
  }
});

await check("E04 a second client joins in the middle: the same messages at the end", async () => {
  const client = open({ agent: "numbers" });
  say(client, "count to 300");
  const running = run(client);
  await until("something is shown", () => client.messages.length > 1);
  const others = await Promise.all([joined(client, "numbers"), joined(client, "numbers")]);
  await running;
  others.forEach((other) => same(other, shown(client.messages)));
});

await check("E06 kill -9 in the middle, join again: nothing twice, nothing missing", async () => {
  const client = open({ agent: "numbers" });
  say(client, "count to 400");
  const running = run(client);
  await until("something is shown", () => (client.messages.at(-1).content?.length ?? 0) > 100);
  await daemon.end("SIGKILL");
  await running;
  same([client.end, client.failed === undefined], [undefined, false], "a broken stream is a failed run");
  await daemon.again();
  const words = Array.from({ length: 400 }, (_, at) => `t${at + 1}`).join(" ");
  same((await joined(client, "numbers")).at(-1).content, words);
});

await check("E08 a drain in the middle: the run fails", async () => {
  const client = open({ agent: "numbers" });
  say(client, "count to 5000");
  const running = run(client);
  await until("something is shown", () => client.messages.length > 1);
  await daemon.end("SIGTERM");
  await running;
  same([client.end, client.failed === undefined], [undefined, false]);
  await daemon.again();
});

await check("E09 a stop: the partial reply is kept, the run is cancelled", async () => {
  const client = open();
  say(client, "slow");
  const running = run(client);
  await until("something is shown", () => client.messages.length > 1);
  same(await daemon.json(`/ag-ui/default/threads/${client.threadId}/stop`, {}), { success: true });
  same(await running, { type: "cancelled" });
  same(shown(client.messages), await joined(client));
});

await check("E05 E10 30 runs through a proxy that cuts at random bytes: every run ends alike, and nothing runs twice", async () => {
  const chance = dice(11);
  const flaky = await proxy(daemon, () => (chance(4) === 0 ? undefined : 200 + chance(9000)));
  for (let round = 0; round < 30; round++) {
    console.log("{}"); // A sign of life for the chore.
    let client = open({ url: flaky.url });
    say(client, ["dice", "long", "break", "hello"][round % 4]);
    const asked = shown(client.messages);
    for (let tries = 0; client.end?.type !== "RUN_FINISHED"; tries++) {
      if (tries > 200) throw new Error(`it never ends: ${client.failed}`);
      client = open({ url: flaky.url, thread: client.threadId, messages: asked });
      await run(client, { runId: `run-${round}` });
    }
    same(shown(client.messages), await joined(client));
    same(client.messages.filter((message) => message.role === "user").length, 1);
  }
  await flaky.close();
});

await daemon.end("SIGTERM");
process.exit(0);
