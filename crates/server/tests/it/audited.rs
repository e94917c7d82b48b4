//! Decisions are in the audit log, even if the client that sent them has disconnected.

use std::fmt::Debug;
use std::time::Duration;

use everturn::stores::{Scope, TokenHash};
use everturn_server::ServerLimits;
use everturn_server::wire::{Status, View};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber, span};

use crate::connections::{open, until_open};
use crate::reader::Reader;
use crate::stage::{Stage, TOKEN, kind};

const PATIENCE: Duration = Duration::from_secs(30);

/// Collects audit events: the event's name, and the call or token it is about.
struct Ear(UnboundedSender<(String, String)>);

#[derive(Default)]
struct Heard {
    event: String,
    about: String,
}

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}").trim_matches('"').to_owned();
        match field.name() {
            "event" => self.event = text,
            "call" | "token" => self.about = text,
            _ => {}
        }
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == everturn::AUDIT
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut heard = Heard::default();
        event.record(&mut heard);
        if !heard.event.starts_with("tool_") {
            self.0.send((heard.event, heard.about)).unwrap();
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The audit events of this thread from now on; a test's server runs on no other thread.
fn audit() -> (UnboundedReceiver<(String, String)>, DefaultGuard) {
    let (ear, audit) = unbounded_channel();
    (audit, tracing::subscriber::set_default(Ear(ear)))
}

async fn next(audit: &mut UnboundedReceiver<(String, String)>) -> (String, String) {
    timeout(PATIENCE, audit.recv()).await.expect("it is audited").unwrap()
}

fn awaits(view: &View) -> bool {
    view.status.as_ref().is_some_and(|status| status.status == Status::Awaiting)
}

/// A chat whose turn waits for an answer, an answer of this kind, and a reader of the chat's stream.
pub async fn asking(stage: &Stage, kind: &str) -> (String, Value, Reader) {
    let agent = if kind == "result" { "asks" } else { "launches" };
    let chat = stage.chat(agent).await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, if kind == "result" { "Show me Oslo" } else { "Launch it" }).await;
    let ask = reader.until(awaits).await.status.unwrap().asks[0].clone();
    let answer = match kind {
        "approve" => json!({"kind": kind, "call": ask.call, "input_hash": ask.input_hash}),
        "deny" => json!({"kind": kind, "call": ask.call}),
        _ => json!({"kind": kind, "call": ask.call, "output": "a map"}),
    };
    (chat, json!({"answers": [answer]}), reader)
}

/// Sends a request, and closes the connection once `is_under_way`.
pub async fn send_and_go(
    stage: &Stage,
    method: Method,
    path: &str,
    body: &Value,
    is_under_way: impl Future<Output = ()>,
) {
    let others = open(stage).await;
    let request = Client::new().request(method, format!("{}{path}", stage.base)).bearer_auth(TOKEN).json(body);
    let sent = tokio::spawn(request.send());
    timeout(PATIENCE, is_under_way).await.expect("it is begun");
    sent.abort();
    until_open(stage, others).await;
}

/// Approving, denying and answering is audited, even if the client closes the connection right after sending.
#[tokio::test]
async fn decisions_of_disconnected_clients_are_audited() {
    let (mut audit, _guard) = audit();
    for (kind, event) in [("approve", "approved"), ("deny", "denied"), ("result", "answered")] {
        let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
        let (chat, answers, _reader) = asking(&stage, kind).await;
        let call = answers["answers"][0]["call"].as_str().unwrap().to_owned();
        store.outcomes.shut();
        let path = format!("{chat}/answers");
        send_and_go(&stage, Method::POST, &path, &answers, store.outcomes.until(1)).await;
        assert!(audit.is_empty(), "the outcome is not known yet");
        store.outcomes.open();
        assert_eq!(next(&mut audit).await, (event.to_owned(), call));
        stage.server.stop().await;
    }
}

/// An answer that was stored but not applied in time is audited; a refused one is not.
#[tokio::test]
async fn stored_answers_are_audited_and_refused_ones_are_not() {
    let (mut audit, _guard) = audit();
    let limits = ServerLimits { outcome_max: Duration::from_secs(2), ..ServerLimits::default() };
    let (stage, store) = Stage::sluggish(limits).await;
    let (chat, answers, _reader) = asking(&stage, "approve").await;
    let mut other = answers.clone();
    other["answers"][0]["input_hash"] = json!("0000000000000001");
    let (status, problem) = stage.post(&format!("{chat}/answers"), other).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "not-asked"));
    store.outcomes.shut();
    let (status, problem) = stage.post(&format!("{chat}/answers"), answers).await;
    assert_eq!((status, kind(&problem)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
    assert_eq!(next(&mut audit).await.0, "approved");
    assert!(audit.is_empty());
    store.outcomes.open();
    stage.server.stop().await;
}

/// A request that is repeated under its key, because its answer was lost or late, is audited as one decision.
#[tokio::test]
async fn a_repeated_answer_is_audited_once() {
    let (mut audit, _guard) = audit();
    let limits = ServerLimits { outcome_max: Duration::from_secs(2), ..ServerLimits::default() };
    let (stage, store) = Stage::sluggish(limits).await;
    for (kind, event) in [("approve", "approved"), ("deny", "denied"), ("result", "answered")] {
        let (chat, answers, mut reader) = asking(&stage, kind).await;
        let path = format!("{chat}/answers");
        let send = || async {
            let request = stage.ask(Method::POST, &path).header("Idempotency-Key", "once");
            request.json(&answers).send().await.unwrap().status()
        };
        store.outcomes.shut();
        assert_eq!(send().await, StatusCode::SERVICE_UNAVAILABLE);
        store.outcomes.open();
        let at_once = tokio::join!(send(), send(), send());
        assert_eq!(at_once, (StatusCode::OK, StatusCode::OK, StatusCode::OK));
        reader.until_rest().await;
        assert_eq!(send().await, StatusCode::OK);
        assert_eq!(
            next(&mut audit).await,
            (event.to_owned(), answers["answers"][0]["call"].as_str().unwrap().to_owned())
        );
        assert!(audit.is_empty(), "{kind}");
    }
    stage.server.stop().await;
}

/// Creating and revoking tokens is audited, even if the client closes the connection right after sending.
#[tokio::test]
async fn token_changes_of_disconnected_clients_are_audited() {
    let (mut audit, _guard) = audit();
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let secret = "evt_of-somebody-who-has-to-go";
    stage.grant(secret, "me", &[Scope::Read]).await;
    let id = TokenHash::of(secret).id();
    store.tokens.shut();
    let path = format!("/v1/tokens/{id}");
    send_and_go(&stage, Method::DELETE, &path, &json!({}), store.tokens.until(1)).await;
    store.tokens.open();
    assert_eq!(next(&mut audit).await, ("token_revoked".to_owned(), id));
    store.tokens.shut();
    let new = json!({"name": "phone", "scopes": ["read"]});
    let is_put = async {
        while stage.get("/v1/tokens").await.1["tokens"].as_array().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    send_and_go(&stage, Method::POST, "/v1/tokens", &new, is_put).await;
    store.tokens.open();
    assert_eq!(next(&mut audit).await.0, "token_made");
    stage.server.stop().await;
}
