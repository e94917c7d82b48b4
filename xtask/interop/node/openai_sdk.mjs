// The official OpenAI SDK reads what the understudy streams as Responses and as Chat Completions.
import OpenAI from "openai";
import { KEY, RESULTS, SCENES, TOOLS, URL, all, check, peer, same, throws } from "./peer.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: KEY, maxRetries: 0 });
const stranger = new OpenAI({ baseURL: `${URL}/v1`, apiKey: "wrong", maxRetries: 0 });
const tools = Object.entries(TOOLS).map(([name, parameters]) => ({ type: "function", name, parameters, strict: false }));
const chatTools = Object.entries(TOOLS).map(([name, parameters]) => ({ type: "function", function: { name, parameters } }));
const include = ["reasoning.encrypted_content"];

const spent = (prompt, cached, output, reasoning) => ({ input: prompt - cached, cache_read: cached, output, reasoning });

// --- Responses

function matches(response, scene) {
  const of = (kind) => response.output.filter((item) => item.type === kind);
  const texts = of("message").flatMap((item) => item.content.map((part) => part.text ?? ""));
  same(texts.join(""), scene.text);
  same(of("reasoning").flatMap((item) => item.summary.map((part) => part.text)).join(""), scene.reasoning);
  same(of("function_call").map((call) => ({ tool: call.name, input: JSON.parse(call.arguments) })), scene.calls);
  const { input_tokens, output_tokens, input_tokens_details, output_tokens_details } = response.usage;
  same(
    spent(input_tokens, input_tokens_details.cached_tokens, output_tokens, output_tokens_details.reasoning_tokens),
    scene.usage,
  );
  const reason = { length: "max_output_tokens", filtered: "content_filter" }[scene.stop];
  same(response.incomplete_details?.reason, reason);
}

const last = (events) => events.at(-1).response;
const outputs = (response) =>
  response.output
    .filter((item) => item.type === "function_call")
    .map((call) => ({ type: "function_call_output", call_id: call.call_id, output: RESULTS[call.name] }));

peer("openai");
for (const [name, scene] of Object.entries(SCENES)) {
  await check(`responses, stream: ${name}`, async () =>
    matches(last(await all(await client.responses.create({ model: name, input: "hi", stream: true, tools, include }))), scene));
  await check(`responses, whole: ${name}`, async () =>
    matches(await client.responses.create({ model: name, input: "hi" }), scene));
}
for (const name of ["text", "long", "thought", "calls"]) {
  await check(`responses, helper: ${name}`, async () =>
    matches(await client.responses.stream({ model: name, input: "hi", tools }).finalResponse(), SCENES[name]));
}

await check("responses, calls are answered", async () => {
  const asked = await client.responses.create({ model: "calls", input: "hi", tools, include, store: false });
  const input = [{ role: "user", content: "hi" }, ...asked.output, ...outputs(asked)];
  matches(await client.responses.create({ model: "text", input, tools, store: false }), SCENES.text);
});

await check("responses, background: read on after an event", async () => {
  const params = { model: "long-faults:cut@9", input: "hi", stream: true, background: true, store: true };
  const seen = await all(await client.responses.create(params));
  const { id } = seen[0].response;
  const rest = await all(
    await client.responses.retrieve(id, { stream: true, starting_after: seen.at(-1).sequence_number }),
  );
  const events = [...seen, ...rest];
  same(events.map((event) => event.sequence_number), events.map((_, at) => at));
  const deltas = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
  same(deltas.join(""), SCENES.long.text);
  const kept = await client.responses.retrieve(id);
  same(kept.status, "completed");
  matches(kept, SCENES.long);
});

await check("responses, background: cancel", async () => {
  const begun = await client.responses.create({ model: "long-faults:slow@50", input: "hi", background: true, store: true });
  same(["queued", "in_progress"].includes(begun.status), true);
  same((await client.responses.cancel(begun.id)).status, "cancelled");
});

// --- Chat Completions

const messages = [{ role: "user", content: "hi" }];
const STOPS = { end: "stop", calls: "tool_calls", length: "length", filtered: "content_filter" };

function matchesChat(completion, scene) {
  const [{ message, finish_reason }] = completion.choices;
  const calls = (message.tool_calls ?? []).map(({ function: { name, arguments: json } }) => ({ tool: name, input: JSON.parse(json) }));
  same(message.content ?? "", scene.text);
  same(calls, scene.calls);
  same(finish_reason, STOPS[scene.stop]);
  const { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } = completion.usage;
  same(
    spent(prompt_tokens, prompt_tokens_details.cached_tokens, completion_tokens, completion_tokens_details.reasoning_tokens),
    scene.usage,
  );
}

for (const [name, scene] of Object.entries(SCENES)) {
  await check(`chat, stream: ${name}`, async () => {
    const events = await all(await client.chat.completions.create({ model: name, messages, stream: true }));
    const deltas = events.flatMap((event) => event.choices.map((choice) => choice.delta));
    same(deltas.map((delta) => delta.content ?? "").join(""), scene.text);
    same(deltas.map((delta) => delta.reasoning_content ?? "").join(""), scene.reasoning);
  });
  await check(`chat, whole: ${name}`, async () =>
    matchesChat(await client.chat.completions.create({ model: name, messages }), scene));
}
for (const name of ["text", "long", "thought", "calls"]) {
  await check(`chat, helper: ${name}`, async () => {
    const params = { model: name, messages, tools: chatTools, stream_options: { include_usage: true } };
    matchesChat(await client.chat.completions.stream(params).finalChatCompletion(), SCENES[name]);
  });
}

await check("chat, calls are answered", async () => {
  const { message } = (await client.chat.completions.create({ model: "calls", messages, tools: chatTools })).choices[0];
  const results = message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: RESULTS[call.function.name] }));
  const said = [...messages, message, ...results];
  matchesChat(await client.chat.completions.create({ model: "text", messages: said, tools: chatTools }), SCENES.text);
});

// --- Errors

const wires = {
  responses: async (by, model, input = "hi") => all(await by.responses.create({ model, input, stream: true })),
  chat: async (by, model, said = messages) =>
    all(await by.chat.completions.create({ model, messages: said, stream: true })),
};
const nobody = [{ role: "nobody", content: "hi" }];
for (const [wire, ask] of Object.entries(wires)) {
  await check(`${wire}, 429 is a RateLimitError`, () =>
    throws(OpenAI.RateLimitError, 429, () => ask(client, "text-faults:429@7")));
  await check(`${wire}, 503 is an InternalServerError`, () =>
    throws(OpenAI.InternalServerError, 503, () => ask(client, "text-faults:503")));
  await check(`${wire}, 400 is a BadRequestError`, () =>
    throws(OpenAI.BadRequestError, 400, () => ask(client, "text", nobody)));
  await check(`${wire}, 401 is an AuthenticationError`, () =>
    throws(OpenAI.AuthenticationError, 401, () => ask(stranger, "text")));
}
await check("chat, an error in the stream is an APIError", async () => {
  const error = await wires.chat(client, "long-faults:error@5").then(() => null, (error) => error);
  same(error instanceof OpenAI.APIError, true);
});
