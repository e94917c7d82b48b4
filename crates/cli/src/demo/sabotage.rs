//! Builds that lie, to see whether the demo notices.
//!
//! A proof that cannot fail proves nothing. With the feature `sabotage`, which no release has, `EVERTURN_SABOTAGE` makes
//! the daemon lose one delta (`lose-delta`), show one twice (`double-delta`), or run a tool twice that must not
//! (`tool-twice`). The demo has to end with 1 and say which.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use everturn::core::delta::{Delta, Handle};
use everturn::core::error::ProviderError;
use everturn::core::prompt::Request;
use everturn::providers::{Frame, Frames, ModelFacts, Provider};
use futures_util::{StreamExt as _, stream};

const VARIABLE: &str = "EVERTURN_SABOTAGE";
/// The delta of an answer's text that is tampered with.
const PLACE: u32 = 20;

fn is(lie: &str) -> bool {
    std::env::var(VARIABLE).is_ok_and(|value| value == lie)
}

/// Whether a tool is to be run twice, this once.
pub(super) fn runs_twice(tool: &str) -> bool {
    static DONE: AtomicBool = AtomicBool::new(false);
    tool == "note" && is("tool-twice") && !DONE.swap(true, Ordering::Relaxed)
}

/// A provider whose answers lose or double one delta, once in the life of the process.
pub(super) struct Lossy<P>(P);

static TAMPERED: AtomicBool = AtomicBool::new(false);

impl<P> Lossy<P> {
    pub(super) const fn new(provider: P) -> Self {
        Self(provider)
    }
}

fn tampered(frames: Frames) -> Frames {
    let count = Arc::new(AtomicU32::new(0));
    let loses = is("lose-delta");
    let doubles = is("double-delta");
    frames
        .flat_map(move |frame| {
            let is_it = matches!(&frame, Ok(Frame::Delta(Delta::Text(_))))
                && count.fetch_add(1, Ordering::Relaxed) == PLACE
                && (loses || doubles)
                && !TAMPERED.swap(true, Ordering::Relaxed);
            let frames = match (is_it, frame) {
                (true, Ok(Frame::Delta(delta))) if doubles => {
                    vec![Ok(Frame::Delta(delta.clone())), Ok(Frame::Delta(delta))]
                }
                (true, _) => vec![],
                (false, frame) => vec![frame],
            };
            stream::iter(frames)
        })
        .boxed()
}

#[async_trait]
impl<P: Provider> Provider for Lossy<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.0.facts(model)
    }

    async fn open(&self, request: Request) -> Result<Frames, ProviderError> {
        self.0.open(request).await.map(tampered)
    }

    async fn reattach(&self, model: &str, handle: &Handle) -> Result<Frames, ProviderError> {
        self.0.reattach(model, handle).await
    }

    async fn cancel(&self, handle: &Handle) -> Result<(), ProviderError> {
        self.0.cancel(handle).await
    }
}
