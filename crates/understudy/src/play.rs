//! Plays scripts in answer to requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use everturn_core::delta::{Delta, GenerationHandle};
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::limits::Thinking;
use everturn_core::prompt::{Request, Target, WireFormat, validate};
use everturn_core::recovery::Capabilities;
use everturn_providers::{Frame, FrameStream, ModelFacts, Provider};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::watch;

use crate::cue::{Cue, Script};
use crate::fault::{self, Happened};
use crate::heard::Heard;

/// A provider that plays scripts. Clones share their scripts and their log.
#[derive(Clone)]
pub struct Understudy {
    name: String,
    facts: ModelFacts,
    stage: Arc<Mutex<Stage>>,
}

struct Stage {
    scripts: VecDeque<Script>,
    otherwise: Otherwise,
    asked: Vec<UnderstudyRequest>,
    open: usize,
    happened: Happened,
    /// Counts how often streams were cut from outside.
    cuts: watch::Sender<u64>,
}

/// What is played when no script is left.
enum Otherwise {
    Nothing,
    Knowing(Box<dyn Fn(&Request) -> Script + Send>),
    Hearing(Box<dyn Fn(&Heard) -> Script + Send>),
}

/// A request to an understudy.
#[derive(Debug, Clone)]
pub enum UnderstudyRequest {
    /// To answer.
    Answer(Box<Request>),
    /// To resume a generation after its stream was lost.
    Reattach(GenerationHandle),
    /// To end one.
    Cancel(GenerationHandle),
}

impl Understudy {
    /// One that plays these scripts in order, and refuses everything after the last.
    #[must_use]
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        let facts = ModelFacts {
            target: Target::new(WireFormat::Anthropic, "understudy"),
            can: Capabilities::default(),
            thinks: Thinking::No,
            context_limit: None,
            output_max: u32::MAX,
            price: None,
        };
        let stage = Stage {
            scripts: scripts.into_iter().collect(),
            otherwise: Otherwise::Nothing,
            asked: Vec::new(),
            open: 0,
            happened: Happened::default(),
            cuts: watch::Sender::new(0),
        };
        Self { name: "understudy".into(), facts, stage: Arc::new(Mutex::new(stage)) }
    }

    /// One that makes up its script when it reads the request, in process only: no wire carries a [`Request`].
    #[must_use]
    pub fn improvising(script: impl Fn(&Request) -> Script + Send + 'static) -> Self {
        Self::otherwise(Otherwise::Knowing(Box::new(script)))
    }

    /// One that makes up its script from what it hears, in process and on every wire.
    #[must_use]
    pub fn hearing(script: impl Fn(&Heard) -> Script + Send + 'static) -> Self {
        Self::otherwise(Otherwise::Hearing(Box::new(script)))
    }

    fn otherwise(otherwise: Otherwise) -> Self {
        let understudy = Self::new([]);
        understudy.stage().otherwise = otherwise;
        understudy
    }

    /// This understudy with another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self.facts.target.provider = name.into();
        self
    }

    /// This understudy with other facts about its models.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ModelFacts)) -> Self {
        change(&mut self.facts);
        self
    }

    /// Everything it was asked so far.
    #[must_use]
    pub fn asked(&self) -> Vec<UnderstudyRequest> {
        self.stage().asked.clone()
    }

    /// The requests among that.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        let answers = self.asked().into_iter().filter_map(|asked| match asked {
            UnderstudyRequest::Answer(request) => Some(*request),
            UnderstudyRequest::Reattach(_) | UnderstudyRequest::Cancel(_) => None,
        });
        answers.collect()
    }

    /// How many scripts were not played.
    #[must_use]
    pub fn scripts_left(&self) -> usize {
        self.stage().scripts.len()
    }

    /// The number of open streams; dropping one closes it.
    #[must_use]
    pub fn streams_open(&self) -> usize {
        self.stage().open
    }

    /// Cuts the streams that are open in this process, as a broken connection does, and returns how many.
    pub fn cut_streams(&self) -> usize {
        let stage = self.stage();
        stage.cuts.send_modify(|count| *count += 1);
        stage.open
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_script(&self, asked: UnderstudyRequest) -> Result<Script, ProviderError> {
        let refused = |why: &str| ProviderError::new(&self.name, ErrorKind::Config).with_detail(why);
        let mut stage = self.stage();
        let faults = match &asked {
            UnderstudyRequest::Answer(request) => {
                let model = request.model.name();
                let named = fault::of_model(model).map_err(|unknown| refused(&unknown.to_string()))?;
                stage.happened.next(model, named)
            }
            UnderstudyRequest::Reattach(_) | UnderstudyRequest::Cancel(_) => Vec::new(),
        };
        if let Some(script) = faults.iter().find_map(|fault| fault::instead(fault.trouble)) {
            stage.asked.push(asked);
            return Ok(script);
        }
        let script = match (stage.scripts.pop_front(), &asked, &stage.otherwise) {
            (Some(script), _, _) => Some(script),
            (None, UnderstudyRequest::Answer(request), Otherwise::Knowing(script)) => Some(script(request)),
            (None, UnderstudyRequest::Answer(request), Otherwise::Hearing(script)) => {
                Some(script(&Heard::from(&**request)))
            }
            (None, _, _) => None,
        };
        stage.asked.push(asked);
        let script = script.ok_or_else(|| refused("no script is left"))?;
        Ok(faults.iter().fold(script, |script, fault| fault::befall(fault.trouble, script)))
    }

    /// The script for a request over HTTP.
    #[cfg(feature = "http")]
    pub(crate) fn script_for(&self, heard: &Heard) -> Option<Script> {
        let mut stage = self.stage();
        match (stage.scripts.pop_front(), &stage.otherwise) {
            (Some(script), _) => Some(script),
            (None, Otherwise::Hearing(script)) => Some(script(heard)),
            (None, Otherwise::Nothing | Otherwise::Knowing(_)) => None,
        }
    }

    /// The next written script, for a generation that goes on after its script was over.
    #[cfg(feature = "http")]
    pub(crate) fn next_written(&self) -> Option<Script> {
        self.stage().scripts.pop_front()
    }

    /// Counts a stream as open until this is dropped.
    #[cfg(feature = "http")]
    pub(crate) fn opened(&self) -> OpenStream {
        OpenStream::new(self.stage.clone())
    }

    async fn play(&self, script: Script) -> Result<FrameStream, ProviderError> {
        let mut cues: VecDeque<Cue> = script.into();
        while let Some(Cue::Slow(time)) = cues.front() {
            tokio::time::sleep(*time).await;
            cues.pop_front();
        }
        if let Some(Cue::Fail(error)) = cues.front() {
            return Err(error.as_ref().clone().with_provider(&self.name));
        }
        let open = OpenStream::new(self.stage.clone());
        let cut = self.stage().cuts.subscribe();
        let name = self.name.clone();
        let turns = stream::unfold((cues, VecDeque::new(), open, cut), move |(mut cues, mut ready, open, cut)| {
            let name = name.clone();
            async move {
                loop {
                    if cut.has_changed().unwrap_or(false) {
                        return None;
                    }
                    if let Some(frame) = ready.pop_front() {
                        return Some((frame, (cues, ready, open, cut)));
                    }
                    match cues.pop_front()? {
                        Cue::Slow(time) | Cue::Wait(time) => pause(time).await,
                        Cue::Say(deltas) => ready.extend(frames(deltas).into_iter().map(Ok)),
                        Cue::Ping => ready.push_back(Ok(Frame::Ping)),
                        Cue::Stop(stop) => ready.push_back(Ok(Frame::Stop(stop))),
                        Cue::Fail(error) => ready.push_back(Err(error.with_provider(&name))),
                        Cue::Raw(_) => ready.push_back(Err(ProviderError::new(&name, ErrorKind::Malformed))),
                        Cue::Cut => return None,
                        Cue::Hang => std::future::pending().await,
                    }
                }
            }
        });
        Ok(turns.boxed())
    }
}

/// What a cue says comes delta by delta, unless a handle covers it: then it is one frame, as adapters make it.
fn frames(deltas: Vec<Delta>) -> Vec<Frame> {
    if deltas.iter().any(|delta| matches!(delta, Delta::Handle(_))) {
        return vec![Frame::Together(deltas)];
    }
    deltas.into_iter().map(Frame::Delta).collect()
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

#[async_trait]
impl Provider for Understudy {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        self.facts.clone()
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        if let Err(violations) = validate(&request, &self.facts.target) {
            let what: Vec<String> = violations.iter().map(ToString::to_string).collect();
            let detail = format!("invalid request: {}", what.join("; "));
            return Err(ProviderError::new(&self.name, ErrorKind::Generic)
                .with_retry(everturn_core::error::Retry::Never)
                .with_detail(&detail));
        }
        let script = self.next_script(UnderstudyRequest::Answer(Box::new(request)))?;
        self.play(script).await
    }

    async fn reattach(&self, _model: &str, handle: &GenerationHandle) -> Result<FrameStream, ProviderError> {
        let script = self.next_script(UnderstudyRequest::Reattach(handle.clone()))?;
        self.play(script).await
    }

    async fn cancel(&self, handle: &GenerationHandle) -> Result<(), ProviderError> {
        self.stage().asked.push(UnderstudyRequest::Cancel(handle.clone()));
        Ok(())
    }
}

/// Counts a stream as open until it is dropped.
pub(crate) struct OpenStream(Arc<Mutex<Stage>>);

impl OpenStream {
    fn new(stage: Arc<Mutex<Stage>>) -> Self {
        stage.lock().unwrap_or_else(PoisonError::into_inner).open += 1;
        Self(stage)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
    }
}
