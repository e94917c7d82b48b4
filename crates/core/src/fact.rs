//! Facts: the content of a commit.
//!
//! Facts are the vocabulary between the driver, the chat and the store: the driver makes them, the store writes them, and
//! the chat is what they add up to.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::BudgetUse;
use crate::chat::{
    AskBelow, Compacting, Effect, OpenCall, QueuedMessage, RetryWait, StepAttempts, TranscriptTail, TurnEnd,
};
use crate::command::Refusal;
use crate::cost::{Spend, StreamEnd, Tally};
use crate::delta::Rung;
use crate::error::{Cause, ErrorKind};
use crate::ids::{CallUid, InboxSeq, MessageId, ModelId, Seq, StepId, Timestamp};
use crate::message::{Body, Message};
use crate::permission::Grant;
use crate::quarantine::TakeoverCount;
use crate::status::Status;
use crate::turn_settings::TurnSettings;

/// One provider call and what became of it. A row of its own, also when nothing came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The step it was made for.
    pub step: StepId,
    /// Its number in the step.
    pub number: u32,
    /// The model that was called.
    pub model: ModelId,
    /// What for.
    pub aim: AttemptPurpose,
    /// When it began.
    pub began: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// What it used, as reported and as estimated.
    pub tally: Tally,
    /// What that costs.
    pub spend: Spend,
    /// How it ended.
    pub outcome: AttemptOutcome,
}

/// What an attempt was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AttemptPurpose {
    /// Not recorded: early versions stored rows without it.
    #[default]
    Unknown,
    /// An answer, on this rung.
    Answer(Rung),
    /// A summary.
    Summary,
}

impl AttemptPurpose {
    /// Its name, as metrics have it.
    #[must_use]
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Answer(rung) => Some(rung.label()),
            Self::Summary => Some("summary"),
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// With an answer.
    Answered,
    /// It broke.
    Broke(Cause, ErrorKind),
    /// A person stopped it.
    Interrupted,
    /// The process that held it is gone, or it was dropped to move on.
    Lost,
}

impl AttemptOutcome {
    /// What that means for the tokens it used.
    #[must_use]
    pub const fn end(self) -> StreamEnd {
        match self {
            Self::Answered => StreamEnd::Finished,
            Self::Broke(Cause::Refused, _) => StreamEnd::Refused,
            Self::Broke(..) | Self::Interrupted | Self::Lost => StreamEnd::Broken,
        }
    }
}

/// What all attempts and tools came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Their tokens.
    pub tally: Tally,
    /// What those cost.
    pub spend: Spend,
    /// How many attempts there were.
    pub attempts: u64,
    /// The replies that came of them.
    pub steps: u64,
    /// How long they took, and tools that came back, each for itself.
    pub time: Duration,
    /// How long its turns were at work: provider calls, waits between their attempts and tools, together. See
    /// [`crate::alive`].
    pub alive: Duration,
}

impl Totals {
    /// What budgets count of them.
    #[must_use]
    pub fn used(&self) -> BudgetUse {
        let Self { tally, spend, attempts: _, steps, time, alive } = self;
        BudgetUse { steps: *steps, time: *time, alive: *alive, tokens: tally.total(), cost: spend.total() }
    }
}

/// One thing that happened. A commit is a list of these.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A message was added. `tail` says what it means for the plan.
    Said(Arc<Message>, TranscriptTail),
    /// The reply just said leaves these calls open.
    Opened(Vec<OpenCall>),
    /// A call is about to be run.
    Started {
        /// Which.
        call: CallUid,
        /// The tool's effect, which decides recovery if its outcome is unknown.
        effect: Effect,
        /// When.
        at: Timestamp,
    },
    /// A call that was started goes on elsewhere, or was looked at and still does.
    Rested {
        /// Which.
        call: CallUid,
        /// Where its outcome is found.
        handle: Arc<str>,
        /// When that was known.
        at: Timestamp,
        /// When to look next.
        look_at: Timestamp,
        /// How often in a row the place could not be reached.
        misses: u32,
    },
    /// A call that was started cannot go on before a person has answered a question of its tool.
    Asked {
        /// Which.
        call: CallUid,
        /// Where it goes on from.
        handle: Arc<str>,
        /// What is asked, as JSON for clients.
        question: Arc<str>,
        /// When.
        at: Timestamp,
    },
    /// A sub-agent that a call waits for cannot go on before people have answered these calls, or can again.
    AsksBelow {
        /// The call that waits for it.
        call: CallUid,
        /// The calls that ask, of its chat and of those below.
        asks: Arc<[AskBelow]>,
    },
    /// The question of a call's tool was answered: it is to be started again with the answer.
    Answered {
        /// Which.
        call: CallUid,
        /// The answer, as JSON for the tool.
        answer: Arc<str>,
    },
    /// A call may run after all.
    Approved(CallUid),
    /// A person agreed to calls like one that was asked about.
    Granted(Box<Grant>),
    /// The grant that was given with this call is over.
    Revoked(CallUid),
    /// A running tool shows how far it is. It stands for what the tool showed before.
    Progressed {
        /// Which call.
        call: CallUid,
        /// What people see. The model is told nothing of it.
        text: Arc<str>,
    },
    /// A message was queued.
    Queued(QueuedMessage, QueueEnd),
    /// A queued message was taken up or deleted.
    Unqueued(InboxSeq),
    /// The status changed.
    Moved(Status),
    /// A turn began.
    TurnBegan(Timestamp),
    /// The turn that just began has these settings.
    Settings(Arc<TurnSettings>),
    /// The turn was expected to begin with this step: a command aimed at that step or a later one means this
    /// turn.
    Foreseen(StepId),
    /// A tool that ends turns succeeded.
    StopAfter(String),
    /// An empty reply is asked for again.
    Reasked,
    /// A turn ended.
    TurnEnded(TurnEnd),
    /// A provider call ended, and this is what has been tried by now.
    Attempted(Box<AttemptRecord>, StepAttempts),
    /// The next attempt is made on other terms, without one having been made on these.
    Tried(StepAttempts),
    /// The program has said what it had to say about the open step.
    Briefed,
    /// The provider refused the request as too long.
    Overflowed,
    /// The next attempt waits.
    Waits(Box<RetryWait>),
    /// Answers are awaited.
    Awaits {
        /// From now on.
        since: Timestamp,
        /// At most until then.
        until: Timestamp,
    },
    /// The answers came, or the deadline passed: the turn works again.
    Resumed(Timestamp),
    /// Everything from this message on is gone.
    Rewound {
        /// The first message that is gone.
        from: MessageId,
    },
    /// Chats of sub-agents have used this much together, since the chat exists.
    Delegated(BudgetUse),
    /// A summary was asked for.
    CompactionAsked,
    /// A summary is being written. The next attempt that ends is this one.
    Compacts(Box<Compacting>),
    /// Archived, or restored.
    Archived(bool),
    /// The title was changed.
    Renamed(String),
    /// The model for the next turns was chosen; `None` is the agent's.
    Chose(Option<ModelId>),
    /// Recording of provider traffic was switched on or off.
    Debugged(bool),
    /// A process took the chat up in the middle of its work.
    TakenUp(TakeoverCount),
    /// A process took over a draft that another one wrote; the journal ended here.
    Inherited(Seq),
    /// A command was applied or refused.
    Obeyed(InboxSeq, Result<(), Refusal>),
}

impl Fact {
    /// Whether it is a reply of the model.
    #[must_use]
    pub fn is_reply(&self) -> bool {
        matches!(self, Self::Said(message, _) if matches!(message.body, Body::Reply(_)))
    }
}

/// Where in the queue a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueEnd {
    /// Behind the others.
    Back,
    /// Before the others.
    Front,
}
