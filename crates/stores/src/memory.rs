//! The reference store: everything in maps behind one lock.
//!
//! The other stores are compared with it, and it suffices for programs that need no chats after their end. Costs per
//! delta and per commit do not depend on the length of the chat.

mod create;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::change::admit_behind;
use everturn_core::chat::Chat;
use everturn_core::command::{InboxCommand, Refusal};
use everturn_core::draft::Draft;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{CallUid, ChatId, Fence, InboxSeq, MessageId, Seq, Timestamp, Version};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message};
use everturn_core::status::Status;
use everturn_core::view::{Cursor, Event, JournalRow, Snapshot, Standing};

use crate::ack::Ack;
use crate::call_log::{self, Entry};
use crate::heading::{ChatQuery, Heading};
use crate::idempotency::IdempotencyRecord;
use crate::new_chat::{MakeError, NewChat};
use crate::search;
use crate::shape;
use crate::store::{
    AppendRight, CallRecord, CommandRef, Lease, LoadPart, Loaded, MessageRange, MessageReader, News, NewsRead, Receipt,
    Store, StoreError, Submission, SubmitError, Submitted, Unsettled, WriteError,
};
use crate::tables::{self, ORPHANS_LEN_MAX, PAGE_LEN_MAX, PageBudget};
use crate::tokens::{Token, TokenHash, TokenKind, Tokens};

/// A store that lives as long as the process.
#[derive(Debug, Default)]
pub struct Memory {
    chats: Mutex<Chats>,
    tokens: Mutex<BTreeMap<TokenHash, Token>>,
    asked: Mutex<HashMap<(String, String), IdempotencyRecord>>,
    used: Mutex<BTreeMap<(String, Day), BudgetUse>>,
    used_below: Mutex<HashMap<ChatId, BudgetUse>>,
}

/// All chats.
#[derive(Debug, Default)]
struct Chats {
    by_id: BTreeMap<ChatId, StoredChat>,
    /// Chats created under a key of an owner, and the digest of the request.
    made: HashMap<(String, String), (ChatId, [u8; 32])>,
    /// Highest fence of a deleted chat: such a lease is never granted again.
    floor: Fence,
}

/// A command, and its outcome once the driver has applied it.
type StoredCommand = (InboxCommand, Option<Result<(), Refusal>>);

/// Everything stored for one chat.
#[derive(Debug)]
struct StoredChat {
    chat: Chat,
    fence: Fence,
    messages: Vec<(Version, Arc<Message>)>,
    rewinds: Vec<(Version, MessageId)>,
    rows: Vec<JournalRow>,
    inbox: BTreeMap<InboxSeq, StoredCommand>,
    keys: HashMap<String, InboxSeq>,
    attempts: Vec<AttemptRecord>,
    calls: BTreeMap<CallUid, CallRecord>,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn chats(&self) -> MutexGuard<'_, Chats> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner) // Every change below is made whole or not at all.
    }

    fn tokens(&self) -> MutexGuard<'_, BTreeMap<TokenHash, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, owner: &str, used: BTreeMap<Day, BudgetUse>) {
        let mut sums = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (day, used) in used {
            let sum = sums.entry((owner.to_owned(), day)).or_default();
            *sum = sum.plus(used);
        }
    }

    fn read<T>(&self, chat: ChatId, read: impl FnOnce(&StoredChat) -> T) -> Result<T, StoreError> {
        self.chats().by_id.get(&chat).map(read).ok_or(StoreError::NoSuchChat)
    }

    fn write<T>(
        &self,
        AppendRight { chat, fence }: AppendRight,
        write: impl FnOnce(&mut StoredChat) -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        match self.chats().by_id.get_mut(&chat) {
            Some(stored) if stored.fence == fence => write(stored),
            Some(_) => Err(WriteError::Fenced),
            None => Err(StoreError::NoSuchChat.into()),
        }
    }
}

#[async_trait]
impl Store for Memory {
    async fn create(&self, new: &NewChat) -> Result<ChatId, MakeError> {
        self.chats().create(new)
    }

    async fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError> {
        self.chats().created(new)
    }

    async fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError> {
        Ok(self.chats().made.get(&(owner.to_owned(), key.to_owned())).map(|(chat, _)| *chat))
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        let mut chats = self.chats();
        match chats.by_id.get(&lease.chat()) {
            Some(stored) if stored.fence == lease.fence() => {}
            Some(_) => return Err(WriteError::Fenced),
            None => return Err(StoreError::NoSuchChat.into()),
        }
        chats.by_id.remove(&lease.chat());
        chats.made.retain(|_, (made, _)| *made != lease.chat());
        chats.floor = chats.floor.max(lease.fence());
        self.used_below.lock().unwrap_or_else(PoisonError::into_inner).remove(&lease.chat());
        Ok(())
    }

    async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError> {
        let chats = self.chats();
        let wanted = search::wanted(&query.text);
        let fitting = chats.by_id.values().filter(|stored| stored.fits(query, &wanted));
        let mut headings: Vec<Heading> = fitting.map(StoredChat::heading).collect();
        headings.sort_by_key(|heading| std::cmp::Reverse(heading.place()));
        headings.truncate(query.len);
        Ok(headings)
    }

    async fn used_below(&self, chat: ChatId) -> Result<BudgetUse, StoreError> {
        let sums = self.used_below.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sums.get(&chat).copied().unwrap_or_default())
    }

    async fn orphans(&self) -> Result<Vec<ChatId>, StoreError> {
        let chats = self.chats();
        let is_orphan = |stored: &&StoredChat| {
            stored.chat.parent.as_ref().is_some_and(|above| !chats.by_id.contains_key(&above.parent()))
        };
        Ok(chats.by_id.values().filter(is_orphan).map(|stored| stored.chat.id).take(ORPHANS_LEN_MAX).collect())
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        let mut chats = self.chats();
        let stored = chats.by_id.get_mut(&chat).ok_or(StoreError::NoSuchChat)?;
        stored.submit(submission, limits).map(|seq| Receipt { chat, seq })
    }

    async fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError> {
        self.read(chat, |stored| {
            let seq = match command {
                CommandRef::Key(key) => *stored.keys.get(key)?,
                CommandRef::Seq(seq) => seq,
            };
            stored.command(seq).map(|(_, outcome)| Submitted { seq, outcome: *outcome })
        })
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        let mut chats = self.chats();
        let floor = chats.floor;
        let stored = chats.by_id.get_mut(&chat).ok_or(StoreError::NoSuchChat)?;
        let before = stored.fence;
        stored.fence = before.max(floor).next();
        Ok(Lease::granted(chat, stored.fence, before))
    }

    async fn release(&self, _lease: Lease) -> Result<(), StoreError> {
        Ok(()) // No other process can be waiting for it.
    }

    async fn load_held(&self, lease: &Lease, part: LoadPart) -> Result<Loaded, WriteError> {
        self.write(lease.append_right(), |stored| Ok(stored.load(part)))
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        self.read(chat, |stored| stored.pending().cloned().collect())
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        let chats = self.chats();
        let chats = chats.by_id.values().map(|stored| (&stored.chat, stored.pending().next().is_some()));
        let found = chats.filter(|(chat, has_commands)| chat.is_busy() || *has_commands);
        Ok(found.map(|(chat, has_commands)| Unsettled { chat: chat.id, has_commands }).collect())
    }

    async fn append(&self, right: AppendRight, rows: Vec<JournalRow>, ack: Ack) {
        ack.tell(self.write(right, |stored| stored.append(rows)));
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        let (version, below) = self.write(lease.append_right(), |stored| {
            let used = tables::used(&stored.chat, facts);
            let below = tables::used_below(&stored.chat, &used);
            let version = stored.commit(facts);
            self.count(&stored.chat.owner, used);
            Ok((version, below))
        })?;
        if !below.is_empty() {
            let chats = self.chats();
            let mut sums = self.used_below.lock().unwrap_or_else(PoisonError::into_inner);
            for (above, used) in below.into_iter().filter(|(above, _)| chats.by_id.contains_key(above)) {
                let sum = sums.entry(above).or_default();
                *sum = sum.plus(used);
            }
        }
        Ok(version)
    }

    fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
        NewsRead::reading(async move { self.read(chat, |stored| stored.since(cursor)) })
    }

    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        self.read(chat, StoredChat::standing)
    }

    async fn message(
        &self,
        chat: ChatId,
        id: MessageId,
        _reader: MessageReader,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        self.read(chat, |stored| {
            let place = stored.messages.binary_search_by_key(&id, |(_, message)| message.id).ok()?;
            Some(stored.messages[place].1.clone())
        })
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.read(chat, |stored| stored.attempts.iter().skip(seen).take(len).cloned().collect())
    }

    async fn messages(&self, chat: ChatId, range: MessageRange) -> Result<Vec<Arc<Message>>, StoreError> {
        self.read(chat, |stored| stored.messages(range))
    }

    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.read(chat, |stored| stored.calls.values().cloned().collect())
    }

    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        let chats = self.chats();
        let works = |(id, stored): &(&ChatId, &StoredChat)| {
            stored.chat.owner == owner && stored.works() && !besides.contains(id)
        };
        Ok(chats.by_id.iter().filter(works).count())
    }

    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let days = (owner.to_owned(), *days.start())..=(owner.to_owned(), *days.end());
        Ok(used.range(days).fold(BudgetUse::default(), |sum, (_, used)| sum.plus(*used)))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl Tokens for Memory {
    async fn put(&self, token: &Token) -> Result<(), StoreError> {
        self.tokens().entry(token.hash).or_insert_with(|| token.clone());
        Ok(())
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        Ok(self.tokens().get(hash).cloned())
    }

    async fn list(&self) -> Result<Vec<Token>, StoreError> {
        let mut tokens: Vec<Token> = self.tokens().values().cloned().collect();
        tokens.sort_by_key(|token| (token.made, token.hash));
        Ok(tokens)
    }

    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError> {
        if let Some(token) = self.tokens().get_mut(hash) {
            token.revoked.get_or_insert(at);
        }
        Ok(())
    }

    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError> {
        let mut tokens = self.tokens();
        let found = tokens
            .get_mut(code)
            .filter(|found| matches!(found.kind, TokenKind::Code { .. }) && found.is_good(session.made));
        let Some(found) = found else { return Ok(false) };
        found.revoked = Some(session.made);
        tokens.entry(session.hash).or_insert_with(|| session.clone());
        Ok(true)
    }

    async fn forget(&self, before: Timestamp) -> Result<(), StoreError> {
        self.tokens().retain(|_, token| !token.is_forgotten(before));
        Ok(())
    }

    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError> {
        let mut kept = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, earlier| earlier.at >= asked.oldest());
        Ok(kept.entry((asked.owner.clone(), asked.key.clone())).or_insert_with(|| asked.clone()).clone())
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        let kept = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.get(&(owner.to_owned(), key.to_owned())).cloned())
    }
}

impl StoredChat {
    fn fits(&self, query: &ChatQuery, wanted: &[Vec<u8>]) -> bool {
        let said = || self.messages.iter().filter_map(|(_, message)| search::of(message));
        query.fits(&self.chat) && (query.is_in_title(&self.chat) || said().any(|kept| search::fit(&kept, wanted)))
    }

    /// Whether it does something, or will at once.
    fn works(&self) -> bool {
        matches!(self.chat.status, Status::Running | Status::Interrupting) || self.pending().next().is_some()
    }

    fn new(chat: Chat) -> Self {
        Self {
            chat,
            fence: Fence(0),
            messages: Vec::new(),
            rewinds: Vec::new(),
            rows: Vec::new(),
            inbox: BTreeMap::new(),
            keys: HashMap::new(),
            attempts: Vec::new(),
            calls: BTreeMap::new(),
        }
    }

    fn submit(&mut self, submission: Submission, limits: &Limits) -> Result<InboxSeq, SubmitError> {
        let Submission { command, key, at } = submission;
        if let Some(seq) = key.as_ref().and_then(|key| self.keys.get(key)) {
            let is_same = self.command(*seq).is_some_and(|(earlier, _)| earlier.command == command);
            return if is_same { Ok(*seq) } else { Err(SubmitError::Conflict) };
        }
        let aimed = admit_behind(&self.chat, self.pending(), &command, limits, at, |id| self.is_users(id))?;
        let seq = self.inbox.last_key_value().map_or(self.chat.obeyed, |(newest, _)| *newest).next();
        self.keys.extend(key.clone().map(|key| (key, seq)));
        self.inbox.insert(seq, (InboxCommand { seq, aimed, at, key, command }, None));
        Ok(seq)
    }

    fn command(&self, seq: InboxSeq) -> Option<&StoredCommand> {
        self.inbox.get(&seq)
    }

    fn pending(&self) -> impl Iterator<Item = &InboxCommand> + Clone {
        let waiting = self.inbox.range((Bound::Excluded(self.chat.obeyed), Bound::Unbounded));
        waiting.map(|(_, (inbound, _))| inbound)
    }

    fn heading(&self) -> Heading {
        Heading::of(&self.chat, self.pending())
    }

    fn standing(&self) -> Standing {
        Standing::of(&self.chat, self.pending())
    }

    fn is_users(&self, id: MessageId) -> bool {
        let place = self.messages.binary_search_by_key(&id, |(_, message)| message.id);
        place.is_ok_and(|i| matches!(self.messages[i].1.body, Body::User(_)))
    }

    fn messages(&self, range: MessageRange) -> Vec<Arc<Message>> {
        let all = &self.messages;
        let page = match range {
            MessageRange::All => return all.iter().map(|(_, message)| message.clone()).collect(),
            MessageRange::Before(before, len) => {
                let end = before.map_or(all.len(), |id| all.partition_point(|(_, message)| message.id < id));
                &all[end - fitting(all[..end].iter().rev().take(len))..end]
            }
            MessageRange::After(after, len) => {
                let first = all.partition_point(|(_, message)| message.id <= after);
                &all[first..first + fitting(all[first..].iter().take(len))]
            }
        };
        page.iter().map(|(_, message)| message.without_bytes()).collect()
    }

    fn load(&self, part: LoadPart) -> Loaded {
        if part == LoadPart::State {
            return Loaded { chat: self.chat.clone(), messages: Vec::new(), rows: Vec::new() };
        }
        let summary = self.messages.iter().rposition(|(_, message)| matches!(message.body, Body::Summary(_)));
        let messages = self.messages[summary.unwrap_or(0)..].iter().map(|(_, message)| message.without_bytes());
        Loaded { chat: self.chat.clone(), messages: messages.collect(), rows: self.rows.clone() }
    }

    fn append(&mut self, rows: Vec<JournalRow>) -> Result<(), WriteError> {
        let next = Seq(self.rows.len() as u64).next();
        let fits = |(i, row): (usize, &JournalRow)| row.step == self.chat.step && row.seq.0 == next.0 + i as u64;
        if !rows.iter().enumerate().all(fits) {
            return Err(WriteError::OutOfPlace);
        }
        self.rows.extend(rows);
        Ok(())
    }

    fn commit(&mut self, facts: &[Fact]) -> Version {
        let mut chat = self.chat.clone();
        chat.apply(facts); // A move that is not in the table panics here, before anything has changed.
        for entry in call_log::entries(&self.chat, facts) {
            note(&mut self.calls, entry);
        }
        self.chat = chat;
        let version = self.chat.version;
        for fact in facts {
            match fact {
                Fact::Said(message, _) => self.messages.push((version, message.clone())),
                Fact::Rewound { from } => {
                    self.messages.retain(|(_, message)| message.id < *from);
                    self.rewinds.push((version, *from));
                }
                Fact::Attempted(attempted, _) => self.attempts.push((**attempted).clone()),
                Fact::Obeyed(seq, outcome) => {
                    if let Some(command) = self.inbox.get_mut(seq) {
                        command.1 = Some(*outcome);
                    }
                }
                _ => {} // The chat itself says the rest.
            }
        }
        if self.rows.first().is_some_and(|row| row.step < self.chat.step) {
            self.rows.clear();
        }
        version
    }

    fn cursor(&self) -> Cursor {
        Cursor { version: self.chat.version, step: self.chat.step, seq: Seq(self.rows.len() as u64) }
    }

    fn since(&self, cursor: Option<Cursor>) -> Option<News> {
        let now = self.cursor();
        let is_told = |seen: &Cursor| {
            let missed = &self.messages[self.messages.partition_point(|(at, _)| *at <= seen.version)..];
            fitting(missed.iter().rev().take(PAGE_LEN_MAX)) == missed.len()
        };
        let is_good = |seen: &Cursor| is_usable(*seen, now) && !self.chat.denies(*seen) && is_told(seen);
        let Some(seen) = cursor.filter(is_good) else {
            return Some(News { cursor: now, events: vec![Event::Reset(Box::new(self.snapshot()))] });
        };
        if seen == now {
            return None;
        }
        let mut events = Vec::new();
        if seen.version < now.version {
            self.commits_since(seen.version, &mut events);
        }
        let seq = if seen.step == now.step { seen.seq } else { Seq(0) };
        events.extend(self.rows[seq.0 as usize..].iter().map(JournalRow::without_bytes).map(Event::Delta));
        Some(News { cursor: now, events })
    }

    fn commits_since(&self, version: Version, events: &mut Vec<Event>) {
        let rewinds = self.rewinds.iter().rev().take_while(|(at, _)| *at > version);
        events.extend(rewinds.map(|(_, from)| *from).min().map(Event::Rewound));
        let first = self.messages.partition_point(|(at, _)| *at <= version);
        events.extend(self.messages[first..].iter().map(|(_, message)| Event::Message(message.without_bytes())));
        events.push(Event::Standing(Box::new(self.standing())));
    }

    fn snapshot(&self) -> Snapshot {
        let page = fitting(self.messages.iter().rev().take(PAGE_LEN_MAX));
        let messages =
            self.messages[self.messages.len() - page..].iter().map(|(_, message)| message.without_bytes()).collect();
        let rows: Vec<JournalRow> = self.rows.iter().map(JournalRow::without_bytes).collect();
        let draft = Draft::of_rows(&rows).expect("what is journalled has been folded before");
        Snapshot { messages, standing: self.standing(), draft }
    }
}

/// How many of these go on one page.
fn fitting<'m>(messages: impl Iterator<Item = &'m (Version, Arc<Message>)>) -> usize {
    let mut budget = PageBudget::page();
    messages.take_while(|(_, message)| budget.take(shape::message::write(&message.without_bytes()).json.len())).count()
}

fn note(calls: &mut BTreeMap<CallUid, CallRecord>, entry: Entry<'_>) {
    match entry {
        Entry::Started { uid, tool, effect, at } => {
            let new = || CallRecord { uid, tool: tool.into(), effect, started: at, starts: 0, ended: None };
            let record = calls.entry(uid).or_insert_with(new);
            record.started = at;
            record.starts += 1;
        }
        Entry::Ended { uid, verdict, at } => {
            if let Some(record) = calls.get_mut(&uid) {
                record.ended = Some((at, verdict));
            }
        }
    }
}

/// A cursor from the future, of a draft that never got so far, or of another step than the commit it names, was not
/// given by this chat.
pub(crate) fn is_usable(seen: Cursor, now: Cursor) -> bool {
    match (seen.version.cmp(&now.version), seen.step.cmp(&now.step)) {
        (Ordering::Less | Ordering::Equal, Ordering::Equal) => seen.seq <= now.seq,
        (Ordering::Less, Ordering::Less) => true,
        (Ordering::Greater, _) | (_, Ordering::Greater) | (Ordering::Equal, Ordering::Less) => false,
    }
}
