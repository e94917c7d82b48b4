//! What a log says of a request has the request's name, also where only warnings are logged.

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use everturn_server::Bounds;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::stage::Stage;

/// Hears warnings, and in which request they are made.
struct Ear {
    heard: UnboundedSender<(String, Option<String>)>,
    /// The requests that were begun, by number, and those that this thread is in.
    names: Mutex<Vec<String>>,
    inside: Mutex<Vec<u64>>,
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
        *metadata.level() <= Level::WARN
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
        let mut message = Text("message", String::new());
        event.record(&mut message);
        let inside = self.inside.lock().unwrap().last().map(|id| self.names.lock().unwrap()[*id as usize - 1].clone());
        self.heard.send((message.1, inside)).unwrap();
    }

    fn enter(&self, id: &span::Id) {
        self.inside.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, _: &span::Id) {
        self.inside.lock().unwrap().pop();
    }
}

#[tokio::test]
async fn a_warning_has_the_name_of_its_request() {
    let (heard, mut warnings) = unbounded_channel();
    let _guard = tracing::subscriber::set_default(Ear { heard, names: Mutex::default(), inside: Mutex::default() });
    let (stage, store) = Stage::sluggish(Bounds::default()).await;
    let chat = stage.chat("numbered").await;
    store.is_broken.store(true, Ordering::SeqCst);
    let said = stage.ask(Method::POST, &format!("{chat}/messages")).header("x-request-id", "kelp-7");
    let answer = said.json(&json!({"text": "count to 3"})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let of_requests =
        std::iter::from_fn(|| warnings.try_recv().ok()).filter(|(what, _)| what.contains("not available"));
    assert_eq!(of_requests.collect::<Vec<_>>(), [("the store is not available".to_owned(), Some("kelp-7".to_owned()))]);
    stage.server.stop().await;
}
