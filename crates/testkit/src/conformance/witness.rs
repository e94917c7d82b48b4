//! A store and what it should hold, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn_core::change::Change;
use everturn_core::command::{Command, Delivery, InboxCommand, Refusal};
use everturn_core::delta::Delta;
use everturn_core::draft::Draft;
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, ChatId, InboxSeq, Seq, Timestamp, Version};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message};
use everturn_core::view::{Cursor, Event, JournalRow, Snapshot, Standing};
use everturn_stores::{
    CallRecord, Heading, Lease, MessageRange, MessageReader, NewChat, News, Receipt, Store, StoreExt as _, Submission,
    SubmitError, WriteError,
};
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send};
use everturn_testkit::rehearsal::{Stage, tiny_limits};

/// One chat in a store, its lease, and the picture it must equal.
pub struct Witness<S> {
    /// The store.
    pub store: Arc<S>,
    /// The newest lease.
    pub lease: Lease,
    /// The picture.
    pub stage: Stage,
    /// What commands are held to.
    pub limits: Limits,
    /// The tool calls that were started.
    pub calls: BTreeMap<CallUid, CallRecord>,
}

impl<S: Store> Witness<S> {
    /// Makes chat `number` and takes its lease.
    pub async fn new(store: &Arc<S>, number: u128) -> Self {
        let (store, stage) = (store.clone(), Stage::new(chat_id(number)));
        store
            .create(&NewChat::of(stage.chat.id, &stage.chat.agent, &stage.chat.owner))
            .await
            .expect("a store makes chats");
        let lease = store.acquire(stage.chat.id).await.expect("the chat was just made");
        Self { store, lease, stage, limits: tiny_limits(), calls: BTreeMap::new() }
    }

    /// A witness of a chat with a turn under way.
    pub async fn in_a_turn(store: &Arc<S>, number: u128) -> Self {
        let mut witness = Self::new(store, number).await;
        witness.say("hello").await;
        witness
    }

    /// Its name.
    pub const fn chat(&self) -> ChatId {
        self.stage.chat.id
    }

    /// Submits to both. They agree on whether it is accepted, and under which number.
    pub async fn submit(&mut self, command: Command) -> Result<InboxSeq, Refusal> {
        self.submit_as(None, command).await
    }

    /// Submits a command under an idempotency key.
    pub async fn submit_as(&mut self, key: Option<&str>, command: Command) -> Result<InboxSeq, Refusal> {
        let submission = Submission { command: command.clone(), key: key.map(Into::into), at: self.stage.now };
        let stored = self.store.submit(self.chat(), submission, &self.limits).await;
        let expected = self.stage.submit_as(key, command, &self.limits);
        let chat = self.chat();
        assert_eq!(stored, expected.map(|seq| Receipt { chat, seq }).map_err(SubmitError::Refused));
        expected
    }

    /// Submits, which must be accepted, and obeys.
    pub async fn obey(&mut self, command: Command) {
        self.submit(command).await.expect("the command fits");
        self.obey_next().await;
    }

    /// Lets the driver take the next command out of the inbox, if there is one.
    pub async fn obey_next(&mut self) {
        if let Some(facts) = self.stage.obey_next() {
            self.commit(&facts).await;
        }
    }

    /// Sends words to a chat that has nothing else to do, and begins the turn.
    pub async fn say(&mut self, words: &str) {
        self.obey(send(words, Delivery::Queue)).await;
    }

    /// Commits to both.
    pub async fn commit(&mut self, facts: &[Fact]) -> Version {
        let stored = self.store.commit(&mut self.lease, facts).await;
        facts.iter().for_each(|fact| self.note(fact));
        self.stage.commit(facts);
        assert_eq!(stored, Ok(self.stage.chat.version));
        self.stage.chat.version
    }

    fn note(&mut self, fact: &Fact) {
        let open = |uid: &CallUid| self.stage.chat.calls.iter().find(|open| open.uid == *uid);
        match fact {
            Fact::Started { call, effect, at } => {
                let Some(tool) = open(call).map(|open| open.tool.clone()) else { return };
                let starts = self.calls.get(call).map_or(1, |record| record.starts + 1);
                let first = self.calls.get(call).map_or(*effect, |record| record.effect);
                let record = CallRecord { uid: *call, tool, effect: first, started: *at, starts, ended: None };
                self.calls.insert(*call, record);
            }
            Fact::Said(message, _) => {
                let Body::Result(result) = &message.body else { return };
                if let Some(record) = self.calls.get_mut(&result.call) {
                    record.ended = Some((result.ended, result.verdict));
                }
            }
            _ => {}
        }
    }

    /// Commits what `make` puts together to both.
    pub async fn change(&mut self, make: impl for<'c, 'a> FnOnce(&'c mut Change<'a>) -> &'c mut Change<'a>) {
        let facts = self.stage.change(make);
        self.commit(&facts).await;
    }

    /// Journals to both.
    pub async fn journal(&mut self, deltas: Vec<Delta>) -> Vec<JournalRow> {
        let rows = self.stage.journal(deltas);
        assert_eq!(self.store.append_and_wait(self.lease.append_right(), rows.clone()).await, Ok(()));
        rows
    }

    /// Takes the lease again, as a new driver does.
    pub async fn take_over(&mut self) -> Lease {
        let lease = self.store.acquire(self.chat()).await.expect("the chat is there");
        std::mem::replace(&mut self.lease, lease)
    }

    /// What the store says happened after `cursor`.
    pub async fn since(&self, cursor: Option<Cursor>) -> Option<News> {
        self.store.since(self.chat(), cursor).await.expect("the chat is there")
    }

    /// Where a watcher stands that has seen everything.
    pub async fn now(&self) -> Cursor {
        self.since(None).await.expect("there is always a snapshot").cursor
    }

    /// Lets some time go by.
    pub fn tick(&mut self) {
        self.stage.now = Timestamp(self.stage.now.0 + 10);
    }

    /// What a snapshot must show: all but bytes.
    pub fn snapshot(&self) -> Snapshot {
        let Stage { chat, transcript, rows, .. } = &self.stage;
        let rows: Vec<JournalRow> = rows.iter().map(JournalRow::without_bytes).collect();
        let draft = Draft::of_rows(&rows).expect("what was journalled has been folded before");
        Snapshot { messages: without_bytes(transcript), standing: Standing::of(chat, self.stage.pending()), draft }
    }

    /// What a driver must be given of the transcript.
    fn since_summary(&self) -> &[Arc<Message>] {
        let is_summary = |message: &Arc<Message>| matches!(message.body, Body::Summary(_));
        &self.stage.transcript[self.stage.transcript.iter().rposition(is_summary).unwrap_or(0)..]
    }

    /// Holds everything the store tells against the picture.
    pub async fn agrees(&self) {
        let (store, stage, chat) = (&self.store, &self.stage, self.chat());
        assert_eq!(store.heading(chat).await, Ok(Heading::of(&stage.chat, stage.pending())));
        let loaded = store.load(&self.lease).await.expect("the lease is ours");
        assert_eq!(loaded.chat, stage.chat);
        assert_eq!(loaded.messages, without_bytes(self.since_summary()));
        assert_eq!(loaded.rows, stage.rows);
        assert_eq!(store.transcript(chat).await.as_ref(), Ok(&stage.transcript));
        assert_eq!(store.attempts(chat, 0, usize::MAX).await.as_ref(), Ok(&stage.attempts));
        let (seen, rest) = stage.attempts.split_at(stage.attempts.len() / 2);
        assert_eq!(store.attempts(chat, seen.len(), 2).await.as_deref(), Ok(&rest[..rest.len().min(2)]));
        assert_eq!(store.calls(chat).await, Ok(self.calls.values().cloned().collect()));
        let (before, middle) = stage.transcript.split_at(stage.transcript.len() / 2);
        let tail = &before[before.len().saturating_sub(2)..];
        let page = store.messages(chat, MessageRange::Before(middle.first().map(|message| message.id), 2)).await;
        assert_eq!(page, Ok(without_bytes(tail)));
        if let Some(message) = tail.last() {
            assert_eq!(store.message(chat, message.id, MessageReader::Client).await, Ok(Some(message.clone())));
        }
        assert_eq!(store.standing(chat).await, Ok(Standing::of(&stage.chat, stage.pending())));
        assert_eq!(store.inbox(chat).await, Ok(stage.pending().cloned().collect()));
        for (InboxCommand { seq, .. }, outcome) in &stage.inbox {
            assert_eq!(store.outcome(chat, *seq).await, Ok(*outcome), "command {seq}");
        }
        let news = self.since(None).await.expect("there is always a snapshot");
        assert_eq!(news.cursor.version, stage.chat.version);
        assert_eq!((news.cursor.step, news.cursor.seq.0), (stage.chat.step, stage.rows.len() as u64));
        let [Event::Reset(shown)] = &news.events[..] else { panic!("no snapshot but {:?}", news.events) };
        self.is_shown(shown);
        assert_eq!(self.since(Some(news.cursor)).await, None, "a reader at the end gets nothing");
    }

    /// Whether a snapshot shows what is there: everything, or the newest page.
    pub fn is_shown(&self, shown: &Snapshot) {
        let mut expected = self.snapshot();
        assert!(expected.messages.ends_with(&shown.messages), "the newest messages, in order");
        assert!(shown.messages.len() >= expected.messages.len().min(PAGE_LEN_MIN), "at least a page of them");
        expected.messages.clone_from(&shown.messages);
        assert_eq!(*shown, expected);
    }

    /// Asserts that a write under `lease` is refused as `error`, and that nothing has changed by it.
    pub async fn is_shut_out(&self, lease: &mut Lease, error: &WriteError) {
        let seq = Seq(self.stage.rows.len() as u64).next();
        let delta = Arc::new(attempt());
        let row = JournalRow { step: self.stage.chat.step, seq, at: self.stage.now, delta };
        let facts = self.stage.change(|change| change.say(Body::Context("a ghost".into())));
        assert_eq!(self.store.load(lease).await.map(drop).as_ref(), Err(error));
        assert_eq!(self.store.append_and_wait(lease.append_right(), vec![row]).await.as_ref(), Err(error));
        assert_eq!(self.store.append_and_wait(lease.append_right(), Vec::new()).await.as_ref(), Err(error));
        assert_eq!(self.store.commit(lease, &facts).await.as_ref(), Err(error));
        self.agrees().await;
    }
}

/// The messages without their bytes.
pub fn without_bytes(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    messages.iter().map(Message::without_bytes).collect()
}

/// The smallest page a snapshot may show of a longer chat.
pub const PAGE_LEN_MIN: usize = 50;
