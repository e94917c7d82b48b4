"""The official Google SDK reads what the understudy streams as Gemini."""

from google import genai
from google.genai import errors, types

from peer import KEY, RESULTS, SCENES, TOOLS, URL, check, peer, raises, same


def client_with(key):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=URL))


client, stranger = client_with(KEY), client_with("wrong")
declared = [{"name": name, "parameters": schema} for name, schema in TOOLS.items()]
config = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=declared)],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
STOPS = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "filtered": "SAFETY"}


def stream(model, said="hi", by=client):
    return list(by.models.generate_content_stream(model=model, contents=said, config=config))


def parts(responses):
    found = [response.candidates[0].content for response in responses if response.candidates]
    return [part for content in found if content for part in content.parts or []]


def matches(responses, scene):
    all_parts, last = parts(responses), responses[-1]
    same("".join(part.text for part in all_parts if part.text and not part.thought), scene["text"])
    same("".join(part.text for part in all_parts if part.text and part.thought), scene["reasoning"])
    calls = [part.function_call for part in all_parts if part.function_call]
    same([{"tool": call.name, "input": call.args or {}} for call in calls], scene["calls"])
    same(last.candidates[0].finish_reason, types.FinishReason(STOPS[scene["stop"]]))
    usage, cached = last.usage_metadata, last.usage_metadata.cached_content_token_count or 0
    thoughts = usage.thoughts_token_count or 0
    seen = {
        "input": usage.prompt_token_count - cached,
        "cache_read": cached,
        "output": usage.candidates_token_count + thoughts,
        "reasoning": thoughts,
    }
    same(seen, scene["usage"])


peer("google-genai")
for name, scene in SCENES.items():
    with check(f"stream: {name}"):
        matches(stream(name), scene)
    with check(f"whole: {name}"):
        matches([client.models.generate_content(model=name, contents="hi", config=config)], scene)

with check("calls are answered"):
    asked = parts(stream("calls"))
    answers = [
        types.Part.from_function_response(name=part.function_call.name, response={"output": RESULTS[part.function_call.name]})
        for part in asked
        if part.function_call
    ]
    said = [
        types.Content(role="user", parts=[types.Part(text="hi")]),
        types.Content(role="model", parts=asked),
        types.Content(role="user", parts=answers),
    ]
    matches(stream("text", said), SCENES["text"])

with check("429 is a ClientError"), raises(errors.ClientError, 429):
    stream("text-faults:429@7")
with check("503 is a ServerError"), raises(errors.ServerError, 503):
    stream("text-faults:503")
with check("400 is a ClientError"), raises(errors.ClientError, 400):
    stream("text", [types.Content(role="nobody", parts=[types.Part(text="hi")])])
with check("a wrong key is a ClientError"), raises(errors.ClientError, 400):
    stream("text", by=stranger)
