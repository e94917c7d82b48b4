//! What SQLite and Postgres share: page limits, the rows of a commit, and words for enums in columns.

use std::collections::BTreeMap;
use std::time::Duration;

use everturn_core::budget::{self, BudgetUse, Day};
use everturn_core::chat::{Chat, Effect};
use everturn_core::command::InboxCommand;
use everturn_core::cost::Micros;
use everturn_core::draft::Draft;
use everturn_core::fact::Fact;
use everturn_core::ids::{ChatId, InboxSeq, MessageId};
use everturn_core::message::{Body, CallVerdict};
use everturn_core::status::Status;
use everturn_core::view::{JournalRow, Standing};

use crate::search;
use crate::shape::{self, Written};
use crate::store::StoreError;

/// What a delta must survive before it is shown. Accepted commands and commits survive everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of the process. A power cut takes a quarter of a second at most.
    #[default]
    Process,
    /// A power cut.
    Full,
}

/// Messages in a snapshot at most, and missed messages after which a subscriber gets a snapshot. [`PAGE_BYTES_MAX`]
/// limits their bytes as well.
pub const PAGE_LEN_MAX: usize = 200;

/// Bytes of stored text on a page at most, unless a single message has more.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Byte limit of a page being filled. The first message always fits, so that a reader can get past it.
#[derive(Debug)]
pub(crate) struct PageBudget {
    bytes: usize,
    max: usize,
}

impl PageBudget {
    /// For one page.
    pub(crate) const fn page() -> Self {
        Self { bytes: 0, max: PAGE_BYTES_MAX }
    }

    /// Without a limit.
    pub(crate) const fn endless() -> Self {
        Self { bytes: 0, max: usize::MAX }
    }

    /// The limit.
    pub(crate) const fn bytes_max(&self) -> usize {
        self.max
    }

    /// Counts a text of this many bytes, and returns whether it still fits.
    pub(crate) const fn take(&mut self, bytes: usize) -> bool {
        let is_first = self.bytes == 0;
        self.bytes = self.bytes.saturating_add(bytes);
        is_first || self.bytes <= self.max
    }
}

/// A chat with the commands that wait in its inbox, as clients see it.
pub(crate) struct ChatWithInbox {
    pub(crate) chat: Chat,
    pub(crate) pending: Vec<InboxCommand>,
}

impl ChatWithInbox {
    pub(crate) fn standing(&self) -> Standing {
        Standing::of(&self.chat, self.pending.iter())
    }
}

/// What is read of the bytes that a text refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// All of them.
    Bytes,
    /// How many there are.
    Lengths,
}

/// Rows that a commit adds, as far as they follow from its facts alone.
#[derive(Debug, Default)]
pub(crate) struct CommitRows {
    /// Everything from this message on is rewound. Applied before the messages.
    pub(crate) gone: Option<MessageId>,
    pub(crate) messages: Vec<MessageRow>,
    pub(crate) attempts: Vec<String>,
    pub(crate) outcomes: Vec<(InboxSeq, String)>,
}

/// A message to store.
#[derive(Debug)]
pub(crate) struct MessageRow {
    pub(crate) id: MessageId,
    pub(crate) kind: &'static str,
    pub(crate) body: Written,
    /// Words for the search.
    pub(crate) words: Option<Vec<u8>>,
}

impl CommitRows {
    pub(crate) fn of(facts: &[Fact]) -> Self {
        let mut split = Self::default();
        for fact in facts {
            match fact {
                Fact::Said(message, _) => {
                    let (kind, body) = (kind_word(&message.body), shape::message::write(message));
                    let words = search::of(message);
                    split.messages.push(MessageRow { id: message.id, kind, body, words });
                }
                Fact::Rewound { from } => {
                    split.messages.retain(|message| message.id < *from);
                    split.gone = Some(split.gone.map_or(*from, |gone| gone.min(*from)));
                }
                Fact::Attempted(attempted, _) => split.attempts.push(shape::attempted::write(attempted)),
                Fact::Obeyed(seq, outcome) => split.outcomes.push((*seq, shape::outcome::write(*outcome))),
                _ => {} // The chat itself says the rest.
            }
        }
        split
    }
}

/// Budget use of a commit per day, limited so that sums of many commits fit into a column. Real values are never cut.
pub(crate) fn used(before: &Chat, facts: &[Fact]) -> BTreeMap<Day, BudgetUse> {
    let countable = |number: u64| number.min(1 << 40);
    let cut = |BudgetUse { steps, time, alive, tokens, cost: Micros(cost) }| BudgetUse {
        steps: countable(steps),
        time: Duration::from_millis(countable(millis(time))),
        alive: Duration::from_millis(countable(millis(alive))),
        tokens: countable(tokens),
        cost: Micros(countable(cost)),
    };
    budget::used(before, facts).into_iter().map(|(day, used)| (day, cut(used))).collect()
}

/// Orphaned chats that are read at once.
pub(crate) const ORPHANS_LEN_MAX: usize = 100;

/// What a commit adds to the counts of the chats above, from the topmost on: so that two commits never wait for each other.
pub(crate) fn used_below(chat: &Chat, used: &BTreeMap<Day, BudgetUse>) -> Vec<(ChatId, BudgetUse)> {
    let sum = used.values().fold(BudgetUse::default(), |sum, used| sum.plus(*used));
    let above = chat.parent.iter().flat_map(|parent| &parent.above);
    above.filter(|_| sum != BudgetUse::default()).map(|above| (above.chat, sum)).collect()
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// What the model answered.
pub(crate) const REPLY: &str = "reply";
/// A message a person sent.
pub(crate) const USER: &str = "user";
/// A summary.
pub(crate) const SUMMARY: &str = "summary";

const fn kind_word(body: &Body) -> &'static str {
    match body {
        Body::User(_) => USER,
        Body::Summary(_) => SUMMARY,
        Body::Context(_) => "context",
        Body::Reply(_) => REPLY,
        Body::Result(_) => "result",
    }
}

/// Whether the chat needs a driver after a restart.
pub(crate) fn is_unsettled(chat: &Chat, submitted: InboxSeq) -> bool {
    chat.is_busy() || submitted > chat.obeyed
}

/// The draft that rows add up to, beginning with the first.
pub(crate) fn draft_of(rows: &[JournalRow]) -> Result<Option<Draft>, StoreError> {
    Draft::of_rows(rows).map_err(|error| StoreError::Unreadable(format!("the journal: {error}")))
}

macro_rules! words {
    ($($core:ident: $to:ident, $from:ident { $($variant:ident = $word:literal),+ $(,)? })+) => {$(
        pub(crate) const fn $to(value: $core) -> &'static str {
            match value { $($core::$variant => $word),+ }
        }

        pub(crate) fn $from(word: &str) -> Result<$core, StoreError> {
            match word {
                $($word => Ok($core::$variant),)+
                other => Err(StoreError::Unreadable(format!("unknown word {other:?}"))),
            }
        }
    )+};
}

words! {
    Status: status_word, status_of {
        Idle = "idle", Running = "running", Interrupting = "interrupting", Awaiting = "awaiting", Failed = "failed",
    }
    Effect: effect_word, effect_of { Read = "read", Idempotent = "idempotent", Once = "once" }
    CallVerdict: verdict_word, verdict_of {
        Done = "done", Error = "error", Denied = "denied", Interrupted = "interrupted", Unknown = "unknown",
    }
}
