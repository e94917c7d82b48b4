use std::io;

use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::ids::{MessageId, StepId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message, Part, Stop};
use everturn_core::prompt::{PromptEntry, PromptPart, Role, prepare, validate};
use expect_test::expect;
use futures_util::StreamExt as _;
use secrecy::SecretString;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::provider::Frame;
use crate::tests::cuts;

fn gemini(base: &str) -> Gemini {
    let endpoint = Endpoint::at(NAME, base).unwrap().with_key(SecretString::from("a-secret-key"), KEY_HEADER).unwrap();
    Gemini::new(endpoint, Http::new(&Limits::default()))
}

/// What is sent back of an answer that came like this.
fn sent_back(fixture: &[u8]) -> String {
    let model: everturn_core::ids::ModelId = "google/gemini-3-pro".parse().unwrap();
    let mut draft = Draft::new(StepId(1));
    let began = Delta::Attempt(Box::new(AttemptBegan { number: 1, model: model.clone(), rung: Rung::First }));
    draft.push(Timestamp(0), &began).unwrap();
    let mut stop = Stop::Broken;
    for frame in cuts::told([fixture], GenerateContent::new(NAME)).frames {
        for delta in frame.deltas() {
            draft.push(Timestamp(0), delta).unwrap();
        }
        if let Frame::Stop(reason) = frame {
            stop = reason;
        }
    }
    let reply = Body::Reply(Box::new(draft.seal(stop, Timestamp(0), None).unwrap()));
    let text = |text: &str| {
        Body::User(vec![Part::Text(everturn_core::message::Text { text: text.into(), ..Default::default() })])
    };
    let messages = [text("Hello"), reply, text("Go on")];
    let messages: Vec<Message> = messages
        .into_iter()
        .zip(1..)
        .map(|(body, id)| Message { id: MessageId(id), at: Timestamp(0), body, sent: None })
        .collect();
    let provider = gemini("http://localhost");
    let target = provider.facts("gemini-3-pro").target;
    let request = Request::new(model, &target, prepare(&messages, &target)).fit(&target);
    assert_eq!(validate(&request, &target), Ok(()));
    let body = request::body(&request, provider.family("gemini-3-pro"));
    let parts = body["contents"][1]["parts"].as_array().unwrap().iter();
    parts.map(|part| format!("{part}\n")).collect()
}

/// 3.2: what Gemini signed goes back in the part it came in, to the byte.
#[test]
fn signatures_go_back_where_they_came() {
    expect![[r#"
        {"text":"Grüß dich! 👋\nHow can I help?","thoughtSignature":"EqQDCqEDAdHtim9sZ25hdHVyZS1vbmU="}
    "#]]
    .assert_eq(&sent_back(include_bytes!("../../fixtures/gemini/text.sse")));
    expect![[r#"
        {"text":"Let me look."}
        {"functionCall":{"args":{"city":"Oslo","units":{"temperature":"C","wind":1.5}},"name":"weather"},"thoughtSignature":"CiQBVKhc7vcalls+signature/first=="}
        {"functionCall":{"args":{"city":"Rome \"Roma\""},"name":"weather"}}
        {"functionCall":{"args":{},"name":"now"}}
    "#]].assert_eq(&sent_back(include_bytes!("../../fixtures/gemini/calls.sse")));
    expect![[r#"
        {"text":"Hello","thoughtSignature":"Ci8B2.5-signs-the-first-part"}
        {"text":", world"}
        {"text":".","thoughtSignature":"CjABlast"}
    "#]]
    .assert_eq(&sent_back(include_bytes!("../../fixtures/gemini/signed-text.sse")));
    expect![[r#"
        {"functionCall":{"args":{"q":"kelp"},"name":"search"},"thoughtSignature":"CikBcame-behind-the-call"}
        {"text":"","thoughtSignature":"CikBof-a-thought-nobody-saw"}
    "#]]
    .assert_eq(&sent_back(include_bytes!("../../fixtures/gemini/late-signature.sse")));
    expect![[r#"
        {"thoughtSignature":"CiQBsearch-call","toolCall":{"args":{"queries":["northernmost city in the United States"]},"id":"a1b2","toolType":"GOOGLE_SEARCH_WEB"}}
        {"thoughtSignature":"CiQBsearch-response","toolResponse":{"id":"a1b2","response":{"search_suggestions":"<style>…</style>"},"toolType":"GOOGLE_SEARCH_WEB"}}
        {"functionCall":{"args":{"city":"Utqiaġvik, Alaska"},"id":"c3d4","name":"getWeather"},"thoughtSignature":"CiQBfunction-call"}
    "#]].assert_eq(&sent_back(include_bytes!("../../fixtures/gemini/server-tools.sse")));
    expect![[r#"
        {"text":"Let me compute. "}
        {"text":"(code_execution found:)\n1024"}
        {"text":"It is 1024."}
    "#]]
    .assert_eq(&sent_back(include_bytes!("../../fixtures/gemini/code.sse")));
}

/// What is known of a model, and what the program's leave changes about it.
#[test]
fn facts_follow_the_name_and_the_leave() {
    let without = gemini("http://localhost");
    let facts = without.facts("gemini-3-pro");
    assert_eq!((facts.thinks, facts.can.reattach), (everturn_core::limits::Thinking::Yes, Reattach::No));
    assert!(!facts.target.background && facts.target.replays.contains(&"GOOGLE_SEARCH_WEB".to_owned()));
    assert_eq!(without.facts("gemini-2.0-flash").thinks, everturn_core::limits::Thinking::No);
    let with = without.with_kept(GoogleRetention::Background);
    let facts = with.facts("gemini-3-pro");
    assert!(facts.target.background && facts.target.replays.is_empty());
    assert_eq!(facts.can.reattach, Reattach::Yes);
}

/// Answers one connection after another, and gives back what was asked.
async fn server(
    answers: Vec<(u16, &'static str, Vec<u8>)>,
) -> (String, tokio::task::JoinHandle<io::Result<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap()); // As Google's own programs have it.
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for (status, kind, body) in answers {
            let (mut socket, _) = listener.accept().await?;
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !is_whole(&request) {
                let read = socket.read(&mut buffer).await?;
                request.extend_from_slice(&buffer[..read]);
            }
            asked.push(String::from_utf8_lossy(&request).into_owned());
            let len = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
            );
            socket.write_all(head.as_bytes()).await?;
            socket.write_all(&body).await?;
        }
        Ok(asked)
    });
    (base, asked)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let len = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= len.unwrap_or(0)
}

fn asking(provider: &Gemini) -> Request {
    let target = provider.facts("gemini-3-flash").target;
    let entries = vec![PromptEntry::new(Role::User, vec![PromptPart::text("Hello")])];
    let mut request = Request::new("google/gemini-3-flash".parse().unwrap(), &target, entries.into());
    request.background = true;
    request.fit(&target)
}

async fn all(frames: FrameStream) -> Vec<Result<Frame, ProviderError>> {
    frames.collect().await
}

const EVENTS: &str = "text/event-stream";

#[tokio::test]
async fn an_answer_over_a_socket() {
    let fixture = include_bytes!("../../fixtures/gemini/text.sse");
    let (base, asked) = server(vec![(200, EVENTS, fixture.to_vec())]).await;
    let provider = gemini(&base);
    let frames = all(provider.open(asking(&provider)).await.unwrap()).await;
    let whole = cuts::told([fixture.as_slice()], GenerateContent::new(NAME)).frames;
    assert_eq!(frames.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), whole);
    let asked = asked.await.unwrap().unwrap().remove(0);
    assert!(asked.starts_with("POST /v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse HTTP/1.1"), "{asked}");
    assert!(asked.contains("x-goog-api-key: a-secret-key") && asked.contains("accept: text/event-stream"), "{asked}");
    let body: Value = serde_json::from_str(asked.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["contents"][0]["parts"][0]["text"], "Hello");
}

/// An interaction that lost its stream is found again after its cursor.
#[tokio::test]
async fn an_interaction_is_found_again() {
    let fixture = include_str!("../../fixtures/gemini/interactions-text.sse");
    let events: Vec<&str> = fixture.split_inclusive("\n\n").collect();
    let (head, tail) = (events[..9].concat().into_bytes(), events[9..].concat().into_bytes());
    let (base, asked) = server(vec![(200, EVENTS, head), (200, EVENTS, tail)]).await;
    let provider = gemini(&base).with_kept(GoogleRetention::Background);
    let mut frames = all(provider.open(asking(&provider)).await.unwrap()).await;
    assert_eq!(frames.pop().unwrap().unwrap_err().cause, Cause::Truncated);
    let Some(Ok(last)) = frames.last() else { panic!("{frames:?}") };
    let Some(Delta::Handle(handle)) = last.deltas().last() else { panic!("{last:?}") };
    let rest = all(provider.reattach("gemini-3-flash", handle).await.unwrap()).await;
    assert_eq!(rest.last().unwrap(), &Ok(Frame::Stop(Stop::End)));
    let Ok(Frame::Together(first)) = &rest[0] else { panic!("{rest:?}") };
    assert!(matches!(&first[..], [Delta::Text(text), Delta::Handle(_)] if text == "vier – 5."), "{first:?}");
    let asked = asked.await.unwrap().unwrap();
    assert!(asked[0].starts_with("POST /v1beta/interactions HTTP/1.1"), "{}", asked[0]);
    assert!(asked[1].starts_with("GET /v1beta/interactions/v1_ChdyZDZs?stream=true&last_event_id=evt%2F9%3D%3D HTTP"));
}

/// One that is gone is not asked for again; the answer is.
#[tokio::test]
async fn an_interaction_that_is_gone() {
    let body = br#"{"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND"}}"#;
    let (base, _asked) = server(vec![(404, "application/json", body.to_vec())]).await;
    let provider = gemini(&base).with_kept(GoogleRetention::Background);
    let handle = GenerationHandle { id: "v1_gone".into(), cursor: "-:-:e".into() };
    let error = provider.reattach("gemini-3-flash", &handle).await.err().unwrap();
    assert_eq!((error.kind, error.retry, error.cause), (ErrorKind::Truncated, Retry::Backoff, Cause::ErrorFinish));
    assert_eq!((error.status, error.detail.as_str()), (Some(404), "Requested entity was not found."));
    let odd = GenerationHandle { id: "../models".into(), cursor: String::new() };
    assert_eq!(provider.reattach("gemini-3-flash", &odd).await.err().unwrap().kind, ErrorKind::Truncated);
}

/// P4, P6: what is answered instead of a stream.
#[tokio::test]
async fn refusals_over_a_socket() {
    let quota =
        br#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow","details":[{"retryDelay":"3s"}]}}]"#;
    let key = br#"{"error":{"code":400,"message":"API key not valid: a-secret-key","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    let answers = vec![(429, "application/json", quota.to_vec()), (400, "application/json", key.to_vec())];
    let (base, _asked) = server(answers).await;
    let provider = gemini(&base);
    let error = provider.open(asking(&provider)).await.err().unwrap();
    assert_eq!((error.kind, error.retry), (ErrorKind::RateLimit, Retry::After(std::time::Duration::from_secs(3))));
    let error = provider.open(asking(&provider)).await.err().unwrap();
    assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::Auth, "API key not valid: [key]"));
}

const FIXTURES: [&[u8]; 6] = [
    include_bytes!("../../fixtures/gemini/calls.sse"),
    include_bytes!("../../fixtures/gemini/grounding.sse"),
    include_bytes!("../../fixtures/gemini/server-tools.sse"),
    include_bytes!("../../fixtures/gemini/code.sse"),
    include_bytes!("../../fixtures/gemini/interactions-calls.sse"),
    include_bytes!("../../fixtures/gemini/interactions-search.sse"),
];

/// Values that no provider should send.
const ODD: [&str; 10] = ["null", "7", "-1", "1e400", "\"\"", "[]", "{}", "[null]", "{\"text\":[]}", "\"\\ud800\""];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 400, ..Default::default() })]

    /// P16: bytes changed anywhere, and values that make no sense, end an answer or are passed over. Nothing panics, and
    /// whatever comes out is something a draft can take, or is refused by it.
    #[test]
    fn damage_is_an_error_or_harmless(
        which in 0..FIXTURES.len(), at in proptest::prelude::any::<proptest::sample::Index>(),
        byte in proptest::prelude::any::<u8>(), odd in proptest::option::of(0..ODD.len()),
    ) {
        let mut bytes = FIXTURES[which].to_vec();
        let colons: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i] == b':').collect();
        match odd {
            None => { let at = at.index(bytes.len()); bytes[at] = byte; }
            Some(odd) => {
                let from = colons[at.index(colons.len())] + 1;
                let len = bytes[from..].iter().position(|b| b",}\n".contains(b)).unwrap_or(0);
                drop(bytes.splice(from..from + len, ODD[odd].bytes()));
            }
        }
        let told = [cuts::told([bytes.as_slice()], GenerateContent::new(NAME)), cuts::told([bytes.as_slice()], Interaction::new(NAME))];
        for told in told {
            let mut draft = Draft::new(StepId(1));
            let _ = told.frames.iter().flat_map(Frame::deltas).try_for_each(|delta| draft.push(Timestamp(0), delta).map(drop));
            proptest::prop_assert!(told.frames.len() < 200);
        }
    }
}
