//! Where a chat stands.

use std::borrow::Cow;
use std::sync::Arc;

use everturn_core::ids::{ChatId, InboxSeq, MessageId, ModelId, Seq, StepId, Timestamp, Version};
use everturn_core::{chat, quarantine, takeover};
use serde::{Deserialize, Serialize};

use super::blob::{BlobId, Blobs, Bytes};
use super::count::Totals;
use super::grant::{AskDetail, Grant};
use super::name::{EffectWord, StatusWord, TailWord};
use super::parent::{AskBelow, BudgetUse, ParentCall};
use super::part::Parts;
use super::setup::Setup;
use super::turn::{Compacting, Tried, Turn, TurnEnd, Wait};
use super::value::{AsText, Uid, unset};
use super::{BadShape, Shape, Stored, Written, envelope};

/// The text of a chat.
#[must_use]
pub fn write(chat: &chat::Chat) -> Written {
    let mut blobs = Blobs::default();
    let shape = Chat::of(chat, &mut blobs);
    envelope::write(shape, blobs)
}

/// Reads what [`write()`] wrote.
pub fn parse(text: &str) -> Result<Stored<Chat<'static>>, BadShape> {
    envelope::stored("chat", text)
}

/// The mirror of a chat.
#[derive(Serialize, Deserialize)]
pub struct Chat<'a> {
    id: AsText<ChatId>,
    agent: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<AsText<ModelId>>,
    #[serde(default, skip_serializing_if = "unset")]
    owner: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    title: Cow<'a, str>,
    touched: i64,
    version: u64,
    status: StatusWord,
    #[serde(default, skip_serializing_if = "unset")]
    archived: bool,
    #[serde(default, skip_serializing_if = "unset")]
    debug: bool,
    #[serde(default, skip_serializing_if = "unset")]
    internal: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queue: Vec<Queued<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<Turn<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<TurnEnd<'a>>,
    newest: u64,
    tail: TailWord,
    step: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<OpenCall<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<Grant<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    awaits_until: Option<i64>,
    #[serde(default, skip_serializing_if = "unset")]
    tried: Tried,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait: Option<Wait<'a>>,
    #[serde(default, skip_serializing_if = "unset")]
    compaction_asked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compacting: Option<Compacting>,
    #[serde(default, skip_serializing_if = "unset")]
    briefed: u64,
    #[serde(default, skip_serializing_if = "unset")]
    obeyed: u64,
    #[serde(default, skip_serializing_if = "unset")]
    totals: Totals,
    #[serde(default, skip_serializing_if = "unset")]
    taken: Taken,
    #[serde(default, skip_serializing_if = "unset")]
    inherited: Inherited,
    #[serde(default, skip_serializing_if = "unset")]
    unseen: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    setup: Option<Setup<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentCall<'a>>,
    #[serde(default, skip_serializing_if = "unset")]
    delegated: BudgetUse,
}

#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Taken {
    #[serde(default, skip_serializing_if = "unset")]
    still: u32,
    #[serde(default, skip_serializing_if = "unset")]
    in_tools: u32,
    #[serde(default, skip_serializing_if = "unset")]
    step: u64,
    #[serde(default, skip_serializing_if = "unset")]
    attempt: u32,
    #[serde(default, skip_serializing_if = "unset")]
    newest: u64,
}

/// Each is a version and how far it went.
#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Inherited {
    #[serde(default, skip_serializing_if = "unset")]
    last: (u64, u64),
    #[serde(default, skip_serializing_if = "unset")]
    before: (u64, u64),
}

#[derive(Serialize, Deserialize)]
struct Queued<'a> {
    id: u64,
    at: i64,
    parts: Parts<'a>,
    #[serde(default, skip_serializing_if = "unset")]
    steers: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
struct OpenCall<'a> {
    uid: Uid,
    tool: Cow<'a, str>,
    input_hash: u64,
    state: CallState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ask: Option<AskDetail<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    progress: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    handle: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "unset")]
    delegates: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asks_below: Vec<AskBelow>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallState {
    Ready,
    Approved,
    Started { effect: EffectWord, at: i64 },
    Rests { began: i64, look_at: i64, misses: u32 },
    AsksClient,
    AsksApproval,
}

impl<'a> Chat<'a> {
    fn of(chat: &'a chat::Chat, blobs: &mut Blobs) -> Self {
        let chat::Chat {
            id,
            agent,
            model,
            owner,
            title,
            touched,
            version,
            status,
            archived,
            debug,
            internal,
            queue,
            turn,
            ended,
            newest,
            tail,
            step,
            calls,
            grants,
            awaits_until,
            tried,
            wait,
            compaction_asked,
            compacting,
            briefed,
            obeyed,
            totals,
            taken,
            inherited,
            media_hidden_until: unseen,
            setup,
            parent,
            delegated,
        } = chat;
        Self {
            id: AsText(*id),
            agent: agent.into(),
            model: model.clone().map(AsText),
            owner: owner.into(),
            title: title.into(),
            touched: touched.0,
            version: version.0,
            status: (*status).into(),
            archived: *archived,
            debug: *debug,
            internal: *internal,
            queue: queue.iter().map(|queued| Queued::of(queued, blobs)).collect(),
            turn: turn.as_ref().map(Turn::from),
            ended: ended.as_ref().map(TurnEnd::from),
            newest: newest.0,
            tail: (*tail).into(),
            step: step.0,
            calls: calls.iter().map(OpenCall::from).collect(),
            grants: grants.iter().map(Grant::from).collect(),
            awaits_until: awaits_until.map(|at| at.0),
            tried: (*tried).into(),
            wait: wait.as_ref().map(Wait::from),
            compaction_asked: *compaction_asked,
            compacting: compacting.as_ref().map(Compacting::from),
            briefed: briefed.0,
            obeyed: obeyed.0,
            totals: (*totals).into(),
            taken: (*taken).into(),
            inherited: (*inherited).into(),
            unseen: unseen.0,
            setup: setup.as_deref().map(Setup::from),
            parent: parent.as_deref().map(ParentCall::from),
            delegated: (*delegated).into(),
        }
    }
}

impl Shape for Chat<'_> {
    type Core = chat::Chat;

    fn wants(&self, wanted: &mut Vec<BlobId>) {
        self.queue.iter().for_each(|queued| queued.parts.wants(wanted));
    }

    fn build(self, bytes: &Bytes) -> Result<chat::Chat, BadShape> {
        Ok(chat::Chat {
            id: self.id.0,
            agent: self.agent.into_owned(),
            model: self.model.map(|model| model.0),
            owner: self.owner.into_owned(),
            title: self.title.into_owned(),
            touched: Timestamp(self.touched),
            version: Version(self.version),
            status: self.status.into(),
            archived: self.archived,
            debug: self.debug,
            internal: self.internal,
            queue: self.queue.into_iter().map(|queued| queued.build(bytes)).collect::<Result<_, _>>()?,
            turn: self.turn.map(Into::into),
            ended: self.ended.map(Into::into),
            newest: MessageId(self.newest),
            tail: self.tail.into(),
            step: StepId(self.step),
            calls: self.calls.into_iter().map(Into::into).collect(),
            grants: self.grants.into_iter().map(Into::into).collect(),
            awaits_until: self.awaits_until.map(Timestamp),
            tried: self.tried.into(),
            wait: self.wait.map(Into::into),
            compaction_asked: self.compaction_asked,
            compacting: self.compacting.map(Into::into),
            briefed: StepId(self.briefed),
            obeyed: InboxSeq(self.obeyed),
            totals: self.totals.into(),
            taken: self.taken.into(),
            inherited: self.inherited.into(),
            media_hidden_until: MessageId(self.unseen),
            setup: self.setup.map(Into::into),
            parent: self.parent.and_then(Into::into),
            delegated: self.delegated.into(),
        })
    }
}

impl From<quarantine::TakeoverCount> for Taken {
    fn from(quarantine::TakeoverCount { still, in_tools, step, attempt, newest }: quarantine::TakeoverCount) -> Self {
        Self { still, in_tools, step: step.0, attempt, newest: newest.0 }
    }
}

impl From<Taken> for quarantine::TakeoverCount {
    fn from(Taken { still, in_tools, step, attempt, newest }: Taken) -> Self {
        Self { still, in_tools, step: StepId(step), attempt, newest: MessageId(newest) }
    }
}

impl From<takeover::DraftTakeovers> for Inherited {
    fn from(takeover::DraftTakeovers { last, before }: takeover::DraftTakeovers) -> Self {
        let pair = |takeover::TakeoverPoint { version, seq }| (version.0, seq.0);
        Self { last: pair(last), before: pair(before) }
    }
}

impl From<Inherited> for takeover::DraftTakeovers {
    fn from(Inherited { last, before }: Inherited) -> Self {
        let found = |(version, seq)| takeover::TakeoverPoint { version: Version(version), seq: Seq(seq) };
        Self { last: found(last), before: found(before) }
    }
}

impl<'a> Queued<'a> {
    fn of(chat::QueuedMessage { id, at, parts, steers, key }: &'a chat::QueuedMessage, blobs: &mut Blobs) -> Self {
        let key = key.as_ref().map(Cow::from);
        Self { id: id.0, at: at.0, parts: Parts::of(parts, blobs), steers: *steers, key }
    }

    fn build(self, bytes: &Bytes) -> Result<chat::QueuedMessage, BadShape> {
        let (id, at, key) = (InboxSeq(self.id), Timestamp(self.at), self.key.map(Cow::into_owned));
        Ok(chat::QueuedMessage { id, at, parts: self.parts.build(bytes)?, steers: self.steers, key })
    }
}

impl<'a> From<&'a chat::OpenCall> for OpenCall<'a> {
    fn from(open: &'a chat::OpenCall) -> Self {
        let chat::OpenCall { uid, tool, input_hash, delegates, state, input, ask, progress, asks_below, handle } = open;
        let state = match *state {
            chat::CallState::Ready => CallState::Ready,
            chat::CallState::Approved => CallState::Approved,
            chat::CallState::Started { effect, at } => CallState::Started { effect: effect.into(), at: at.0 },
            chat::CallState::Rests { began, look_at, misses } => {
                CallState::Rests { began: began.0, look_at: look_at.0, misses }
            }
            chat::CallState::AsksClient => CallState::AsksClient,
            chat::CallState::AsksApproval => CallState::AsksApproval,
        };
        let input = input.as_deref().map(Cow::from);
        let ask = ask.as_deref().map(AskDetail::from);
        let progress = progress.as_deref().map(Cow::from);
        let handle = handle.as_deref().map(Cow::from);
        Self {
            uid: (*uid).into(),
            tool: tool.into(),
            input_hash: *input_hash,
            state,
            input,
            ask,
            progress,
            handle,
            delegates: *delegates,
            asks_below: asks_below.iter().copied().map(AskBelow::from).collect(),
        }
    }
}

impl From<OpenCall<'_>> for chat::OpenCall {
    fn from(open: OpenCall<'_>) -> Self {
        let OpenCall { uid, tool, input_hash, state, input, ask, progress, handle, delegates, asks_below } = open;
        let state = match state {
            CallState::Ready => chat::CallState::Ready,
            CallState::Approved => chat::CallState::Approved,
            CallState::Started { effect, at } => chat::CallState::Started { effect: effect.into(), at: Timestamp(at) },
            CallState::Rests { began, look_at, misses } => {
                chat::CallState::Rests { began: Timestamp(began), look_at: Timestamp(look_at), misses }
            }
            CallState::AsksClient => chat::CallState::AsksClient,
            CallState::AsksApproval => chat::CallState::AsksApproval,
        };
        let input = input.as_deref().map(Into::into);
        let ask = ask.map(|ask| Arc::new(ask.into()));
        let progress = progress.as_deref().map(Into::into);
        let handle = handle.as_deref().map(Into::into);
        Self {
            uid: uid.into(),
            tool: tool.into_owned(),
            input_hash,
            delegates,
            state,
            input,
            ask,
            progress,
            asks_below: asks_below.into_iter().map(Into::into).collect(),
            handle,
        }
    }
}
