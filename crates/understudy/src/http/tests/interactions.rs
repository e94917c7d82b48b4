//! Gemini Interactions: as bytes, and as our adapter reads them.

use everturn_core::delta::{Delta, GenerationHandle};
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::limits::Limits;
use everturn_core::message::Stop;
use everturn_core::prompt::{PromptEntry, PromptPart, Request, Role, ToolSpec, WireFormat};
use everturn_providers::gemini::{Gemini, GoogleRetention};
use everturn_providers::http::Http;
use everturn_providers::{Frame, FrameStream, Provider as _};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::super::{KEY, UnderstudyServer};
use super::client::{Ended, Got, get, post, start};
use crate::{Understudy, call, cut, fail, hang, reasoning, reset, script, sealed, stop, text, usage, wait_ms};

const WIRE: WireFormat = WireFormat::Gemini;
const MODEL: &str = "gemini-3-flash";

async fn begin(server: &UnderstudyServer, model: &str) -> Got {
    let body = json!({"model": model, "stream": true, "background": true, "store": true, "input": "hi"});
    post(server, WIRE, "/v1beta/interactions", &body).await
}

/// The events that have a number, each a number and a type.
fn told(got: &Got) -> Vec<(u64, String)> {
    let data = got.text().lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let numbered = events.filter_map(|event| {
        let number = super::super::wire::interactions::number(event["event_id"].as_str()?)?;
        Some((number, event["event_type"].as_str()?.to_owned()))
    });
    numbered.collect()
}

#[tokio::test]
async fn every_event_has_an_id_and_the_rest_is_found_after_it() {
    let cues = [reasoning("Hm."), sealed("c2ln"), text("Hello, "), cut(), wait_ms(5), text("world."), stop(Stop::End)];
    let server = start(Understudy::new([script(cues)])).await;
    let first = begin(&server, "m").await;
    assert_eq!(first.ended, Ended::Whole);
    let seen = told(&first);
    let id = "v1_understudy0001";
    let again = |after: u64| format!("/v1beta/interactions/{id}?stream=true&last_event_id=ev%2F{after}%3D%3D");
    let rest = get(&server, WIRE, &again(seen.last().unwrap().0)).await;
    let all: Vec<_> = [seen, told(&rest)].concat();
    let kinds = "interaction.created step.start step.delta step.delta step.stop step.start step.delta step.delta \
                 step.stop interaction.completed";
    assert!(all.iter().map(|(_, kind)| kind.as_str()).eq(kinds.split(' ')), "{all:?}");
    assert!(all.iter().map(|(number, _)| *number).eq(1..=10), "{all:?}");
    assert!(rest.text().ends_with("event: done\ndata: [DONE]\n\n"));
    let whole = get(&server, WIRE, &format!("/v1beta/interactions/{id}")).await.json();
    assert_eq!(whole["status"], "completed");
    let steps = json!([
        {"type": "thought", "summary": [{"type": "text", "text": "Hm."}], "signature": "c2ln"},
        {"type": "model_output", "content": [{"type": "text", "text": "Hello, world."}]},
    ]);
    assert_eq!(whole["steps"], steps);
}

#[tokio::test]
async fn unknown_interactions_and_events_are_refused() {
    let server = start(Understudy::new([script([text("Hello."), stop(Stop::End)])])).await;
    assert_eq!(get(&server, WIRE, "/v1beta/interactions/v1_gone").await.status, 404);
    assert_eq!(post(&server, WIRE, "/v1beta/interactions/v1_gone/cancel", &json!({})).await.status, 404);
    begin(&server, "m").await;
    let odd = get(&server, WIRE, "/v1beta/interactions/v1_understudy0001?stream=true&last_event_id=evt").await;
    assert_eq!(odd.status, 400);
    let unknown = json!({"model": "m", "input": "hi", "contents": []});
    assert_eq!(post(&server, WIRE, "/v1beta/interactions", &unknown).await.status, 400);
}

/// A request without streaming gets the answer in one piece.
#[tokio::test]
async fn an_interaction_in_one_piece() {
    let server = start(Understudy::new([script([
        text("Let me look."),
        call("look", json!({"at": "kelp"})),
        usage(9, 4),
        stop(Stop::ToolUse),
    ])]))
    .await;
    let body = json!({"model": "m", "input": "hi"});
    let whole = post(&server, WIRE, "/v1beta/interactions", &body).await.json();
    assert_eq!((&whole["status"], &whole["usage"]["total_tokens"]), (&json!("requires_action"), &json!(13)));
    let asked = json!({"type": "function_call", "id": "id_look", "name": "look", "arguments": {"at": "kelp"}});
    assert_eq!(whole["steps"][1], asked);
}

fn adapter(server: &UnderstudyServer) -> Gemini {
    let base = format!("{}/v1beta", server.url());
    let variable = |name: &str| match name {
        "GOOGLE_GEMINI_BASE_URL" => Some(base.clone()),
        "GEMINI_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    };
    Gemini::usual(Http::direct(&Limits::default()), variable).unwrap().with_kept(GoogleRetention::Background)
}

fn asking(gemini: &Gemini, model: &str) -> Request {
    let target = gemini.facts(model).target;
    let entries = vec![PromptEntry::new(Role::User, vec![PromptPart::text("Hello")])];
    let mut request = Request::new(format!("google/{model}").parse().unwrap(), &target, entries.into());
    request.tools = [ToolSpec::new("look", "Looks.", json!({"type": "object"}))].into();
    request.background = true;
    request.fit(&target)
}

/// What came, and how it ended.
struct Heard {
    deltas: Vec<Delta>,
    handle: Option<GenerationHandle>,
    ended: Result<Stop, (ErrorKind, Cause)>,
}

async fn hear(mut frames: FrameStream) -> Heard {
    let (mut deltas, mut handle) = (Vec::new(), None);
    while let Some(frame) = frames.next().await {
        for delta in frame.iter().flat_map(Frame::deltas) {
            match delta {
                Delta::Handle(newest) => handle = Some((**newest).clone()),
                Delta::ResponseId(_) => {} // Each has its own; the handle holds it.
                delta => deltas.push(delta.clone()),
            }
        }
        match frame {
            Ok(Frame::Delta(_) | Frame::Together(_) | Frame::Ping) => {}
            Ok(Frame::Stop(stop)) => return Heard { deltas, handle, ended: Ok(stop) },
            Err(error) => return Heard { deltas, handle, ended: Err((error.kind, error.cause)) },
        }
    }
    panic!("a stream ends with a stop or an error");
}

/// Deltas with their neighbours joined, as a draft has them.
fn joined(deltas: &[Delta]) -> (String, String, String) {
    let (mut said, mut thought, mut input) = (String::new(), String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Text(text) => said.push_str(text),
            Delta::Reasoning(text) => thought.push_str(text),
            Delta::CallInput { json, .. } => input.push_str(json),
            _ => {}
        }
    }
    (said, thought, input)
}

/// The adapter loses the stream at every event in turn and finds the rest again: nothing is missing, nothing comes twice.
#[tokio::test]
async fn the_adapter_reads_on_wherever_it_was_cut() {
    let scene = || {
        script([
            reasoning("Let me "),
            reasoning("think."),
            sealed("c2ln"),
            text("Hello, "),
            text("wörld."),
            call("look", json!({"at": "kelp", "deep": [1, 2]})),
            usage(9, 4),
            stop(Stop::ToolUse),
        ])
    };
    let server = start(Understudy::hearing(move |_| scene())).await;
    let gemini = adapter(&server);
    let whole = hear(gemini.open(asking(&gemini, MODEL)).await.unwrap()).await;
    assert_eq!(whole.ended, Ok(Stop::ToolUse));
    let expected = ("Hello, wörld.".into(), "Let me think.".into(), r#"{"at":"kelp","deep":[1,2]}"#.into());
    assert_eq!(joined(&whole.deltas), expected);
    for fault in ["cut", "truncate", "reset"] {
        // The last event is the stop: a reader that saw it has everything.
        for events in 1..14 {
            let model = format!("{MODEL}-faults:{fault}@{events}");
            let first = hear(gemini.open(asking(&gemini, &model)).await.unwrap()).await;
            assert!(first.ended.is_err(), "{model}: {:?}", first.ended);
            let rest = hear(gemini.reattach(&model, &first.handle.unwrap()).await.unwrap()).await;
            assert_eq!(rest.ended, Ok(Stop::ToolUse), "{model}");
            // The model's name is sent again after re-attaching; it replaces the first one.
            let without_model = |deltas: Vec<Delta>| -> Vec<Delta> {
                deltas.into_iter().filter(|delta| !matches!(delta, Delta::ReplyMeta(_))).collect()
            };
            let joined = [first.deltas, rest.deltas].concat();
            assert_eq!(without_model(joined), without_model(whole.deltas.clone()), "{model}");
        }
    }
}

#[tokio::test]
async fn the_adapter_goes_on_with_a_generation_that_fell_silent() {
    let scripts = [script([text("Hello, "), reset()]), script([text("world."), stop(Stop::End)])];
    let server = start(Understudy::new(scripts)).await;
    let gemini = adapter(&server);
    let first = hear(gemini.open(asking(&gemini, MODEL)).await.unwrap()).await;
    let rest = hear(gemini.reattach(MODEL, &first.handle.unwrap()).await.unwrap()).await;
    assert_eq!(rest.ended, Ok(Stop::End));
    assert_eq!(joined(&[first.deltas, rest.deltas].concat()).0, "Hello, world.");
}

#[tokio::test]
async fn the_adapter_puts_an_end_to_one() {
    let server = start(Understudy::new([script([text("Hello"), hang(), wait_ms(60_000), text("never")])])).await;
    let gemini = adapter(&server);
    let mut frames = gemini.open(asking(&gemini, MODEL)).await.unwrap();
    let handle = loop {
        if let Some(Delta::Handle(handle)) = frames.next().await.unwrap().unwrap().deltas().last() {
            break handle.clone();
        }
    };
    gemini.cancel(&handle).await.unwrap();
    let path = format!("/v1beta/interactions/{}", handle.id);
    assert_eq!(get(&server, WIRE, &path).await.json()["status"], "cancelled");
    let gone = GenerationHandle { id: "v1_gone".into(), cursor: String::new() };
    assert_eq!(gemini.cancel(&gone).await.unwrap_err().status, Some(404));
}

/// What the provider says about its own trouble is what the adapter tells.
#[tokio::test]
async fn the_adapter_is_told_what_went_wrong() {
    let cases = [
        (
            script([text("Hel"), fail(ErrorKind::Overloaded, Cause::ServerError)]),
            (ErrorKind::Overloaded, Cause::ServerError),
        ),
        (
            script([text("Hel"), fail(ErrorKind::Generic, Cause::ErrorFinish)]),
            (ErrorKind::Truncated, Cause::ErrorFinish),
        ),
        (script([text("Hel"), fail(ErrorKind::Malformed, Cause::Malformed)]), (ErrorKind::Malformed, Cause::Malformed)),
    ];
    for (scene, expected) in cases {
        let server = start(Understudy::new([scene])).await;
        let gemini = adapter(&server);
        let heard = hear(gemini.open(asking(&gemini, MODEL)).await.unwrap()).await;
        assert_eq!((joined(&heard.deltas).0.as_str(), heard.ended), ("Hel", Err(expected)));
    }
    let server = start(Understudy::persona()).await;
    let gemini = adapter(&server);
    let busy = gemini.open(asking(&gemini, "m-faults:429@7")).await.err().unwrap();
    assert_eq!((busy.kind, busy.status), (ErrorKind::RateLimit, Some(429)));
}
