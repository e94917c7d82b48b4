"""The official Anthropic SDK reads what the understudy streams as Anthropic."""

import anthropic

from peer import KEY, RESULTS, SCENES, TOOLS, URL, check, peer, raises, same

client = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
STOPS = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "filtered": "refusal"}
tools = [{"name": name, "input_schema": schema} for name, schema in TOOLS.items()]


def ask(model, messages=None, **more):
    messages = messages or [{"role": "user", "content": "hi"}]
    with client.messages.stream(model=model, max_tokens=2000, messages=messages, tools=tools, **more) as stream:
        return stream.get_final_message()


def matches(message, scene):
    kinds = {kind: [block for block in message.content if block.type == kind] for kind in ("text", "thinking", "tool_use")}
    same("".join(block.text for block in kinds["text"]), scene["text"])
    same("".join(block.thinking for block in kinds["thinking"]), scene["reasoning"])
    same([{"tool": block.name, "input": block.input} for block in kinds["tool_use"]], scene["calls"])
    same(message.stop_reason, STOPS[scene["stop"]])
    usage, expected = message.usage, scene["usage"]
    same((usage.input_tokens, usage.output_tokens), (expected["input"], expected["output"]))
    same(usage.cache_read_input_tokens, expected["cache_read"])


peer("anthropic")
for name, scene in SCENES.items():
    with check(f"stream: {name}"):
        matches(ask(name), scene)
    with check(f"whole: {name}"):
        said = [{"role": "user", "content": "hi"}]
        matches(client.messages.create(model=name, max_tokens=2000, messages=said), scene)

with check("calls are answered"):
    asked = ask("calls")
    answers = [
        {"type": "tool_result", "tool_use_id": block.id, "content": RESULTS[block.name]}
        for block in asked.content
        if block.type == "tool_use"
    ]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": asked.content},
        {"role": "user", "content": answers},
    ]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    matches(ask("text", messages, thinking=thinking), SCENES["text"])

with check("429 is a RateLimitError"), raises(anthropic.RateLimitError, 429):
    ask("text-faults:429@7")
with check("529 is an error of the server"), raises(anthropic.InternalServerError, 529):
    ask("text-faults:529")
with check("400 is a BadRequestError"), raises(anthropic.BadRequestError, 400):
    ask("text", [{"role": "assistant", "content": ""}])
with check("401 is an AuthenticationError"), raises(anthropic.AuthenticationError, 401):
    anthropic.Anthropic(base_url=URL, api_key="wrong", max_retries=0).models.list()
with check("an error in the stream is an APIStatusError"):
    try:
        ask("long-faults:error@5")
    except anthropic.APIStatusError as error:
        same(error.body["error"]["type"], "overloaded_error")
    else:
        raise AssertionError("no error")
