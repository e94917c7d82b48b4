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
