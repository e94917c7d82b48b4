//! Calls that wait for their results.

use std::sync::Arc;

use crate::change::input_hash;
use crate::ids::{CallUid, ChatId, Timestamp};
use crate::message::Call;

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// Our name for it.
    pub uid: CallUid,
    /// The tool.
    pub tool: String,
    /// Hash of the input, for approvals.
    pub input_hash: u64,
    /// Whether it asks a sub-agent, which bounds how many of them run at once.
    pub delegates: bool,
    /// How far it is.
    pub state: CallState,
    /// The input as it came, or the question of its tool, while a client or a person must answer.
    pub input: Option<Arc<str>>,
    /// What a person should know about it, while it asks for approval and after it was approved.
    pub ask: Option<Arc<AskDetail>>,
    /// What the tool showed of its work last, while it runs.
    pub progress: Option<Arc<str>>,
    /// Calls of chats below that wait for a person, while it rests and a sub-agent works for it.
    pub asks_below: Vec<AskBelow>,
    /// Where its outcome is found while it rests, or where it goes on once a question is answered: JSON that the tool reads
    /// again, in this process or another.
    pub handle: Option<Arc<str>>,
}

/// A call of a sub-agent that waits for a client or a person. What is asked is read at its chat, and answered there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskBelow {
    /// The sub-agent's chat.
    pub chat: ChatId,
    /// The call.
    pub call: CallUid,
}

/// What a person should know about a call that asks for approval, beside its input. It is stored before it is shown, so
/// another process shows the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskDetail {
    /// What made it ask: a rule, `else`, or the policy of the tool.
    pub basis: String,
    /// What running it twice would do.
    pub effect: Effect,
    /// The path that the call is about, with links followed.
    pub path: Option<String>,
    /// How the tool is confined, if it says so.
    pub confinement: Option<String>,
    /// The rule that a grant would be; `None` if the call can only be allowed once.
    pub grant: Option<String>,
    /// The fingerprint of the tool's definition and the agent's rules, for the grant.
    pub terms: String,
}

/// What becomes of a call that was just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOpening {
    /// It is open, and this far.
    Open(CallState),
    /// A person is asked.
    Ask(Arc<AskDetail>),
    /// It never runs, and this is the result.
    Denied(String),
    /// It is the client's that sent the request: it is not open here, and the turn ends with it.
    Left,
}

impl CallOpening {
    const fn state(&self) -> CallState {
        match self {
            Self::Open(state) => *state,
            Self::Ask(_) => CallState::AsksApproval,
            Self::Denied(_) | Self::Left => CallState::Ready,
        }
    }
}

impl From<CallState> for CallOpening {
    fn from(state: CallState) -> Self {
        Self::Open(state)
    }
}

impl OpenCall {
    /// A call that has just been made.
    #[must_use]
    pub fn new(call: &Call, opening: impl Into<CallOpening>) -> Self {
        let opening = opening.into();
        let state = opening.state();
        let ask = match opening {
            CallOpening::Ask(detail) => Some(detail),
            CallOpening::Open(_) | CallOpening::Denied(_) | CallOpening::Left => None,
        };
        Self {
            uid: call.uid,
            tool: call.tool.clone(),
            input_hash: input_hash(&call.tool, &call.input),
            delegates: false,
            state,
            input: state.asks().then(|| call.input.as_str().into()),
            ask,
            progress: None,
            asks_below: Vec::new(),
            handle: None,
        }
    }

    /// Whether its tool asks a question, which a client can answer. The tool is started again with the answer.
    #[must_use]
    pub fn questions(&self) -> bool {
        self.state == CallState::AsksClient && self.handle.is_some()
    }

    /// Whether it cannot end before a client or a person has answered.
    #[must_use]
    pub fn waits_for_people(&self) -> bool {
        self.state.asks() || !self.asks_below.is_empty()
    }

    /// Whether it is still to be started. One that a crash interrupted was started.
    #[must_use]
    pub const fn is_to_start(&self) -> bool {
        match self.state {
            CallState::Ready | CallState::Approved => true,
            CallState::Started { .. } | CallState::Rests { .. } | CallState::AsksClient | CallState::AsksApproval => {
                false
            }
        }
    }

    /// Moves it to another state.
    pub(super) fn become_state(&mut self, state: CallState) {
        self.state = state;
        self.progress = None;
        self.asks_below.clear();
        self.input.take_if(|_| !state.asks());
    }

    /// Lets its tool ask a question.
    pub(super) fn ask(&mut self, handle: &Arc<str>, question: &Arc<str>) {
        self.become_state(CallState::AsksClient);
        self.handle = Some(handle.clone());
        self.input = Some(question.clone());
    }

    /// Lets it start again, with the answer beside its handle. Both are JSON.
    pub(super) fn answer(&mut self, answer: &str) {
        self.become_state(CallState::Approved);
        let handle = self.handle.as_deref().unwrap_or("null");
        self.handle = Some(format!("{{\"answer\":{answer},\"handle\":{handle}}}").into());
    }

    /// When it was started, if it was.
    #[must_use]
    pub const fn began(&self) -> Option<Timestamp> {
        match self.state {
            CallState::Started { at, .. } => Some(at),
            CallState::Rests { began, .. } => Some(began),
            CallState::Ready | CallState::Approved | CallState::AsksClient | CallState::AsksApproval => None,
        }
    }
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// It may run, if no approval is needed.
    Ready,
    /// A person was asked, and allows it.
    Approved,
    /// Its start was recorded; whether and how it ended is not.
    Started {
        /// The tool's effect, which decides recovery if its outcome is unknown.
        effect: Effect,
        /// When.
        at: Timestamp,
    },
    /// It was started and goes on elsewhere: at a server, in another chat, in a process of its own. No process of ours
    /// waits for it, and any may look what became of it.
    Rests {
        /// When it was started.
        began: Timestamp,
        /// When to look next.
        look_at: Timestamp,
        /// How often in a row the place where its outcome is could not be reached.
        misses: u32,
    },
    /// A client runs it, or answers a question of the tool that runs it: see [`OpenCall::questions`].
    AsksClient,
    /// A person decides on it.
    AsksApproval,
}

impl CallState {
    /// Whether it waits for a client or a person.
    #[must_use]
    pub const fn asks(self) -> bool {
        match self {
            Self::AsksClient | Self::AsksApproval => true,
            Self::Ready | Self::Approved | Self::Started { .. } | Self::Rests { .. } => false,
        }
    }

    /// Whether it goes on elsewhere.
    #[must_use]
    pub const fn rests(self) -> bool {
        matches!(self, Self::Rests { .. })
    }
}

/// What running a tool twice would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effect {
    /// Nothing: it only looks.
    Read,
    /// No more than running it once.
    Idempotent,
    /// Harm: it must not happen.
    #[default]
    Once,
}
