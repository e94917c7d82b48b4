"""The official Google SDK reads what the understudy streams as Gemini."""

import json

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


# --- Interactions

tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in TOOLS.items()]
STATUSES = {"end": "completed", "calls": "requires_action", "length": "incomplete", "filtered": "failed"}


def interact(model, said="hi", **more):
    return client.interactions.create(model=model, input=said, tools=tools, **more)


def matches_steps(interaction, scene):
    steps = {kind: [step for step in interaction.steps or [] if step.type == kind] for kind in STEPS}
    same("".join(part.text for step in steps["model_output"] for part in step.content), scene["text"])
    same("".join(part.text for step in steps["thought"] for part in step.summary or []), scene["reasoning"])
    same([{"tool": step.name, "input": step.arguments} for step in steps["function_call"]], scene["calls"])
    same(interaction.status, STATUSES[scene["stop"]])
    matches_usage(interaction.usage, scene)


STEPS = ("model_output", "thought", "function_call")


def matches_usage(usage, scene):
    seen = {
        "input": usage.total_input_tokens - usage.total_cached_tokens,
        "cache_read": usage.total_cached_tokens,
        "output": usage.total_output_tokens + usage.total_thought_tokens,
        "reasoning": usage.total_thought_tokens,
    }
    same(seen, scene["usage"])


def matches_events(events, scene):
    deltas = [event.delta for event in events if event.event_type == "step.delta"]
    same("".join(delta.text for delta in deltas if delta.type == "text"), scene["text"])
    same("".join(delta.content.text for delta in deltas if delta.type == "thought_summary"), scene["reasoning"])
    begun = [event for event in events if event.event_type == "step.start" and event.step.type == "function_call"]
    pieces = lambda index: [
        event.delta.arguments
        for event in events
        if event.event_type == "step.delta" and event.index == index and event.delta.type == "arguments_delta"
    ]
    calls = [{"tool": event.step.name, "input": json.loads("".join(pieces(event.index)))} for event in begun]
    same(calls, scene["calls"])
    last = [event for event in events if event.event_type == "interaction.completed"][-1]
    same(last.interaction.status, STATUSES[scene["stop"]])
    matches_usage(last.interaction.usage, scene)


for name, scene in SCENES.items():
    with check(f"interactions, stream: {name}"):
        matches_events(list(interact(name, stream=True)), scene)
    with check(f"interactions, whole: {name}"):
        matches_steps(interact(name), scene)

with check("interactions, calls are answered"):
    asked = interact("calls")
    said = [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}]
    said += [step.model_dump(exclude_none=True) for step in asked.steps]
    for step in asked.steps:
        if step.type == "function_call":
            said.append({"type": "function_result", "call_id": step.id, "name": step.name, "result": RESULTS[step.name]})
    matches_steps(interact("text", said), SCENES["text"])

with check("interactions, background: read on after an event"):
    seen = list(interact("long-faults:cut@9", stream=True, background=True, store=True))
    id = seen[0].interaction.id
    rest = list(client.interactions.get(id, stream=True, last_event_id=seen[-1].event_id))
    matches_events(seen + rest, SCENES["long"])
    matches_steps(client.interactions.get(id), SCENES["long"])

with check("interactions, background: cancel"):
    begun = interact("long-faults:slow@50", background=True, store=True)
    same(begun.status, "in_progress")
    same(client.interactions.cancel(begun.id).status, "cancelled")
