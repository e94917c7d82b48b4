// The official Anthropic SDK reads what the understudy streams as Anthropic.
import Anthropic from "@anthropic-ai/sdk";
import { KEY, RESULTS, SCENES, TOOLS, URL, check, peer, same, throws } from "./peer.mjs";

const client = new Anthropic({ baseURL: URL, apiKey: KEY, maxRetries: 0 });
const STOPS = { end: "end_turn", calls: "tool_use", length: "max_tokens", filtered: "refusal" };
const tools = Object.entries(TOOLS).map(([name, input_schema]) => ({ name, input_schema }));
const hi = [{ role: "user", content: "hi" }];

const ask = (model, messages = hi, more = {}) =>
  client.messages.stream({ model, max_tokens: 2000, messages, tools, ...more }).finalMessage();

function matches(message, scene) {
  const of = (kind) => message.content.filter((block) => block.type === kind);
  same(of("text").map((block) => block.text).join(""), scene.text);
  same(of("thinking").map((block) => block.thinking).join(""), scene.reasoning);
  same(of("tool_use").map(({ name, input }) => ({ tool: name, input })), scene.calls);
  same(message.stop_reason, STOPS[scene.stop]);
  const { input_tokens, output_tokens, cache_read_input_tokens } = message.usage;
  same([input_tokens, output_tokens], [scene.usage.input, scene.usage.output]);
  same(cache_read_input_tokens, scene.usage.cache_read);
}

peer("@anthropic-ai/sdk");
for (const [name, scene] of Object.entries(SCENES)) {
  await check(`stream: ${name}`, async () => matches(await ask(name), scene));
  await check(`whole: ${name}`, async () =>
    matches(await client.messages.create({ model: name, max_tokens: 2000, messages: hi }), scene));
}

await check("calls are answered", async () => {
  const asked = await ask("calls");
  const results = asked.content
    .filter((block) => block.type === "tool_use")
    .map((block) => ({ type: "tool_result", tool_use_id: block.id, content: RESULTS[block.name] }));
  const messages = [...hi, { role: "assistant", content: asked.content }, { role: "user", content: results }];
  const thinking = { type: "enabled", budget_tokens: 1024 };
  matches(await ask("text", messages, { thinking }), SCENES.text);
});

await check("429 is a RateLimitError", () => throws(Anthropic.RateLimitError, 429, () => ask("text-faults:429@7")));
await check("529 is an InternalServerError", () =>
  throws(Anthropic.InternalServerError, 529, () => ask("text-faults:529")));
await check("400 is a BadRequestError", () =>
  throws(Anthropic.BadRequestError, 400, () => ask("text", [{ role: "assistant", content: "" }])));
await check("401 is an AuthenticationError", () =>
  throws(Anthropic.AuthenticationError, 401, () =>
    new Anthropic({ baseURL: URL, apiKey: "wrong", maxRetries: 0 }).models.list()));
await check("an error in the stream is an APIError", async () => {
  const error = await ask("long-faults:error@5").then(() => null, (error) => error);
  same(error instanceof Anthropic.APIError, true);
  same(error.type, "overloaded_error");
});
