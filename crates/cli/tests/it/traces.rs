//! What a collector of traces is sent.

use std::process::Stdio;
use std::time::Duration;

use everturn::core::cost::UsageReport;
use everturn::core::delta::Delta;
use everturn::core::error::{Cause, ErrorKind, ProviderError};
use everturn::core::message::{Meta, Stop};
use everturn::core::prompt::Request;
use everturn::providers::{ApiAddress, FrameStream, ModelFacts, Provider};
use everturn::{Agent, Engine, ToolContext, ToolError, tool};
use everturn_understudy::{Cue, Understudy, call, fail, response_id, script, stop, text, usage};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::daemon::Scratch;

#[path = "../../src/process/logs.rs"]
#[allow(dead_code, reason = "the command uses all of it")]
mod logs;

const DATA: &str = "EVERTURN_TRACED_DATA";

/// A turn whose model fails once, then calls a tool, then answers. Exporters read the environment, so it is a process of
/// its own.
#[test]
#[ignore = "a part that is played in another process"]
fn a_traced_turn() {
    let Ok(data) = std::env::var(DATA) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let logs = logs::Logs::start(data.as_ref(), |name| std::env::var(name).ok()).unwrap();
        let model = Understudy::new([
            script([fail(ErrorKind::Overloaded, Cause::Refused)]),
            script([
                response_id("resp_1"),
                text("I look."),
                call("look", json!({"for": "private words"})),
                Cue::Say(vec![Delta::Usage(Box::new(UsageReport {
                    input: 80_u64.into(),
                    output: 10_u64.into(),
                    reasoning: 4_u64.into(),
                    cache_read: 7_u64.into(),
                    cache_write: 3_u64.into(),
                }))]),
                Cue::Say(vec![Delta::ReplyMeta(Box::new(meta("one-20261118")))]),
                stop(Stop::ToolUse),
            ]),
            script([text("Found private words."), usage(120, 5), stop(Stop::End)]),
        ]);
        let look =
            tool("look", "Looks.", |_: ToolContext, _: Value| async { Ok::<_, ToolError>("private".to_owned()) });
        let mut agent = Agent::new("understudy/one".parse().unwrap()).tool(look).unwrap();
        agent.limits.retry.delay_base = Duration::from_millis(1);
        let engine = Engine::builder().provider(Placed(model)).agent("finder", agent).start();
        let chat = engine.create("finder").await.unwrap();
        chat.send("find my private words").await.unwrap();
        chat.rest().await.unwrap();
        engine.shutdown().await;
        logs.end().await;
    });
}

/// What a provider says about its answer.
fn meta(model: &str) -> Meta {
    Meta::from([("understudy".into(), json!({"model": model}))])
}

/// The understudy, as if it was somewhere.
struct Placed(Understudy);

#[async_trait::async_trait]
impl Provider for Placed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn server(&self) -> Option<ApiAddress> {
        Some(ApiAddress { address: "models.example".into(), port: 443 })
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.0.facts(model)
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        self.0.open(request).await
    }
}

/// A collector. Gives what was posted to it, request by request.
async fn collector() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            loop {
                let (mut len, mut line) = (0, String::new());
                while stream.read_line(&mut line).await.unwrap_or(0) > 2 {
                    if let Some((name, value)) = line.split_once(':')
                        && name.eq_ignore_ascii_case("content-length")
                    {
                        len = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; len];
                if len == 0 || stream.read_exact(&mut body).await.is_err() {
                    break;
                }
                tell.send(body).await.unwrap();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    });
    (format!("http://{address}"), told)
}

/// An attribute, as its type shows it: text in quotes, numbers without.
fn attribute(span: &Span, key: &str) -> String {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Any::StringValue(text)) => format!("{text:?}"),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::BoolValue(is)) => is.to_string(),
        Some(Any::ArrayValue(list)) => {
            let words = list.values.iter().map(|word| match &word.value {
                Some(Any::StringValue(text)) => text.as_str(),
                other => panic!("{other:?} is no word"),
            });
            format!("{:?}", words.collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

/// A turn with a retry and a tool is one trace, named as the conventions for generative AI say, and without a word of
/// what was said.
#[tokio::test]
async fn a_collector_gets_the_spans_of_a_turn() {
    let (endpoint, mut told) = collector().await;
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["traces::a_traced_turn", "--exact", "--ignored"]).stdout(Stdio::null()).kill_on_drop(true);
    command.env(DATA, scratch.path()).env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    assert!(command.status().await.unwrap().success());
    let mut spans = Vec::new();
    while let Ok(body) = told.try_recv() {
        assert!(!String::from_utf8_lossy(&body).contains("private"), "spans have no content");
        let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        spans.extend(request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans));
    }
    spans.sort_by_key(|span| span.start_time_unix_nano);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["invoke_agent finder", "chat one", "chat one", "execute_tool look", "chat one"]);
    let (turn, parts) = spans.split_first().unwrap();
    assert!(turn.parent_span_id.is_empty());
    assert!(parts.iter().all(|part| part.parent_span_id == turn.span_id && part.trace_id == turn.trace_id));
    assert_eq!(attribute(turn, "gen_ai.operation.name"), r#""invoke_agent""#);
    assert_eq!(
        (attribute(turn, "everturn.turn.end"), attribute(turn, "everturn.turn.steps")),
        (r#""done""#.into(), "2".into())
    );
    let conversation = attribute(turn, "gen_ai.conversation.id");
    for (part, key, value) in [
        (0, "error.type", r#""overloaded""#),
        (0, "everturn.attempt.number", "1"),
        (1, "gen_ai.usage.input_tokens", "90"),
        (1, "gen_ai.usage.output_tokens", "10"),
        (1, "gen_ai.usage.reasoning.output_tokens", "4"),
        (1, "gen_ai.usage.cache_read.input_tokens", "7"),
        (1, "gen_ai.usage.cache_creation.input_tokens", "3"),
        (1, "gen_ai.response.finish_reasons", r#"["tool_call"]"#),
        (1, "gen_ai.response.id", r#""resp_1""#),
        (1, "gen_ai.response.model", r#""one-20261118""#),
        (1, "gen_ai.provider.name", r#""understudy""#),
        (1, "gen_ai.request.model", r#""one""#),
        (1, "server.address", r#""models.example""#),
        (1, "server.port", "443"),
        (1, "everturn.attempt.number", "2"),
        (1, "everturn.attempt.rung", r#""restart""#),
        (1, "everturn.usage.estimated", "false"),
        (2, "gen_ai.tool.name", r#""look""#),
        (2, "gen_ai.tool.call.id", r#""1.0""#),
        (2, "gen_ai.conversation.id", &conversation),
        (3, "gen_ai.response.finish_reasons", r#"["stop"]"#),
        (3, "gen_ai.response.id", "None"),
    ] {
        assert_eq!(attribute(&parts[part], key), value, "{key} of {}", parts[part].name);
    }
    assert_eq!(parts[0].status.as_ref().map(|status| status.code), Some(2), "an error");
}
