"""The official OpenAI SDK reads what the understudy streams as Responses and as Chat Completions."""

import json

import openai

from peer import KEY, RESULTS, SCENES, TOOLS, URL, check, peer, raises, same

client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
stranger = openai.OpenAI(base_url=f"{URL}/v1", api_key="wrong", max_retries=0)
tools = [{"type": "function", "name": name, "parameters": schema} for name, schema in TOOLS.items()]
chat_tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in TOOLS.items()]
SEALS = ["reasoning.encrypted_content"]


def spent(prompt, cached, output, reasoning):
    return {"input": prompt - cached, "cache_read": cached, "output": output, "reasoning": reasoning}


# --- Responses


def matches(response, scene):
    calls = [item for item in response.output if item.type == "function_call"]
    thoughts = [item for item in response.output if item.type == "reasoning"]
    same(response.output_text, scene["text"])
    same("".join(part.text for item in thoughts for part in item.summary), scene["reasoning"])
    same([{"tool": call.name, "input": json.loads(call.arguments)} for call in calls], scene["calls"])
    usage = response.usage
    cached, reasoning = usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens
    same(spent(usage.input_tokens, cached, usage.output_tokens, reasoning), scene["usage"])
    reason = {"length": "max_output_tokens", "filtered": "content_filter"}.get(scene["stop"])
    same(response.incomplete_details and response.incomplete_details.reason, reason)


def last_response(events):
    return list(events)[-1].response


peer("openai")
for name, scene in SCENES.items():
    with check(f"responses, stream: {name}"):
        events = client.responses.create(model=name, input="hi", stream=True, tools=tools, include=SEALS)
        matches(last_response(events), scene)
    with check(f"responses, whole: {name}"):
        matches(client.responses.create(model=name, input="hi"), scene)
for name in ("text", "long", "thought", "calls"):
    with check(f"responses, helper: {name}"):
        with client.responses.stream(model=name, input="hi", tools=tools) as stream:
            matches(stream.get_final_response(), SCENES[name])

with check("responses, calls are answered"):
    asked = client.responses.create(model="calls", input="hi", tools=tools, include=SEALS, store=False)
    said = [{"role": "user", "content": "hi"}, *asked.output]
    for call in asked.output:
        if call.type == "function_call":
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.name]})
    matches(client.responses.create(model="text", input=said, tools=tools, store=False), SCENES["text"])

with check("responses, calls are answered upon a kept response"):
    asked = client.responses.create(model="calls", input="hi", tools=tools, stream=True, store=True)
    asked = last_response(asked)
    said = [
        {"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.name]}
        for call in asked.output
        if call.type == "function_call"
    ]
    more = client.responses.create(model="text", input=said, tools=tools, previous_response_id=asked.id)
    matches(more, SCENES["text"])

with check("responses, background: read on after an event"):
    stream = client.responses.create(model="long-faults:cut@9", input="hi", stream=True, background=True, store=True)
    seen = list(stream)
    same([event.sequence_number for event in seen], list(range(9)))
    first, last = seen[0].response.id, seen[-1].sequence_number
    rest = list(client.responses.retrieve(first, stream=True, starting_after=last))
    numbers = [event.sequence_number for event in seen + rest]
    same(numbers, list(range(len(numbers))))
    deltas = [event.delta for event in seen + rest if event.type == "response.output_text.delta"]
    same("".join(deltas), SCENES["long"]["text"])
    matches(rest[-1].response, SCENES["long"])
    kept = client.responses.retrieve(first)
    same(kept.status, "completed")
    matches(kept, SCENES["long"])

with check("responses, background: cancel"):
    begun = client.responses.create(model="long-faults:slow@50", input="hi", background=True, store=True)
    assert begun.status in ("queued", "in_progress"), begun.status
    same(client.responses.cancel(begun.id).status, "cancelled")
    same(client.responses.retrieve(begun.id).status, "cancelled")


# --- Chat Completions


def matches_chat(completion, scene):
    choice, usage = completion.choices[0], completion.usage
    calls = choice.message.tool_calls or []
    same(choice.message.content or "", scene["text"])
    same([{"tool": call.function.name, "input": json.loads(call.function.arguments)} for call in calls], scene["calls"])
    stops = {"end": "stop", "calls": "tool_calls", "length": "length", "filtered": "content_filter"}
    same(choice.finish_reason, stops[scene["stop"]])
    cached, reasoning = usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens
    same(spent(usage.prompt_tokens, cached, usage.completion_tokens, reasoning), scene["usage"])


hi = [{"role": "user", "content": "hi"}]
for name, scene in SCENES.items():
    with check(f"chat, stream: {name}"):
        text, thought, usage = "", "", None
        options = {"include_usage": True}
        for chunk in client.chat.completions.create(model=name, messages=hi, stream=True, stream_options=options):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thought += getattr(choice.delta, "reasoning_content", None) or ""
        same((text, thought), (scene["text"], scene["reasoning"]))
        cached, reasoning = usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens
        same(spent(usage.prompt_tokens, cached, usage.completion_tokens, reasoning), scene["usage"])
    with check(f"chat, whole: {name}"):
        matches_chat(client.chat.completions.create(model=name, messages=hi), scene)
for name in ("text", "long", "thought", "calls"):
    with check(f"chat, helper: {name}"):
        options = {"include_usage": True}
        with client.chat.completions.stream(model=name, messages=hi, tools=chat_tools, stream_options=options) as stream:
            matches_chat(stream.get_final_completion(), SCENES[name])

with check("chat, calls are answered"):
    asked = client.chat.completions.create(model="calls", messages=hi, tools=chat_tools).choices[0].message
    said = [*hi, asked]
    for call in asked.tool_calls:
        said.append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]})
    matches_chat(client.chat.completions.create(model="text", messages=said, tools=chat_tools), SCENES["text"])


# --- Errors

wires = {
    "responses": lambda client, model, said="hi": list(client.responses.create(model=model, input=said, stream=True)),
    "chat": lambda client, model, said=hi: list(
        client.chat.completions.create(model=model, messages=said, stream=True)
    ),
}
for wire, ask in wires.items():
    with check(f"{wire}, 429 is a RateLimitError"), raises(openai.RateLimitError, 429):
        ask(client, "text-faults:429@7")
    with check(f"{wire}, 503 is an InternalServerError"), raises(openai.InternalServerError, 503):
        ask(client, "text-faults:503")
    with check(f"{wire}, 400 is a BadRequestError"), raises(openai.BadRequestError, 400):
        ask(client, "text", [{"role": "nobody", "content": "hi"}])
    with check(f"{wire}, 401 is an AuthenticationError"), raises(openai.AuthenticationError, 401):
        ask(stranger, "text")
with check("chat, an error in the stream is an APIError"):
    try:
        wires["chat"](client, "long-faults:error@5")
    except openai.APIError:
        pass
    else:
        raise AssertionError("no error")
