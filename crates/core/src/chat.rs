//! A chat, without the words.
//!
//! This is everything the driver decides on: small, whatever the length of the transcript. It is a fold over facts. A
//! commit is a list of facts, and applying them here and writing them to a store is the same event seen from two sides.

mod open_call;
mod pending;
mod repeats;
mod tail;

use std::sync::Arc;
use std::time::Duration;

use crate::alive::Alive;
use crate::budget::{self, BudgetUse};
use crate::cost::Micros;
use crate::error::ErrorKind;
use crate::fact::{AttemptOutcome, AttemptRecord, Fact, QueueEnd, Totals};
use crate::ids::{CallUid, ChatId, InboxSeq, MessageId, ModelId, StepId, Timestamp, Version};
use crate::limits::Limits;
use crate::message::{Body, CallResult, Message};
use crate::parent::ParentCall;
use crate::permission::{GRANTS_LEN_MAX, Grant};
use crate::quarantine::TakeoverCount;
use crate::retry;
use crate::setup::Setup;
use crate::status::{self, Status, Verb};
use crate::takeover::{DraftTakeovers, TakeoverPoint};
use crate::title;
use crate::turn_settings::TurnSettings;
use crate::view::Cursor;

pub use open_call::{AskBelow, AskDetail, CallOpening, CallState, Effect, OpenCall};
pub use pending::{Compacting, QueuedMessage, RetryWait};
pub use repeats::RepeatedCalls;
pub use tail::{TranscriptTail, tail_of};

/// The state of a chat, in every detail but its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// The chat's id.
    pub id: ChatId,
    /// The agent it talks to, by name.
    pub agent: String,
    /// The model it asks first from its next turn on, if that is not its agent's.
    pub model: Option<ModelId>,
    /// The owner, by a name that means something to the embedding program; empty if chats have no owners.
    pub owner: String,
    /// What people call it: at first what it began with.
    pub title: String,
    /// The time of the newest message, or of creation.
    pub touched: Timestamp,
    /// Instructions, tools and metadata of this chat beside its agent's. It never changes.
    pub setup: Option<Arc<Setup>>,
    /// The call that it was created for, if it is a sub-agent's. It never changes.
    pub parent: Option<Arc<ParentCall>>,
    /// The number of commits so far.
    pub version: Version,
    /// The status.
    pub status: Status,
    /// Whether it is archived.
    pub archived: bool,
    /// Whether requests and responses of its providers are recorded.
    pub debug: bool,
    /// Whether it answers one request of a client that keeps its conversation itself: no list shows it.
    pub internal: bool,
    /// Accepted messages that no turn has taken up yet, next first.
    pub queue: Vec<QueuedMessage>,
    /// The turn under way.
    pub turn: Option<Turn>,
    /// How the last turn ended.
    pub ended: Option<TurnEnd>,
    /// The newest message.
    pub newest: MessageId,
    /// What kind it is.
    pub tail: TranscriptTail,
    /// The step that is open, or will be the next.
    pub step: StepId,
    /// Calls of the last reply that have no result yet, in call order.
    pub calls: Vec<OpenCall>,
    /// Rules that people agreed to when they answered an ask.
    pub grants: Vec<Grant>,
    /// Until when answers, or calls that rest, are waited for.
    pub awaits_until: Option<Timestamp>,
    /// What has been tried in the open step.
    pub tried: StepAttempts,
    /// Until when the next attempt must wait.
    pub wait: Option<RetryWait>,
    /// Whether a summary was requested.
    pub compaction_asked: bool,
    /// The summary that is being written.
    pub compacting: Option<Compacting>,
    /// The newest step for which the embedding program's step hook ran.
    pub briefed: StepId,
    /// The newest command that was applied.
    pub obeyed: InboxSeq,
    /// What it has used.
    pub totals: Totals,
    /// What all chats of sub-agents below it had used, as far as it has looked.
    pub delegated: BudgetUse,
    /// How often a process took the chat over in the middle of its work.
    pub taken: TakeoverCount,
    /// Where the open draft's journal ended at each takeover.
    pub inherited: DraftTakeovers,
    /// Images and files up to this message are sent as a line of text: a request with them was refused, and
    /// one without them was answered.
    pub media_hidden_until: MessageId,
}

/// A turn under way: from a promoted message until rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    /// When it began.
    pub began: Timestamp,
    /// The step it began with, or was expected to begin with. An interrupt aimed at an earlier step comes too
    /// late.
    pub first: StepId,
    /// The newest message by then: that one and those before it belong to earlier turns.
    pub after: MessageId,
    /// Receipts of the messages that it answers: the one it began with, and those that steered it.
    pub heard: Vec<InboxSeq>,
    /// The chat's own model when it began; a model chosen meanwhile applies to the next turn.
    pub model: Option<ModelId>,
    /// What the request that it answers says about the model, if a request said anything.
    pub settings: Option<Arc<TurnSettings>>,
    /// Since when it waits for answers, if it does.
    pub rests_since: Option<Timestamp>,
    /// How long it has waited for answers before.
    pub rested: Duration,
    /// Replies so far.
    pub steps: u32,
    /// Summaries so far.
    pub compactions: u32,
    /// Tokens of all its attempts, and of its sub-agents as far as the chat has looked.
    pub tokens: u64,
    /// Cost of all its attempts, and of its sub-agents.
    pub cost: Micros,
    /// Sub-agents that it asked.
    pub sub_agents: u32,
    /// The tool that asked the turn to end, having succeeded.
    pub stop_after: Option<String>,
    /// Whether an empty reply was already asked again.
    pub reasked: bool,
    /// Whether the provider already refused a request as too long since the last summary.
    pub overflowed: bool,
    /// Calls that were made again and came to the same again.
    pub repeats: RepeatedCalls,
    /// How far its work was counted.
    pub alive: Alive,
}

impl Turn {
    /// How long it has worked by `now`, without the time it waited for answers.
    #[must_use]
    pub fn worked(&self, now: Timestamp) -> Duration {
        self.rests_since.unwrap_or(now).since(self.began).saturating_sub(self.rested)
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model was done.
    Done,
    /// A tool that ends turns succeeded.
    StopAfter(String),
    /// A person stopped it.
    Interrupted,
    /// The answer reached the output limit.
    Length,
    /// The provider cut the answer by its policy; what came before is kept.
    Filtered,
    /// The model said nothing, twice.
    Empty,
    /// As many steps as a turn may take.
    StepsMax,
    /// As long as a turn may last.
    TimeMax,
    /// As many tokens as a turn may use.
    TokensMax,
    /// As much money as a turn may cost.
    CostMax,
    /// Repeated calls with equal inputs and equal results, up to the limit.
    SameCallMax,
    /// An error that could not be recovered.
    Failed(Box<TurnFailure>),
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFailure {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message for people: what happened and what to do.
    pub message: String,
    /// What the provider said.
    pub detail: String,
    /// Attempts made in the step.
    pub attempts: u32,
}

/// What has been tried in the open step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepAttempts {
    /// Attempts that ended, over all models.
    pub attempts: u32,
    /// Index of the agent's model in use.
    pub model: usize,
    /// What that model has spent of its budget.
    pub spent: retry::RetrySpent,
    /// Whether requests no longer refer to the provider's copy of the transcript.
    pub without_chain: bool,
    /// Whether images and files are left out, because the request was refused with them.
    pub without_media: bool,
    /// Whether the last attempt's generation still runs at the provider and no row counts its tokens yet. The
    /// attempt that re-attaches to it counts them, or the fact that abandons it.
    pub unbilled_attempt: bool,
}

impl Chat {
    /// A new, empty chat of `owner` with an agent.
    #[must_use]
    pub fn new(id: ChatId, agent: &str, owner: &str) -> Self {
        Self {
            id,
            agent: agent.into(),
            model: None,
            owner: owner.into(),
            title: String::new(),
            touched: id.made_at(),
            version: Version(0),
            status: Status::Idle,
            archived: false,
            debug: false,
            internal: false,
            queue: Vec::new(),
            turn: None,
            ended: None,
            newest: MessageId(0),
            tail: TranscriptTail::Nothing,
            step: StepId(1),
            calls: Vec::new(),
            grants: Vec::new(),
            awaits_until: None,
            tried: StepAttempts::default(),
            wait: None,
            compaction_asked: false,
            compacting: None,
            briefed: StepId(0),
            obeyed: InboxSeq(0),
            totals: Totals::default(),
            delegated: BudgetUse::default(),
            taken: TakeoverCount::default(),
            inherited: DraftTakeovers::default(),
            media_hidden_until: MessageId(0),
            setup: None,
            parent: None,
        }
    }

    /// What the request that the turn answers says about the model, if a request said anything.
    #[must_use]
    pub fn settings(&self) -> Option<&TurnSettings> {
        self.turn.as_ref()?.settings.as_deref()
    }

    /// Whether a message sent now would have to wait.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        match self.status {
            Status::Running | Status::Interrupting | Status::Awaiting => true,
            Status::Idle | Status::Failed => false,
        }
    }

    /// The model that is asked first, if it is not the agent's: that of the turn, or of the next one.
    #[must_use]
    pub fn own_model(&self) -> Option<&ModelId> {
        self.turn.as_ref().map_or(&self.model, |turn| &turn.model).as_ref()
    }

    /// The calls that a client or a person can answer now; none while other calls still run.
    pub fn asks(&self) -> impl Iterator<Item = &OpenCall> {
        self.calls.iter().filter(|open| self.status == Status::Awaiting && open.state.asks())
    }

    /// Calls of chats below that a client or a person can answer there.
    pub fn asks_below(&self) -> impl Iterator<Item = AskBelow> {
        self.calls.iter().flat_map(|open| open.asks_below.iter().copied())
    }

    /// Whether an open call, of this chat or of one below, waits for a client or a person.
    #[must_use]
    pub fn waits_for_people(&self) -> bool {
        self.calls.iter().any(OpenCall::waits_for_people)
    }

    /// Whether an open call may run now. Calls of sub-agents are held back while as many work as may at once.
    #[must_use]
    pub fn may_run(&self, open: &OpenCall, limits: &Limits) -> bool {
        let is_held_back = || {
            let working = self.calls.iter().filter(|open| open.delegates && open.began().is_some()).count();
            open.delegates && working >= limits.sub_agents_at_once_max.max(1)
        };
        match open.state {
            CallState::Ready | CallState::Approved => !is_held_back(),
            CallState::Started { .. } => true,
            CallState::Rests { .. } | CallState::AsksClient | CallState::AsksApproval => false,
        }
    }

    /// How far an open call is.
    #[must_use]
    pub fn call_state(&self, uid: CallUid) -> Option<CallState> {
        self.calls.iter().find(|open| open.uid == uid).map(|open| open.state)
    }

    /// When the tool of a result that is about to be committed began, and how long it ran here. A call that went on
    /// elsewhere took no time of ours.
    pub(crate) fn ran_here(&self, result: &CallResult) -> Option<(Timestamp, Duration)> {
        let rested = self.call_state(result.call).is_some_and(CallState::rests);
        result.ran().filter(|_| !rested)
    }

    /// Whether a reader at this cursor may have seen deltas that were lost since.
    #[must_use]
    pub fn denies(&self, seen: Cursor) -> bool {
        seen.step == self.step && self.inherited.denies(seen)
    }

    /// Applies a commit.
    pub fn apply(&mut self, facts: &[Fact]) {
        for used in budget::used(self, facts).into_values() {
            self.totals.steps = self.totals.steps.saturating_add(used.steps);
            self.totals.time = self.totals.time.saturating_add(used.time);
            self.totals.alive = self.totals.alive.saturating_add(used.alive);
        }
        let alive = Alive::after(self, facts);
        self.in_turn(|turn| turn.alive = alive);
        for fact in facts {
            self.apply_one(fact);
        }
        self.version = self.version.next();
    }

    fn apply_one(&mut self, fact: &Fact) {
        match fact {
            Fact::Said(message, tail) => self.said(message, *tail),
            Fact::Opened(calls) => self.opened(calls),
            Fact::Started { call, effect, at } => {
                if self.calls.iter().any(|open| open.uid == *call && open.delegates && open.began().is_none()) {
                    self.in_turn(|turn| turn.sub_agents += 1);
                }
                self.set_call(*call, CallState::Started { effect: *effect, at: *at });
            }
            Fact::Rested { call, handle, at, look_at, misses } => self.on_call(*call, |open| {
                let began = open.began().unwrap_or(*at);
                open.state = CallState::Rests { began, look_at: *look_at, misses: *misses };
                open.handle = Some(handle.clone());
            }),
            Fact::Asked { call, handle, question, .. } => self.on_call(*call, |open| open.ask(handle, question)),
            Fact::Answered { call, answer } => self.on_call(*call, |open| open.answer(answer)),
            Fact::Approved(call) => self.set_call(*call, CallState::Approved),
            Fact::Granted(grant) => {
                self.grants.retain(|earlier| grant.at < earlier.until);
                self.grants.drain(..(self.grants.len() + 1).saturating_sub(GRANTS_LEN_MAX));
                self.grants.push((**grant).clone());
            }
            Fact::Revoked(call) => self.grants.retain(|grant| grant.call != *call),
            Fact::Progressed { call, text } => self.on_call(*call, |open| open.progress = Some(text.clone())),
            Fact::Queued(queued, QueueEnd::Back) => self.queue.push(queued.clone()),
            Fact::Queued(queued, QueueEnd::Front) => self.queue.insert(0, queued.clone()),
            Fact::Unqueued(id) => self.queue.retain(|queued| queued.id != *id),
            Fact::Moved(status) => self.moved(*status),
            Fact::TurnBegan(at) => self.turn_began(*at),
            Fact::Settings(settings) => self.in_turn(|turn| turn.settings = Some(settings.clone())),
            Fact::Foreseen(step) => self.in_turn(|turn| turn.first = turn.first.min(*step)),
            Fact::StopAfter(tool) => self.in_turn(|turn| turn.stop_after = Some(tool.clone())),
            Fact::Reasked => self.in_turn(|turn| turn.reasked = true),
            Fact::TurnEnded(end) => self.turn_ended(end),
            Fact::Attempted(attempted, tried) => self.attempted(attempted, *tried),
            Fact::Tried(tried) => self.tried = *tried,
            Fact::Briefed => self.briefed = self.step,
            Fact::Overflowed => self.in_turn(|turn| turn.overflowed = true),
            Fact::Waits(wait) => self.wait = Some((**wait).clone()),
            Fact::Awaits { since, until } => {
                self.awaits_until = Some(*until);
                self.in_turn(|turn| turn.rests_since = Some(*since));
            }
            Fact::Resumed(at) => {
                self.awaits_until = None;
                self.in_turn(|turn| {
                    turn.rested += turn.rests_since.take().map_or(Duration::ZERO, |since| at.since(since));
                });
            }
            Fact::Rewound { .. } => self.rewound(),
            Fact::CompactionAsked => self.compaction_asked = true,
            Fact::AsksBelow { call, asks } => self.on_call(*call, |open| open.asks_below = asks.to_vec()),
            Fact::Delegated(used) => self.delegated(*used),
            Fact::Compacts(compacting) => {
                self.compacting = Some((**compacting).clone());
                self.wait = None;
            }
            Fact::Archived(archived) => self.archived = *archived,
            Fact::Renamed(title) => self.title.clone_from(title),
            Fact::Chose(model) => self.model.clone_from(model),
            Fact::Debugged(debug) => self.debug = *debug,
            Fact::Obeyed(seq, _) => self.obeyed = *seq,
            Fact::TakenUp(taken) => self.taken = *taken,
            Fact::Inherited(seq) => {
                self.inherited = self.inherited.again(TakeoverPoint { version: self.version.next(), seq: *seq });
            }
        }
    }

    fn in_turn(&mut self, change: impl FnOnce(&mut Turn)) {
        if let Some(turn) = &mut self.turn {
            change(turn);
        }
    }

    fn said(&mut self, message: &Message, tail: TranscriptTail) {
        self.newest = message.id;
        self.tail = tail;
        self.touched = message.at;
        if let Some(sent) = &message.sent {
            self.in_turn(|turn| turn.heard.push(sent.receipt));
        }
        match &message.body {
            Body::Reply(reply) => {
                self.next_step(reply.step);
                self.in_turn(|turn| turn.steps += 1);
            }
            Body::Result(result) => {
                self.answered(result);
                if result.ran().is_some() {
                    self.taken.in_tools = 0; // It came back.
                }
            }
            Body::Summary(_) => {
                self.compaction_asked = false;
                self.in_turn(|turn| {
                    turn.compactions += 1;
                    turn.overflowed = false;
                });
            }
            Body::User(parts) if self.title.is_empty() => self.title = title::of(parts),
            Body::User(_) | Body::Context(_) => {}
        }
    }

    /// The draft of `step` and everything spent on it is over.
    fn next_step(&mut self, step: StepId) {
        self.step = step.next();
        self.tried = StepAttempts::default();
        self.wait = None;
        self.compacting = None;
        self.inherited = DraftTakeovers::default();
    }

    fn opened(&mut self, calls: &[OpenCall]) {
        self.calls = calls.to_vec();
        self.in_turn(|turn| turn.repeats.opened(calls));
    }

    fn answered(&mut self, result: &CallResult) {
        let Some(place) = self.calls.iter().position(|open| open.uid == result.call) else { return };
        let open = self.calls.remove(place);
        let is_last = self.calls.is_empty();
        self.in_turn(|turn| turn.repeats.answered(open.input_hash, &result.output, is_last));
    }

    fn on_call(&mut self, uid: CallUid, change: impl FnOnce(&mut OpenCall)) {
        if let Some(open) = self.calls.iter_mut().find(|open| open.uid == uid) {
            change(open);
        }
    }

    fn set_call(&mut self, uid: CallUid, state: CallState) {
        self.on_call(uid, |open| open.become_state(state));
    }

    fn moved(&mut self, status: Status) {
        let is_decided = |verb: &Verb| status::next(self.status, *verb) == Some(status);
        debug_assert!(Verb::ALL.iter().any(is_decided), "{:?} to {status:?} is not in the table", self.status);
        self.status = status;
        if status != Status::Awaiting {
            self.awaits_until = None;
        }
    }

    fn turn_began(&mut self, at: Timestamp) {
        let (first, after, model) = (self.step, self.newest, self.model.clone());
        self.turn = Some(Turn { began: at, first, after, model, ..Turn::default() });
    }

    fn turn_ended(&mut self, end: &TurnEnd) {
        self.turn = None;
        self.taken = TakeoverCount::default();
        self.tail = TranscriptTail::Nothing; // Or a summary asked for later would take it up again.
        self.ended = Some(end.clone());
        self.compaction_asked = false;
        self.next_step(self.step); // Whatever is left of a draft is not the next turn's.
    }

    fn attempted(&mut self, attempted: &AttemptRecord, tried: StepAttempts) {
        self.tried = tried;
        if tried.without_media && attempted.outcome == AttemptOutcome::Answered {
            self.media_hidden_until = self.newest;
        }
        self.wait = None;
        self.compacting = None;
        self.totals.tally.add(&attempted.tally);
        self.totals.spend.known = self.totals.spend.known.plus(attempted.spend.known);
        self.totals.spend.estimated = self.totals.spend.estimated.plus(attempted.spend.estimated);
        self.totals.attempts += 1;
        self.in_turn(|turn| {
            turn.tokens = turn.tokens.saturating_add(attempted.tally.total());
            turn.cost = turn.cost.plus(attempted.spend.total());
        });
    }

    fn delegated(&mut self, used: BudgetUse) {
        let tokens = used.tokens.saturating_sub(self.delegated.tokens);
        let cost = Micros(used.cost.0.saturating_sub(self.delegated.cost.0));
        self.in_turn(|turn| {
            turn.tokens = turn.tokens.saturating_add(tokens);
            turn.cost = turn.cost.plus(cost);
        });
        self.delegated = used;
    }

    fn rewound(&mut self) {
        self.tail = TranscriptTail::Nothing; // An edit says something at once.
        self.calls.clear();
        self.turn = None;
        self.compaction_asked = false;
        self.next_step(self.step);
    }
}

#[cfg(test)]
mod tests;
