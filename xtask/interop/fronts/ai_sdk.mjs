// The AI SDK's own chat class, as useChat uses it, against the daemon.
import { Daemon, check as checked, dice, peer, proxy, same, until } from "./peer.mjs";

// A turn that is cut rejects a promise inside old clients, too.
process.on("unhandledRejection", () => {});

const config = `
[agents.numbers]
model = "understudy/numbered"

[agents.maps]
model = "understudy/persona"
[agents.maps.tools.map]
description = "Shows a map."
input = { type = "object", properties = { of = { type = "string" } }, required = ["of"] }
`;

const clients = [
  { name: "ai7", react: "react7", base: "/ai/7/chat" },
  { name: "ai7", react: "react7", base: "/ai/6/chat" },
  { name: "ai6", react: "react6", base: "/ai/6/chat" },
  { name: "ai6-old", react: "react6-old", base: "/ai/6/chat", isOld: true },
];

/** What stays of a message: what a page shows. */
const shown = (messages) =>
  messages.map(({ id, role, parts }) => ({
    id,
    role,
    parts: parts.map(({ type, text, state, toolName, toolCallId, input, output, errorText }) =>
      JSON.parse(JSON.stringify({ type, text, state, toolName, toolCallId, input, output, errorText })),
    ),
  }));

peer(["ai7", "ai6", "ai6-old"], "AI SDK");
let number = 0;
for (const client of clients) {
  const check = (name, body) => checked(`${client.name} at ${client.base}: ${name}`, body);
  const ai = await import(client.name);
  const { Chat } = await import(client.react);
  const daemon = await Daemon.start(config);

  /** A page: a chat of the SDK. */
  const open = ({ id = `chat-${client.name}-${number++}`, messages = [], url = daemon.url, agent, ...more } = {}) => {
    const page = { id, requests: 0, url };
    const body = agent ? { everturn: { chat: { agent } } } : {};
    const transport = new ai.DefaultChatTransport({
      api: `${url}${client.base}`,
      headers: daemon.headers,
      body,
      fetch: (...args) => {
        page.requests += 1;
        return fetch(...args);
      },
    });
    page.chat = new Chat({ id, messages, transport, onError: (error) => (page.error = error), ...more });
    return page;
  };
  const load = (id) => daemon.json(`${client.base}/${id}/messages`);
  /** The page is loaded again: what is stored, then what runs. */
  const reload = async (id, more = {}) => {
    const page = open({ id, messages: await load(id), ...more });
    await page.chat.resumeStream();
    return page;
  };
  const isEqual = async (page, about) => {
    same(page.chat.status, "ready", `${about} ${page.error}`);
    same(shown(page.chat.messages), shown(await load(page.id)), about);
  };
  const say = (page, text) => page.chat.sendMessage({ text });

  await check("A01 send: the messages are those that are stored", async () => {
    const page = open();
    await say(page, "hello");
    await isEqual(page, "hello");
    await say(page, "long");
    await isEqual(page, "long");
    if (ai.validateUIMessages) await ai.validateUIMessages({ messages: await load(page.id) });
  });

  await check("A13 a tool of the server: one request, with either helper set", async () => {
    for (const helper of ["lastAssistantMessageIsCompleteWithToolCalls", "lastAssistantMessageIsCompleteWithApprovalResponses"]) {
      if (!ai[helper]) continue;
      const page = open({ sendAutomaticallyWhen: ai[helper] });
      await say(page, "dice");
      await isEqual(page, helper);
      same(page.requests, 1, helper);
    }
  });

  await check("A09 A10 a tool of the client: one result, one continuation, the same message", async () => {
    for (const fails of [false, true]) {
      const page = open({ agent: "maps", sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls });
      await say(page, "Where is it?");
      const call = page.chat.messages.at(-1).parts.find((part) => part.type === "tool-map");
      same(call?.state, "input-available");
      const answer = fails ? { state: "output-error", errorText: "no map" } : { output: { near: ["kelp"] } };
      const add = page.chat.addToolOutput ?? page.chat.addToolResult;
      await add({ tool: "map", toolCallId: call.toolCallId, ...answer });
      await until("the turn is over", () => page.chat.status === "ready" && page.requests === 2);
      await isEqual(page, "after the result");
      same([page.chat.messages.length, page.requests], [2, 2]);
    }
  });

  if (ai.lastAssistantMessageIsCompleteWithApprovalResponses) {
    await check("A11 A12 an approval, also after a restart and a reload; a denial with a reason", async () => {
      for (const [approved, restarts] of [[true, false], [false, false], [true, true]]) {
        const sendAutomaticallyWhen = ai.lastAssistantMessageIsCompleteWithApprovalResponses;
        let page = open({ sendAutomaticallyWhen });
        await say(page, "note");
        await isEqual(page, "asked");
        if (restarts) {
          await daemon.end("SIGKILL");
          await daemon.again();
          page = await reload(page.id, { sendAutomaticallyWhen });
          same(page.chat.messages.length, 2);
        }
        const before = page.requests;
        const part = page.chat.messages.at(-1).parts.find((part) => part.state === "approval-requested");
        await page.chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: "because" });
        // The helper of older clients looks past tools of a server.
        if (client.isOld) await page.chat.sendMessage();
        await until("the turn is over", () => page.chat.status === "ready" && page.requests === before + 1);
        await isEqual(page, "answered");
        const { state } = page.chat.messages.at(-1).parts.find((it) => it.toolCallId === part.toolCallId);
        same([state, page.chat.messages.length], [approved ? "output-available" : "output-denied", 2]);
        same(page.requests, before + 1);
      }
    });
  }

  await check("A07 A08 stop() changes nothing here; the stop route keeps the partial reply", async () => {
    const page = open();
    const sent = say(page, "slow");
    await until("something is shown", () => page.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 20));
    await page.chat.stop();
    await sent;
    const loaded = await load(page.id);
    same(loaded.length, 1, "the turn goes on, and resuming brings it");
    const again = open({ id: page.id, messages: loaded });
    const resumed = again.chat.resumeStream();
    await until("it is shown again", () => again.chat.messages.at(-1)?.parts.some((part) => part.text?.length > 20));
    for (let round = 0; round < 3; round++) same(await daemon.json(`${client.base}/${page.id}/stop`, {}), { success: true });
    await resumed;
    await isEqual(again, "stopped");
    const answer = await fetch(`${daemon.url}${client.base}/${page.id}/stream`, { headers: daemon.headers });
    same(answer.status, 204);
  });

  await check("A14 regenerate, and an edit of an earlier message", async () => {
    const page = open({ agent: "numbers" });
    await say(page, "count to 3");
    await say(page, "count to 4");
    await page.chat.regenerate();
    await isEqual(page, "regenerated");
    const [first, reply] = page.chat.messages;
    await page.chat.regenerate({ messageId: reply.id });
    await isEqual(page, "an earlier reply");
    same(page.chat.messages.length, 2);
    await page.chat.sendMessage({ text: "count to 5", messageId: first.id });
    await isEqual(page, "edited");
    same([page.chat.messages.length, page.chat.messages[0].id], [2, first.id]);
  });

  await check("A02 A06 two pages: the same messages", async () => {
    const page = open({ agent: "numbers" });
    const sent = say(page, "count to 300");
    await until("something is shown", () => page.chat.messages.at(-1)?.role === "assistant");
    const [one, other] = await Promise.all([reload(page.id), reload(page.id)]);
    await sent;
    await isEqual(page, "the first");
    same(shown(one.chat.messages), shown(page.chat.messages));
    same(shown(other.chat.messages), shown(page.chat.messages));
  });

  await check("A15 an answer that breaks is one answer", async () => {
    const page = open();
    await say(page, "break");
    await isEqual(page, "broken and continued");
  });

  await check("A03 kill -9 in the middle, restart, reload: nothing twice, nothing missing", async () => {
    for (const after of [1, 60, 400]) {
      const page = open({ agent: "numbers" });
      const sent = say(page, "count to 400");
      await until("it is that far", () => page.chat.messages.length > 1 && (page.chat.messages[1].parts.at(-1)?.text?.length ?? 0) >= after);
      await daemon.end("SIGKILL");
      await sent;
      same(page.chat.status, "error", "a broken stream is no end");
      await daemon.again();
      const again = await reload(page.id);
      await isEqual(again, "after the restart");
      const words = Array.from({ length: 400 }, (_, at) => `t${at + 1}`).join(" ");
      same(again.chat.messages.at(-1).parts.filter((part) => part.type === "text").map((part) => part.text).join(""), words);
    }
  });

  await check("A04 a drain in the middle: the client sees a broken stream", async () => {
    const page = open({ agent: "numbers" });
    const sent = say(page, "count to 5000");
    await until("something is shown", () => page.chat.messages.at(-1)?.role === "assistant");
    await daemon.end("SIGTERM");
    await sent;
    same(page.chat.status, "error");
    await daemon.again();
    await isEqual(await reload(page.id), "after the drain");
  });

  await check("A05 turns through a proxy that cuts at random bytes: every page ends alike", async () => {
    const chance = dice(7);
    const flaky = await proxy(daemon, () => (chance(4) === 0 ? undefined : 200 + chance(9000)));
    for (let round = 0; round < (client === clients[0] ? 30 : 8); round++) {
      console.log("{}"); // A sign of life for the chore.
      const words = ["dice", "long", "break", "hello"][round % 4];
      let page = open({ url: flaky.url });
      await say(page, words);
      let reloads = 0;
      while (page.chat.status !== "ready") {
        if (reloads++ > 200) throw new Error("it never ends");
        const messages = await load(page.id);
        const isKnown = messages.length > 0; // Else the request was cut before it was stored, and the page sends again.
        page = open({ id: page.id, messages, url: flaky.url });
        await (isKnown ? page.chat.resumeStream() : say(page, words));
        if (isKnown && page.chat.status === "ready") page.chat.messages = await load(page.id);
      }
      await isEqual(page, words);
      same(page.chat.messages.length, 2, words);
    }
    await flaky.close();
  });

  await daemon.end("SIGTERM");
}
process.exit(0);
