//! Telling a generation to a client, in the words of its protocol.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::core::chat::TurnFailure;
use serde_json::Value;
use tokio::time::timeout;

use super::answer::{AnswerEnd, AnswerNews, AnswerPiece, EndReason};
use super::collect::{self, WholeAnswer};
use super::{Generation, delivered, failure, stopped};
use crate::api::problem::{Problem, ProblemKind};
use crate::app::SharedApp;
use crate::auth::access::Caller;
use crate::fronts::Front;
use crate::fronts::stream::{self, FrontFrames, FrontPiece};

/// The header that names the generation.
const GENERATION: HeaderName = HeaderName::from_static("x-everturn-generation");

/// How long a stream's head waits for the first piece: what fails at once has a status of its own then.
const HEAD_WAIT: Duration = Duration::from_secs(3);

/// How long a connection gets to send the last event before it is broken.
const FLUSH_TIME: Duration = Duration::from_millis(100);

/// How a generation is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Piece by piece, as server-sent events.
    Stream,
    /// When it is whole.
    Whole,
}

impl Form {
    /// What a body's field `stream` asks for.
    pub(crate) fn of(body: &Value) -> Self {
        if body["stream"] == true { Self::Stream } else { Self::Whole }
    }
}

/// What follows a failure in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// The protocol has a last event for it.
    End,
    /// It has none, and a clean end would be taken for success.
    Break,
}

/// The words of a protocol for one answer.
pub(crate) trait AnswerProtocol: Send + 'static {
    /// The front it belongs to.
    const FRONT: Front;
    /// What follows a failure in a stream.
    const AFTER_FAILURE: AfterFailure = AfterFailure::Break;

    /// The name of the generation for clients.
    fn id(&self) -> &str;

    /// The first events of a stream, sent before the model has said anything.
    fn greeting(&mut self) -> Vec<u8>;

    /// Events for these pieces.
    fn pieces(&mut self, pieces: Vec<AnswerPiece>) -> Vec<u8>;

    /// The last events of an answer.
    fn end(&mut self, end: &AnswerEnd) -> Vec<u8>;

    /// The last event of a stream without a way on.
    fn failed(&mut self, failure: &TurnFailure) -> Vec<u8>;

    /// The answer of a request without a stream.
    fn whole(&mut self, answer: WholeAnswer) -> Value;

    /// The answer of a request that came to nothing.
    fn refusal(&self, failure: &TurnFailure) -> (StatusCode, Value);

    /// What is sent when nothing else was for a while. It must mean nothing to clients.
    fn keep_alive(&mut self) -> Bytes {
        Bytes::from_static(b": still here\n\n")
    }
}

/// Answers a request with a generation.
pub(crate) async fn tell(
    app: SharedApp,
    caller: &Caller,
    mut generation: Generation,
    form: Form,
    mut protocol: impl AnswerProtocol,
) -> Result<Response, Problem> {
    let name = HeaderValue::from_str(protocol.id());
    let name = name.map_err(|_| Problem::new(ProblemKind::Internal, "The name of a generation is no header."))?;
    let mut response = match form {
        Form::Stream => match beginning(&mut generation).await? {
            Beginning::Failed(failure) => refusal(&protocol, &failure),
            Beginning::Is(first) => {
                let front = front_of(&protocol);
                let frames =
                    AnswerFrames { app: app.clone(), generation, protocol, first, has_greeted: false, is_over: false };
                stream::respond(app, caller, front, frames)?
            }
        },
        Form::Whole => {
            let answer = collect::collect(&mut generation.reader).await?;
            app.meter.fronts.ended(front_of(&protocol), &answer.end, generation.is_attached);
            match failed(&answer.end.reason) {
                Some(failure) => refusal(&protocol, &failure),
                None => {
                    let body = protocol.whole(answer);
                    delivered(&app, generation.chat);
                    axum::Json(body).into_response()
                }
            }
        }
    };
    response.headers_mut().insert(GENERATION, name);
    Ok(response)
}

const fn front_of<P: AnswerProtocol>(_: &P) -> Front {
    P::FRONT
}

/// How a generation begins.
enum Beginning {
    /// With this, or with what is still to come.
    Is(Option<AnswerNews>),
    /// It came to nothing.
    Failed(TurnFailure),
}

async fn beginning(generation: &mut Generation) -> Result<Beginning, Problem> {
    let Ok(first) = timeout(HEAD_WAIT, generation.reader.next()).await else { return Ok(Beginning::Is(None)) };
    let first = first?;
    let failure = first.end.as_ref().filter(|_| first.pieces.is_empty()).and_then(|end| failed(&end.reason));
    Ok(failure.map_or(Beginning::Is(Some(first)), Beginning::Failed))
}

/// Why there is no answer, if there is none.
pub(crate) fn failed(reason: &EndReason) -> Option<TurnFailure> {
    match reason {
        EndReason::Failed(failure) => Some(TurnFailure::clone(failure)),
        EndReason::Stopped => Some(stopped()),
        EndReason::Done | EndReason::Calls | EndReason::Length | EndReason::Filtered => None,
    }
}

fn refusal(protocol: &impl AnswerProtocol, failure: &TurnFailure) -> Response {
    let (status, body) = protocol.refusal(failure);
    (status, [failure::NO_RETRY], axum::Json(body)).into_response()
}

/// The events of one generation.
struct AnswerFrames<P> {
    app: SharedApp,
    generation: Generation,
    protocol: P,
    /// What was read before the head was sent.
    first: Option<AnswerNews>,
    has_greeted: bool,
    is_over: bool,
}

impl<P: AnswerProtocol> FrontFrames for AnswerFrames<P> {
    async fn next(&mut self) -> FrontPiece {
        if self.is_over {
            tokio::time::sleep(FLUSH_TIME).await; // A connection that breaks drops what it has not sent.
            return FrontPiece::Broken("the generation failed");
        }
        if !std::mem::replace(&mut self.has_greeted, true) {
            let greeting = self.protocol.greeting();
            return FrontPiece::Frame(self.count(greeting));
        }
        let news = match self.first.take() {
            Some(news) => news,
            None => match self.generation.reader.next().await {
                Ok(news) => news,
                Err(error) => {
                    tracing::warn!(chat = %self.generation.chat, %error, "generation cannot be read; stream broken");
                    return FrontPiece::Broken("the generation cannot be read");
                }
            },
        };
        let mut bytes = self.protocol.pieces(news.pieces);
        let Some(end) = news.end else { return FrontPiece::Frame(self.count(bytes)) };
        self.app.meter.fronts.ended(P::FRONT, &end, self.generation.is_attached);
        let Some(failure) = failed(&end.reason) else {
            bytes.extend(self.protocol.end(&end));
            return FrontPiece::Last(self.count(bytes));
        };
        bytes.extend(self.protocol.failed(&failure));
        self.is_over = true;
        match P::AFTER_FAILURE {
            AfterFailure::End => FrontPiece::Last(self.count(bytes)),
            AfterFailure::Break => FrontPiece::Frame(self.count(bytes)),
        }
    }

    fn delivered(&mut self) {
        if !self.is_over {
            delivered(&self.app, self.generation.chat);
        }
    }

    fn keep_alive(&mut self) -> Bytes {
        self.protocol.keep_alive()
    }
}

impl<P: AnswerProtocol> AnswerFrames<P> {
    fn count(&self, bytes: Vec<u8>) -> Bytes {
        if self.generation.is_attached {
            self.app.meter.fronts.replayed(P::FRONT, bytes.len());
        }
        bytes.into()
    }
}
