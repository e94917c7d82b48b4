//! Log lines of a request have the request's id, also at level `warn`, and its chat.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use everturn_server::ServerLimits;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::stage::Stage;

/// Collects log lines with the request they belong to.
struct Ear {
    level: Level,
    heard: UnboundedSender<Line>,
    /// Request spans by number, and the spans that this thread has entered.
    names: Mutex<Vec<String>>,
    inside: Mutex<Vec<u64>>,
}

/// One log line: its message, its request, and its chat.
#[derive(Debug, PartialEq)]
struct Line {
    message: String,
    inside: Option<String>,
    chat: String,
}

/// The text of a field.
struct Text(&'static str, String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == self.0 {
            self.1 = format!("{value:?}").trim_matches('"').to_owned();
        }
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut id = Text("id", String::new());
        attributes.record(&mut id);
        let mut names = self.names.lock().unwrap();
        names.push(id.1);
        span::Id::from_u64(names.len() as u64)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let (mut message, mut chat) = (Text("message", String::new()), Text("chat", String::new()));
        event.record(&mut message);
        event.record(&mut chat);
        let inside = self.inside.lock().unwrap().last().map(|id| self.names.lock().unwrap()[*id as usize - 1].clone());
        let _ = self.heard.send(Line { message: message.1, inside, chat: chat.1 }); // The test may be over.
    }

    fn enter(&self, id: &span::Id) {
        self.inside.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, _: &span::Id) {
        self.inside.lock().unwrap().pop();
    }
}

fn listen(level: Level) -> (UnboundedReceiver<Line>, DefaultGuard) {
    let (heard, lines) = unbounded_channel();
    let ear = Ear { level, heard, names: Mutex::default(), inside: Mutex::default() };
    (lines, tracing::subscriber::set_default(ear))
}

#[tokio::test]
async fn a_warning_has_the_name_of_its_request() {
    let (mut warnings, _guard) = listen(Level::WARN);
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let chat = stage.chat("numbered").await;
    store.is_broken.store(true, Ordering::SeqCst);
    let said = stage.ask(Method::POST, &format!("{chat}/messages")).header("x-request-id", "kelp-7");
    let answer = said.json(&json!({"text": "count to 3"})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let of_requests =
        std::iter::from_fn(|| warnings.try_recv().ok()).filter(|line| line.message.contains("unavailable"));
    let named = of_requests.map(|line| (line.message, line.inside)).collect::<Vec<_>>();
    assert_eq!(named, [("store unavailable; answered 503".to_owned(), Some("kelp-7".to_owned()))]);
    stage.server.stop().await;
}

/// A request's log line names its chat: the one in the path, or the one it created.
#[tokio::test]
async fn the_line_of_a_request_has_its_chat() {
    let (mut lines, _guard) = listen(Level::INFO);
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    stage.get(&chat).await;
    stage.get(&format!("{chat}/messages")).await;
    stage.get("/v1/models").await;
    stage.get("/v1/chats/nonsense").await;
    let id = chat.rsplit('/').next().unwrap();
    let answered = std::iter::from_fn(|| lines.try_recv().ok()).filter(|line| line.message == "answered");
    assert_eq!(answered.map(|line| line.chat).collect::<Vec<_>>(), [id, id, id, "", ""]);
    stage.server.stop().await;
}
