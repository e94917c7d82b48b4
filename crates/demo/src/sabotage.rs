//! Builds that lie, to see whether the demo notices.
//!
//! A proof that cannot fail proves nothing. With the feature `sabotage`, which no release has, `EVERTURN_SABOTAGE` makes
//! the daemon lose one delta (`lose-delta`), run a tool twice that must not (`tool-twice`) or say that tools ran which did
//! not (`no-tool`), or the understudy break nothing (`no-fault`). The demo has to end with 1 and say which.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use everturn::core::delta::{Delta, GenerationHandle};
use everturn::core::error::ProviderError;
use everturn::core::prompt::Request;
use everturn::providers::{ApiAddress, Frame, FrameStream, ModelFacts, Provider};
use futures_util::StreamExt as _;

const VARIABLE: &str = "EVERTURN_SABOTAGE";
/// Which delta of an answer's text is lost.
const PLACE: u32 = 21;

pub(super) fn is(lie: &str) -> bool {
    std::env::var(VARIABLE).is_ok_and(|value| value == lie)
}

/// Whether a tool is to be run twice, this once.
pub(super) fn runs_twice(tool: &str) -> bool {
    static DONE: AtomicBool = AtomicBool::new(false);
    tool == "note" && is("tool-twice") && !DONE.swap(true, Ordering::Relaxed)
}

/// A provider one of whose answers lacks a delta, once in the life of the process.
pub(super) struct Lossy<P>(P);

impl<P> Lossy<P> {
    pub(super) const fn new(provider: P) -> Self {
        Self(provider)
    }
}

fn tampered(frames: FrameStream) -> FrameStream {
    static DONE: AtomicBool = AtomicBool::new(false);
    let loses = is("lose-delta");
    let place = |place: &mut u32, frame: Result<Frame, ProviderError>| {
        let deltas = frame.iter().flat_map(Frame::deltas);
        *place += deltas.map(|delta| u32::from(matches!(delta, Delta::Text(_)))).sum::<u32>();
        std::future::ready(Some((*place, frame)))
    };
    let is_kept = move |(place, _): &(u32, Result<Frame, ProviderError>)| {
        std::future::ready(!(loses && *place == PLACE && !DONE.swap(true, Ordering::Relaxed)))
    };
    frames.scan(0, place).filter(is_kept).map(|(_, frame)| frame).boxed()
}

#[async_trait]
impl<P: Provider> Provider for Lossy<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn server(&self) -> Option<ApiAddress> {
        self.0.server()
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.0.facts(model)
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        self.0.open(request).await.map(tampered)
    }

    async fn reattach(&self, model: &str, handle: &GenerationHandle) -> Result<FrameStream, ProviderError> {
        self.0.reattach(model, handle).await
    }

    async fn cancel(&self, handle: &GenerationHandle) -> Result<(), ProviderError> {
        self.0.cancel(handle).await
    }
}
