//! Requests that are made again.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::message::Stop;
use everturn::stores::{Memory, Scope};
use everturn_server::ServerLimits;
use everturn_understudy::{Script, Understudy, pause, script, stop, text, wait_ms};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::join;

use super::{COMPLETIONS, asks, hear, hear_until, plays, says, streamed};
use crate::stage::{Stage, answer};

const RETRY: &str = "x-stainless-retry-count";

/// An answer that takes a moment, so that others can come while it streams.
fn slowly(words: &str) -> Script {
    let told = words.split_inclusive(' ').flat_map(|word| [text(word), wait_ms(20)]);
    script(told.chain([stop(Stop::End)]))
}

const LONG: &str = "one two three four five six seven eight nine ten eleven twelve";

/// FC03: a client that was cut and asks the same again is told the same generation from its first byte; it is paid once.
#[tokio::test]
async fn a_cut_request_attaches_to_its_generation() {
    let understudy = plays([slowly(LONG)]);
    let stage = Stage::playing(&understudy).await;
    let body = streamed(asks("Count."));
    let cut = hear_until(stage.completion(&body).send().await.unwrap(), |heard| heard.text.contains("two")).await;
    assert!(!cut.is_done && cut.text.len() < LONG.len());
    let again = hear(stage.completion(&body).header(RETRY, "1").send().await.unwrap()).await;
    assert_eq!((again.text.as_str(), again.is_done), (LONG, true));
    assert_eq!(again.id(), cut.id());
    // Also without a stream, as Claude Code falls back.
    let whole = answer(stage.completion(&asks("Count.")).header(RETRY, "2").send().await.unwrap()).await.1;
    assert_eq!((&whole["choices"][0]["message"]["content"], &whole["id"]), (&json!(LONG), &json!(cut.id())));
    assert_eq!(understudy.requests().len(), 1, "paid once");
    let metrics = stage.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains(r#"everturn_front_attached_total{front="openai"} 2"#), "{metrics}");
    stage.server.stop().await;
}

/// FC04: the answer to a request without a stream was lost; the SDK asks again.
#[tokio::test]
async fn a_lost_answer_is_told_again() {
    let understudy = plays([slowly(LONG)]);
    let stage = Stage::playing(&understudy).await;
    let lost = stage.completion(&asks("Count.")).timeout(Duration::from_millis(60)).send().await;
    assert!(lost.is_err(), "the client gave up");
    let (status, whole) = answer(stage.completion(&asks("Count.")).header(RETRY, "1").send().await.unwrap()).await;
    assert_eq!((status, &whole["choices"][0]["message"]["content"]), (StatusCode::OK, &json!(LONG)));
    assert_eq!(understudy.requests().len(), 1);
    stage.server.stop().await;
}

/// FC10: asked again after a whole answer is asked anew. A client that counts its attempts, or names its session, is told
/// the same again, since it may have lost the end.
#[tokio::test]
async fn a_whole_answer_is_not_told_to_a_request_that_asks_anew() {
    let understudy = plays([says("One."), says("Two."), says("Three.")]);
    let stage = Stage::playing(&understudy).await;
    let ask = async |headers: &[(&str, &str)]| {
        let request =
            headers.iter().fold(stage.completion(&asks("Hi.")), |request, (name, value)| request.header(*name, *value));
        let whole = answer(request.send().await.unwrap()).await.1;
        settle(&stage, whole["id"].as_str().unwrap()).await;
        whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(&[]).await, "One.");
    assert_eq!(ask(&[]).await, "Two.");
    assert_eq!(ask(&[(RETRY, "1")]).await, "One.", "the oldest that it may be");
    let session = [("x-session-id", "s")];
    assert_eq!(ask(&session).await, "Three.", "a session has generations of its own");
    assert_eq!(ask(&session).await, "Three.");
    assert_eq!(understudy.requests().len(), 3);
    stage.server.stop().await;
}

/// Waits until it is noted that a client has this generation whole.
async fn settle(stage: &Stage, id: &str) {
    let chat = &id["chatcmpl-".len()..][..26];
    loop {
        let (status, chat) = stage.get(&format!("/v1/chats/{chat}")).await;
        assert_eq!(status, StatusCode::OK);
        if chat["archived"] == true {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// FC11: a finished generation is told again under its idempotency key. Another body under the key is another request.
#[tokio::test]
async fn an_idempotency_key_names_a_generation() {
    let understudy = plays([says("One."), says("Two.")]);
    let stage = Stage::playing(&understudy).await;
    let ask = async |words: &str| {
        let request = stage.completion(&asks(words)).header("idempotency-key", "k");
        let (status, whole) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{whole}");
        settle(&stage, whole["id"].as_str().unwrap()).await;
        whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask("Hi.").await, "One.");
    assert_eq!(ask("Hi.").await, "One.");
    assert_eq!(ask("Ho.").await, "Two.");
    assert_eq!(ask("Hi.").await, "One.");
    stage.server.stop().await;
}

/// FC12: requests beside each other are generations of their own, also equal ones of a program that draws several answers. Equal
/// ones of a session are one.
#[tokio::test]
async fn requests_beside_each_other_are_told_apart() {
    let understudy = Understudy::improvising(|_| slowly("an answer of some words"));
    let stage = Stage::playing(&understudy).await;
    let ask = async |words: &str, session: Option<&str>| {
        let mut request = stage.completion(&streamed(asks(words)));
        if let Some(session) = session {
            request = request.header("session-id", session);
        }
        hear(request.send().await.unwrap()).await.id().to_owned()
    };
    let (title, said) = join!(ask("A title, please.", Some("s")), ask("Hi.", Some("s")));
    assert_ne!(title, said);
    let (one, other) = join!(ask("Hi.", None), ask("Hi.", None));
    assert_ne!(one, other, "two draws");
    let (one, other) = join!(ask("Ho.", Some("s")), ask("Ho.", Some("s")));
    assert_eq!(one, other, "one of them asks again");
    let (one, other) = join!(ask("Ho.", Some("a")), ask("Ho.", Some("b")));
    assert_ne!(one, other, "two sessions do not meet");
    assert_eq!(understudy.requests().len(), 7);
    stage.server.stop().await;
}

/// FD14: no request attaches to the generation of another owner.
#[tokio::test]
async fn owners_do_not_meet() {
    let understudy = plays([slowly(LONG), says("Mine.")]);
    let stage = Stage::playing(&understudy).await;
    stage.grant("evt_of-another", "another", &Scope::ALL).await;
    let body = streamed(asks("Count."));
    let first = stage.completion(&body).send().await.unwrap();
    let foreign = stage.client.request(Method::POST, format!("{}{COMPLETIONS}", stage.base));
    let foreign = foreign.bearer_auth("evt_of-another").header(RETRY, "1").json(&body).send().await.unwrap();
    assert_eq!(hear(foreign).await.text, "Mine.");
    assert_eq!(hear(first).await.text, LONG);
    stage.server.stop().await;
}

/// FC03: a generation is there after a restart: its words are the same from the start, and what follows is one answer.
#[tokio::test]
async fn a_generation_survives_its_server() {
    let understudy = plays([slowly(LONG), script([pause(), text("never")])]);
    let memory = Arc::new(Memory::new());
    let stage = Stage::playing_on(memory.clone(), ServerLimits::default(), &understudy).await;
    let body = streamed(asks("Count."));
    let cut = hear_until(stage.completion(&body).send().await.unwrap(), |heard| heard.text.contains("three")).await;
    stage.server.stop().await;
    let said = cut.text.clone();
    let rest = Understudy::improvising(move |request| {
        let sent = format!("{:?}", request.entries);
        let from = LONG
            .split_inclusive(' ')
            .scan(0, |at, word| {
                *at += word.len();
                Some(*at)
            })
            .filter(|at| sent.contains(LONG[..*at].trim_end()))
            .last()
            .unwrap_or(0);
        says(&LONG[from..])
    });
    let stage = Stage::playing_on(memory, ServerLimits::default(), &rest).await;
    let again = hear(stage.completion(&body).send().await.unwrap()).await;
    assert!(again.text.starts_with(&said), "{} then {}", said, again.text);
    assert_eq!((again.text.as_str(), again.id(), again.is_done), (LONG, cut.id(), true));
    assert_eq!(rest.requests().len(), 1);
    stage.server.stop().await;
}

/// FC17: generations are kept for a time and no longer.
#[tokio::test]
async fn old_generations_are_deleted() {
    let understudy = plays([says("Hello.")]);
    let limits = ServerLimits { generations_kept: Duration::from_millis(1), ..ServerLimits::default() };
    let stage = Stage::playing_on(Arc::new(Memory::new()), limits, &understudy).await;
    let (_, whole) = answer(stage.completion(&asks("Hi.")).send().await.unwrap()).await;
    let path = format!("{COMPLETIONS}/{}", whole["id"].as_str().unwrap());
    while stage.get(&path).await.0 != StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
    stage.server.stop().await;
}
