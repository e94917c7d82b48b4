//! The `Provider` trait: what the engine needs from a provider.
//!
//! Thin on purpose: open a stream, re-attach to one, or cancel its generation. A provider never retries,
//! never waits longer than its sockets, and says of every error whether a retry makes sense. Dropping the
//! stream closes the connection.

use async_trait::async_trait;
use everturn_core::cost::Price;
use everturn_core::delta::{Delta, GenerationHandle};
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::limits::Thinking;
use everturn_core::message::Stop;
use everturn_core::prompt::{Request, Target};
use everturn_core::recovery::Capabilities;
use futures_util::stream::BoxStream;

/// A service that runs models.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Its name in `provider/model`, in metadata and in errors.
    fn name(&self) -> &str;

    /// What its limits hang on: the key it asks with. Providers with the same credential wait for each other.
    fn credential(&self) -> &str {
        self.name()
    }

    /// Where it is asked, for traces; none if no request leaves the process.
    fn server(&self) -> Option<ApiAddress> {
        None
    }

    /// What is known about one of its models, by the provider's own name for it.
    fn facts(&self, model: &str) -> ModelFacts;

    /// Sends a request and gives back the stream of its answer.
    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError>;

    /// Finds a generation again that lost its stream, after the cursor in the handle. What an event says has to come with
    /// its handle then, as one [`Frame::Together`].
    async fn reattach(&self, model: &str, handle: &GenerationHandle) -> Result<FrameStream, ProviderError> {
        let _ = (model, handle);
        Err(ProviderError::new(self.name(), ErrorKind::Config).with_detail("this provider keeps no generations"))
    }

    /// Cancels a generation that runs without its stream, because it will not be read again. A finished one
    /// stays as it is; a provider that keeps no generations does nothing.
    async fn cancel(&self, handle: &GenerationHandle) -> Result<(), ProviderError> {
        let _ = handle;
        Ok(())
    }
}

/// The address of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAddress {
    /// Its host.
    pub address: String,
    /// Its port.
    pub port: u16,
}

/// An answer as it arrives. It is over with [`Frame::Stop`]; a stream that ends without one was cut.
pub type FrameStream = BoxStream<'static, Result<Frame, ProviderError>>;

/// One event of a provider's stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// The answer grew.
    Delta(Delta),
    /// The answer grew by several deltas that are stored together or not at all: the deltas of one event and
    /// the handle after it. Deltas stored without the handle would come again after re-attaching; a handle
    /// stored without its deltas would lose them.
    Together(Vec<Delta>),
    /// The connection lives. Not progress.
    Ping,
    /// The answer is over, and why.
    Stop(Stop),
}

impl Frame {
    /// What the answer grew by.
    #[must_use]
    pub fn deltas(&self) -> &[Delta] {
        match self {
            Self::Delta(delta) => std::slice::from_ref(delta),
            Self::Together(deltas) => deltas,
            Self::Ping | Self::Stop(_) => &[],
        }
    }

    /// Makes one frame of what an event said, which is `out` from `seen` on, and the handle behind it.
    pub(crate) fn mark(out: &mut Vec<Self>, seen: usize, handle: GenerationHandle) {
        let said = out.drain(seen..).filter_map(|frame| match frame {
            Self::Delta(delta) => Some(delta),
            Self::Together(_) | Self::Ping | Self::Stop(_) => None,
        });
        let deltas = said.chain([Delta::Handle(Box::new(handle))]).collect();
        out.push(Self::Together(deltas));
    }
}

/// What is known about a model.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// How requests to it must look.
    pub target: Target,
    /// What it can do for a broken stream.
    pub can: Capabilities,
    /// Whether it thinks before it speaks: then silence means less.
    pub thinks: Thinking,
    /// Its window, in tokens, if known.
    pub context_limit: Option<u64>,
    /// The most it says at once, in tokens.
    pub output_max: u32,
    /// What a million tokens cost, if known.
    pub price: Option<Price>,
}
