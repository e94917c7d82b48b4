// The official Google SDK reads what the understudy streams as Gemini.
import { ApiError, GoogleGenAI } from "@google/genai";
import { KEY, RESULTS, SCENES, TOOLS, URL, all, check, peer, same, throws } from "./peer.mjs";

const clientWith = (apiKey) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: URL } });
const [client, stranger] = [clientWith(KEY), clientWith("wrong")];
const functionDeclarations = Object.entries(TOOLS).map(([name, parameters]) => ({ name, parameters }));
const config = { tools: [{ functionDeclarations }] };
const STOPS = { end: "STOP", calls: "STOP", length: "MAX_TOKENS", filtered: "SAFETY" };

const stream = async (model, contents = "hi", by = client) =>
  all(await by.models.generateContentStream({ model, contents, config }));
const parts = (responses) => responses.flatMap((response) => response.candidates?.[0]?.content?.parts ?? []);

function matches(responses, scene) {
  const found = parts(responses);
  const texts = (isThought) => found.filter((part) => part.text && Boolean(part.thought) === isThought).map((part) => part.text);
  same(texts(false).join(""), scene.text);
  same(texts(true).join(""), scene.reasoning);
  const calls = found.filter((part) => part.functionCall).map(({ functionCall: { name, args } }) => ({ tool: name, input: args ?? {} }));
  same(calls, scene.calls);
  const { candidates, usageMetadata: usage } = responses.at(-1);
  same(candidates[0].finishReason, STOPS[scene.stop]);
  const [cached, thoughts] = [usage.cachedContentTokenCount ?? 0, usage.thoughtsTokenCount ?? 0];
  const seen = {
    input: usage.promptTokenCount - cached,
    cache_read: cached,
    output: usage.candidatesTokenCount + thoughts,
    reasoning: thoughts,
  };
  same(seen, scene.usage);
}

peer("@google/genai");
for (const [name, scene] of Object.entries(SCENES)) {
  await check(`stream: ${name}`, async () => matches(await stream(name), scene));
  await check(`whole: ${name}`, async () =>
    matches([await client.models.generateContent({ model: name, contents: "hi", config })], scene));
}

await check("calls are answered", async () => {
  const asked = parts(await stream("calls"));
  const results = asked
    .filter((part) => part.functionCall)
    .map(({ functionCall: { name } }) => ({ functionResponse: { name, response: { output: RESULTS[name] } } }));
  const said = [
    { role: "user", parts: [{ text: "hi" }] },
    { role: "model", parts: asked },
    { role: "user", parts: results },
  ];
  matches(await stream("text", said), SCENES.text);
});

await check("429 is an ApiError", () => throws(ApiError, 429, () => stream("text-faults:429@7")));
await check("503 is an ApiError", () => throws(ApiError, 503, () => stream("text-faults:503")));
await check("400 is an ApiError", () =>
  throws(ApiError, 400, () => stream("text", [{ role: "nobody", parts: [{ text: "hi" }] }])));
await check("a wrong key is an ApiError", () => throws(ApiError, 400, () => stream("text", "hi", stranger)));

// --- Interactions

const tools = Object.entries(TOOLS).map(([name, parameters]) => ({ type: "function", name, parameters }));
const STATUSES = { end: "completed", calls: "requires_action", length: "incomplete", filtered: "failed" };

// Its own loop for what is requires_continuation is left out: the checks see every event as it comes.
const interact = (model, input = "hi", more = {}) => client.interactions.create({ model, input, tools, ...more });

function matchesUsage(usage, scene) {
  const seen = {
    input: usage.total_input_tokens - usage.total_cached_tokens,
    cache_read: usage.total_cached_tokens,
    output: usage.total_output_tokens + usage.total_thought_tokens,
    reasoning: usage.total_thought_tokens,
  };
  same(seen, scene.usage);
}

function matchesSteps(interaction, scene) {
  const of = (kind) => (interaction.steps ?? []).filter((step) => step.type === kind);
  same(of("model_output").flatMap((step) => step.content.map((part) => part.text)).join(""), scene.text);
  same(of("thought").flatMap((step) => (step.summary ?? []).map((part) => part.text)).join(""), scene.reasoning);
  same(of("function_call").map((step) => ({ tool: step.name, input: step.arguments })), scene.calls);
  same(interaction.status, STATUSES[scene.stop]);
  matchesUsage(interaction.usage, scene);
}

function matchesEvents(events, scene) {
  const grown = events.filter((event) => event.event_type === "step.delta");
  const of = (kind) => grown.filter((event) => event.delta.type === kind);
  same(of("text").map((event) => event.delta.text).join(""), scene.text);
  same(of("thought_summary").map((event) => event.delta.content.text).join(""), scene.reasoning);
  const begun = events.filter((event) => event.event_type === "step.start" && event.step.type === "function_call");
  const json = (index) => of("arguments_delta").filter((event) => event.index === index).map((event) => event.delta.arguments).join("");
  same(begun.map((event) => ({ tool: event.step.name, input: JSON.parse(json(event.index)) })), scene.calls);
  const last = events.findLast((event) => event.event_type === "interaction.completed");
  same(last.interaction.status, STATUSES[scene.stop]);
  matchesUsage(last.interaction.usage, scene);
}

for (const [name, scene] of Object.entries(SCENES)) {
  await check(`interactions, stream: ${name}`, async () =>
    matchesEvents(await all(await interact(name, "hi", { stream: true })), scene));
  await check(`interactions, whole: ${name}`, async () => matchesSteps(await interact(name), scene));
}

await check("interactions, calls are answered", async () => {
  const { steps } = await interact("calls");
  const results = steps
    .filter((step) => step.type === "function_call")
    .map(({ id, name }) => ({ type: "function_result", call_id: id, name, result: RESULTS[name] }));
  const said = [{ type: "user_input", content: [{ type: "text", text: "hi" }] }, ...steps, ...results];
  matchesSteps(await interact("text", said), SCENES.text);
});

await check("interactions, background: read on after an event", async () => {
  const seen = await all(await interact("long-faults:cut@9", "hi", { stream: true, background: true, store: true }));
  const { id } = seen[0].interaction;
  const rest = await all(await client.interactions.get(id, { stream: true, last_event_id: seen.at(-1).event_id }));
  matchesEvents([...seen, ...rest], SCENES.long);
  matchesSteps(await client.interactions.get(id), SCENES.long);
});

await check("interactions, background: cancel", async () => {
  const begun = await interact("long-faults:slow@50", "hi", { background: true, store: true });
  same(begun.status, "in_progress");
  same((await client.interactions.cancel(begun.id)).status, "cancelled");
});
