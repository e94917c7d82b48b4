//! Chat Completions.

use everturn::core::error::{Cause, ErrorKind};
use everturn::core::message::Stop;
use everturn::core::prompt::{Effort, OutputFormat, ToolChoice};
use everturn_understudy::{begin_call, call, cut, fail, hang, reasoning, script, stop, text, usage, words};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{COMPLETIONS, MODEL, asks, hear, plays, says, streamed};
use crate::stage::{Stage, answer};

fn tool(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!({"type": "function", "function": {"name": name, "description": "Reads.", "parameters": parameters}})
}

/// FC01: thinking, text, a call and usage, as a stream and whole; the call is the client's.
#[tokio::test]
async fn an_answer_is_the_same_as_a_stream_and_whole() {
    let played = || {
        let thought = [reasoning("Let me "), reasoning("see."), text("I look "), text("at it.")];
        let acts = [call("read_file", json!({"path": "a.txt"})), usage(40, 9), stop(Stop::ToolUse)];
        script(thought.into_iter().chain(acts))
    };
    let understudy = plays([played(), played()]);
    let stage = Stage::playing(&understudy).await;
    let mut body = asks("Look.");
    body["tools"] = json!([tool("read_file")]);
    body["stream_options"] = json!({"include_usage": true});
    let (status, whole) = answer(stage.completion(&body).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{whole}");
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "I look at it.");
    assert_eq!(message["reasoning_content"], "Let me see.");
    assert_eq!(message["tool_calls"][0]["function"], json!({"name": "read_file", "arguments": r#"{"path":"a.txt"}"#}));
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole["usage"]["prompt_tokens"], 40);
    assert_eq!(whole["usage"]["completion_tokens"], 9);
    let heard = hear(stage.completion(&streamed(body)).send().await.unwrap()).await;
    assert_eq!(heard.chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("I look at it.", "Let me see."));
    assert_eq!(heard.calls.len(), 1, "a call comes whole");
    assert_eq!(heard.calls[0]["function"]["arguments"], r#"{"path":"a.txt"}"#);
    assert_eq!((heard.calls[0]["index"].as_u64(), heard.finish.as_deref()), (Some(0), Some("tool_calls")));
    let last = heard.chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
    assert!(heard.is_done && !heard.is_broken);
    assert!(heard.chunks.iter().all(|chunk| chunk["id"] == heard.id()), "one id");
    assert_ne!(heard.id(), whole["id"], "a whole answer is not told again to a client that asks anew");
    assert_eq!(understudy.requests().len(), 2);
    stage.server.stop().await;
}

/// FC16, FC17: the conversation goes on where the client says, with the results of its tools, and everything that it sets is sent.
#[tokio::test]
async fn settings_and_results_reach_the_model() {
    let understudy = plays([says("Done.")]);
    let stage = Stage::playing(&understudy).await;
    let body = json!({
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Use the tool."},
            {"role": "user", "content": [{"type": "text", "text": "Read it."}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"a\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"b\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "B"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "A"},
        ],
        "tools": [tool("read_file")],
        "tool_choice": "none",
        "parallel_tool_calls": false,
        "temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["END"],
        "max_completion_tokens": 100, "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": {"type": "object"}, "strict": true}},
        "user": "u", "store": false, "n": 1, "frequency_penalty": 0,
    });
    let (status, whole) = answer(stage.completion(&body).send().await.unwrap()).await;
    assert_eq!((status, &whole["choices"][0]["message"]["content"]), (StatusCode::OK, &json!("Done.")), "{whole}");
    let asked = understudy.requests().remove(0);
    assert_eq!(asked.system, ["Be brief.", "Use the tool."]);
    assert_eq!(asked.tools.len(), 1);
    assert_eq!(asked.tool_choice, ToolChoice::None);
    assert_eq!((asked.parallel_calls, asked.max_output), (Some(false), 100));
    assert_eq!(asked.effort, Some(Effort::Low));
    assert_eq!((asked.sampling.temperature, asked.sampling.stop.len()), (Some(0.5), 1));
    assert!(
        matches!(&asked.format, OutputFormat::Schema(schema) if schema.name == "it" && schema.strict == Some(true))
    );
    let shown = format!("{:?}", asked.entries);
    assert!(shown.contains("\"A\"") && shown.contains("\"B\""), "{shown}");
    let (status, chats) = stage.get("/v1/chats").await;
    assert_eq!((status, chats["chats"].as_array().map(Vec::len)), (StatusCode::OK, Some(0)), "{chats}");
    stage.server.stop().await;
}

/// FC13: what cannot be met is refused with the field named, in OpenAI's envelope.
#[tokio::test]
async fn what_cannot_be_met_is_refused_by_name() {
    let understudy = plays([]);
    let stage = Stage::playing(&understudy).await;
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    for (change, field) in [
        (json!({"n": 2}), "n"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "oracle", "content": "x"}]}), "messages[0]"),
        (json!({"messages": user(json!([{"type": "video", "video": "x"}]))}), "messages[0]"),
        (
            json!({"messages": user(json!([{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]))}),
            "messages[0]",
        ),
        (
            json!({"messages": user(json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}]))}),
            "messages[0]",
        ),
        (json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}), "messages"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"frequency_penalty": 0.5}), "frequency_penalty"),
        (json!({"temperature": 3}), "temperature"),
        (json!({"tools": [{"type": "custom", "custom": {"name": "x"}}]}), "tools[0].type"),
        (json!({"tool_choice": "maybe"}), "tool_choice"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (json!({"max_tokens": 0}), "max_tokens"),
    ] {
        let mut body = asks("Hi.");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, told) = answer(stage.completion(&body).send().await.unwrap()).await;
        assert_eq!((status, &told["error"]["param"]), (StatusCode::BAD_REQUEST, &json!(field)), "{change}: {told}");
        assert_eq!(told["error"]["type"], "invalid_request_error");
    }
    let mut body = asks("Hi.");
    body["model"] = "nobody/knows".into();
    let (status, told) = answer(stage.completion(&body).send().await.unwrap()).await;
    assert_eq!((status, &told["error"]["param"]), (StatusCode::NOT_FOUND, &json!("model")), "{told}");
    assert!(understudy.requests().is_empty());
    stage.server.stop().await;
}

/// FC05: the provider breaks in the text, and the client reads one stream.
#[tokio::test]
async fn a_break_in_the_text_is_healed_behind_the_stream() {
    let whole = "The kelp forest is a quiet place, and it grows half a metre in a day.";
    let (first, rest) = whole.split_at(40);
    let understudy = plays([script([words(first), cut()]), script([words(rest), usage(30, 9), stop(Stop::End)])]);
    let stage = Stage::playing(&understudy).await;
    let heard = hear(stage.completion(&streamed(asks("Tell me."))).send().await.unwrap()).await;
    assert_eq!(heard.text, whole);
    assert_eq!((heard.finish.as_deref(), heard.is_done, heard.is_broken), (Some("stop"), true, false));
    assert_eq!(understudy.requests().len(), 2);
    let metrics = stage.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains(r#"everturn_front_healed_total{front="openai"} 1"#), "{metrics}");
    stage.server.stop().await;
}

/// FC06: a call that breaks is told whole or not at all.
#[tokio::test]
async fn a_call_comes_whole_or_not_at_all() {
    let understudy = plays([
        script([text("I look."), begin_call("read_file", r#"{"pa"#), cut()]),
        script([text(" Found it."), stop(Stop::End)]),
        script([call("read_file", json!({"path": "a"})), begin_call("read_file", r#"{"pa"#), cut()]),
    ]);
    let stage = Stage::playing(&understudy).await;
    let mut body = streamed(asks("Look."));
    body["tools"] = json!([tool("read_file")]);
    let heard = hear(stage.completion(&body).send().await.unwrap()).await;
    assert_eq!((heard.text.as_str(), heard.calls.len()), ("I look. Found it.", 0));
    assert_eq!((heard.finish.as_deref(), heard.is_done), (Some("stop"), true));
    body["messages"][0]["content"] = "Look at two.".into();
    let heard = hear(stage.completion(&body).send().await.unwrap()).await;
    assert_eq!(heard.calls.len(), 1, "the whole one is salvaged");
    assert_eq!((heard.finish.as_deref(), heard.is_done), (Some("tool_calls"), true));
    stage.server.stop().await;
}

/// FC07: without a way on there is a line with the error, then a broken connection; the next request works. What fails
/// before the first word has a status of its own.
#[tokio::test]
async fn a_failure_is_no_clean_end() {
    let understudy = plays([
        script([text("Hello"), fail(ErrorKind::Auth, Cause::ErrorFinish)]),
        says("Fine."),
        script([fail(ErrorKind::ContextFull, Cause::Refused)]),
    ]);
    let stage = Stage::playing(&understudy).await;
    let heard = hear(stage.completion(&streamed(asks("Hi."))).send().await.unwrap()).await;
    assert_eq!((heard.text.as_str(), heard.is_done, heard.is_broken), ("Hello", false, true));
    assert_eq!(heard.finish, None);
    assert_eq!(heard.error.unwrap()["type"], "server_error");
    let heard = hear(stage.completion(&streamed(asks("Hi."))).send().await.unwrap()).await;
    assert_eq!((heard.text.as_str(), heard.is_done), ("Fine.", true), "a failure is not told again");
    let response = stage.completion(&streamed(asks("Long."))).send().await.unwrap();
    assert_eq!(response.headers()["x-should-retry"], "false");
    let (status, told) = answer(response).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (StatusCode::BAD_REQUEST, &json!("context_length_exceeded")),
        "{told}"
    );
    stage.server.stop().await;
}

/// FC08: a server that goes down breaks its streams.
#[tokio::test]
async fn a_server_that_stops_ends_no_stream_cleanly() {
    let understudy = plays([script([text("Hel"), hang()])]);
    let stage = Stage::playing(&understudy).await;
    let response = stage.completion(&streamed(asks("Hi."))).send().await.unwrap();
    let stopping = tokio::spawn(async move {
        stage.server.stop().await;
    });
    let heard = hear(response).await;
    assert!(heard.is_broken && !heard.is_done && heard.finish.is_none(), "{heard:?}");
    stopping.await.unwrap();
}

/// FC02: the list that clients check a connection with; errors in the envelope; a token is needed.
#[tokio::test]
async fn models_are_listed() {
    let stage = Stage::new().await;
    let (status, list) = stage.get("/openai/v1/models").await;
    assert_eq!((status, &list["object"]), (StatusCode::OK, &json!("list")));
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert!(ids.contains(&"numbered") && ids.contains(&MODEL), "{ids:?}");
    assert!(!ids.contains(&"gateway"), "{ids:?}");
    assert_eq!(stage.get(&format!("/openai/v1/models/{MODEL}")).await.1["id"], MODEL);
    assert_eq!(stage.get("/openai/v1/models/nobody/knows").await.0, StatusCode::NOT_FOUND);
    let bare = stage.client.get(format!("{}/openai/v1/models", stage.base)).send().await.unwrap();
    let (status, told) = answer(bare).await;
    assert_eq!((status, &told["error"]["type"]), (StatusCode::UNAUTHORIZED, &json!("authentication_error")));
    stage.server.stop().await;
}

/// A generation can be fetched by its name, stopped and deleted, by its owner alone.
#[tokio::test]
async fn a_generation_has_a_name() {
    let understudy = plays([says("Hello."), script([text("Hel"), hang()])]);
    let stage = Stage::playing(&understudy).await;
    stage.grant("evt_of-another", "another", &everturn::stores::Scope::ALL).await;
    let (_, whole) = answer(stage.completion(&asks("Hi.")).send().await.unwrap()).await;
    let path = format!("{COMPLETIONS}/{}", whole["id"].as_str().unwrap());
    let (status, again) = stage.get(&path).await;
    assert_eq!((status, &again["choices"]), (StatusCode::OK, &whole["choices"]));
    let heard = hear(stage.ask(Method::GET, &format!("{path}?stream=true")).send().await.unwrap()).await;
    assert_eq!((heard.text.as_str(), heard.id()), ("Hello.", whole["id"].as_str().unwrap()));
    let foreign = stage.client.get(format!("{}{path}", stage.base)).bearer_auth("evt_of-another");
    assert_eq!(foreign.send().await.unwrap().status(), StatusCode::NOT_FOUND);
    let (status, gone) = stage.send(Method::DELETE, &path, json!({})).await;
    assert_eq!((status, &gone["deleted"]), (StatusCode::OK, &json!(true)), "{gone}");
    assert_eq!(stage.get(&path).await.0, StatusCode::NOT_FOUND);
    stage.server.stop().await;
}

/// FC14: a model that is an agent: its tools run here and are not told as calls.
#[tokio::test]
async fn an_agent_runs_its_tools_behind_the_same_wire() {
    let understudy = plays([
        script([text("Let me launch."), call("launch", json!({"target": "moon"})), stop(Stop::ToolUse)]),
        script([text("Launched."), stop(Stop::End)]),
    ]);
    let stage = Stage::playing(&understudy).await;
    let mut body = streamed(asks("Launch."));
    body["model"] = "launches-freely".into();
    let heard = hear(stage.completion(&body).send().await.unwrap()).await;
    assert_eq!((heard.text.as_str(), heard.calls.len()), ("Let me launch.\n\nLaunched.", 0));
    assert_eq!((heard.finish.as_deref(), heard.is_done), (Some("stop"), true));
    assert_eq!(understudy.requests().len(), 2);
    stage.server.stop().await;
}
