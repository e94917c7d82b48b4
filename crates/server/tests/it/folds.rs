//! A client's fold of events equals the server's view, whatever happened in the chat.

use std::sync::Arc;

use everturn::core::ids::{ChatId, Timestamp};
use everturn::core::view;
use everturn::stores::{Memory, NewChat, Store, StoreExt as _, Submission};
use everturn_server::wire::{Event, View};
use everturn_testkit::rehearsal::{Deed, Dice, Stage, tiny_limits, wish};
use serde_json::{Value, json};

const LIVES: u64 = 300;
const LIFE_LEN: u64 = 80;
/// How many lives are written for the TypeScript client.
const FIXTURES_LEN: u64 = 12;

/// A pseudo-random number, the same in every run.
fn number(life: u64, moment: u64) -> u64 {
    let mut z = (life << 32 | moment).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A client that reads the store and folds twice: with the server's types, and from JSON alone.
#[derive(Default)]
struct Client {
    cursor: Option<view::Cursor>,
    core: view::View,
    wire: View,
    /// Each catch-up: its events, and what the view was afterwards.
    received: Vec<Value>,
}

impl Client {
    async fn catch_up(&mut self, store: &Memory, chat: ChatId) {
        let Some(news) = store.since(chat, self.cursor).await.unwrap() else { return };
        let mut events = Vec::new();
        for event in &news.events {
            self.core.fold(event).unwrap();
            let sent = Event::from(event);
            let data = serde_json::to_string(&sent).unwrap();
            assert!(!data.contains('\n'), "data is one line: {data}");
            let received = Event::parse(sent.name(), &data).unwrap().unwrap();
            assert_eq!(received, sent);
            events.push(json!([sent.name(), sent]));
            self.wire.fold(&received).unwrap();
            assert_eq!(self.wire, View::from(&self.core), "after {event:?}");
        }
        self.cursor = Some(news.cursor);
        self.received.push(json!({"events": events, "after": self.digest()}));
    }

    /// As much of a view as shows at which event a fold goes wrong.
    fn digest(&self) -> Value {
        let View { messages, status, draft } = &self.wire;
        let last = messages.last().map(|message| message.id);
        json!([messages.len(), last, status.as_ref().map(|status| status.version), draft.as_ref().map(|draft| draft.n)])
    }

    /// What the client of another language has to come to.
    fn fixture(self) -> Value {
        let View { messages, status, draft } = self.wire;
        json!({"received": self.received, "view": {"messages": messages, "status": status, "draft": draft}})
    }
}

/// A whole life of a chat, as three clients saw it.
struct Life {
    /// Catches up after every event.
    eager: Client,
    /// Catches up now and then.
    lazy: Client,
    /// Begins at the end.
    late: Client,
    messages_len: usize,
}

async fn live(life: u64) -> Life {
    let (store, limits) = (Memory::new(), tiny_limits());
    let mut stage = Stage::new(ChatId::new(Timestamp(1), life.into()));
    let chat = stage.chat.id;
    store.create(&NewChat::of(chat, "agent", "owner")).await.unwrap();
    let mut lease = store.acquire(chat).await.unwrap();
    let (mut eager, mut lazy) = (Client::default(), Client::default());
    for moment in 0..LIFE_LEN {
        let mut dice = Dice::new(number(life, moment));
        stage.now = Timestamp(stage.now.0 + 7);
        let facts = match dice.below(8) {
            0 | 1 => {
                let command = wish(&stage.chat, &stage.transcript, "words", &mut dice);
                let submission = Submission { command: command.clone(), key: None, at: stage.now };
                let accepted = store.submit(chat, submission, &limits).await.is_ok();
                assert_eq!(stage.submit(command, &limits).is_ok(), accepted);
                None
            }
            2 => stage.obey_next(),
            _ => match stage.deed(&limits, &mut dice) {
                Deed::Rest => stage.obey_next(),
                Deed::Commit(facts) => Some(facts),
                Deed::Journal(deltas) => {
                    store.append_and_wait(lease.append_right(), stage.journal(deltas)).await.unwrap();
                    None
                }
            },
        };
        if let Some(facts) = facts {
            store.commit(&mut lease, &facts).await.unwrap();
            stage.commit(&facts);
        }
        eager.catch_up(&store, chat).await;
        if moment % 7 == life % 7 {
            lazy.catch_up(&store, chat).await;
        }
    }
    // A new view shows commands that were accepted but not applied; running folds get them with the next commit.
    while let Some(facts) = stage.obey_next() {
        store.commit(&mut lease, &facts).await.unwrap();
        stage.commit(&facts);
    }
    eager.catch_up(&store, chat).await;
    lazy.catch_up(&store, chat).await;
    let mut late = Client::default();
    late.catch_up(&store, chat).await;
    Life { eager, lazy, late, messages_len: stage.transcript.len() }
}

/// Clients that catch up after every event, now and then, or begin late end with the server's view.
#[tokio::test]
async fn any_life_of_a_chat_looks_the_same_to_its_clients() {
    for life in 0..LIVES {
        let Life { eager, lazy, late, messages_len } = live(life).await;
        assert_eq!(lazy.wire, eager.wire);
        assert_eq!(late.wire, eager.wire);
        assert_eq!(eager.wire.messages.len(), messages_len);
    }
}

/// The TypeScript client folds the same events to the same view: its tests read this file. `UPDATE_EXPECT=1` writes it.
#[tokio::test]
async fn fixtures_of_the_typescript_client_are_what_the_server_folds() {
    let mut fixtures = String::new();
    for number in 0..FIXTURES_LEN {
        let Life { eager, lazy, .. } = live(number * 7).await;
        for client in [eager, lazy] {
            fixtures += &client.fixture().to_string();
            fixtures.push('\n');
        }
    }
    expect_test::expect_file!["../../../../web/client/test/fixtures/folds.jsonl"].assert_eq(&fixtures);
}

/// PR19: provider metadata on parts is never shown to clients.
#[test]
fn provider_metadata_is_not_shown() {
    use everturn::core::delta::{CallBegan, Delta, GenerationHandle, ProvidedDelta};
    use everturn::core::ids::{Seq, StepId};
    use everturn::core::message::{File, Meta, RunBy, Seal, Source};

    let meta = || Meta::from([("anthropic".to_string(), serde_json::json!({"signature": "SECRET"}))]);
    let (tool, provider_id) = ("web".to_string(), "SECRET".to_string());
    let deltas = [
        Delta::Sealed(Seal::Signature("SECRET".into())),
        Delta::Sealed(Seal::Redacted("SECRET".into())),
        Delta::CallBegan(Box::new(CallBegan {
            slot: 0,
            provider_id,
            tool: tool.clone(),
            run_by: RunBy::Us,
            meta: meta(),
        })),
        Delta::Provided(Box::new(ProvidedDelta { slot: None, tool, output: serde_json::json!(1), meta: meta() })),
        Delta::Source(Box::new(Source { meta: meta(), ..Source::default() })),
        Delta::File(Box::new(File {
            name: String::new(),
            media_type: "a/b".into(),
            bytes: Some((*b"SECRET").into()),
            meta: meta(),
        })),
        Delta::Other(Box::new(meta())),
        Delta::PartMeta(Box::new(meta())),
        Delta::ReplyMeta(Box::new(meta())),
        Delta::ResponseId("SECRET".into()),
        Delta::Handle(Box::new(GenerationHandle { id: "SECRET".into(), cursor: "SECRET".into() })),
    ];
    let mut draft = everturn::core::draft::Draft::new(StepId(1));
    for (i, delta) in deltas.into_iter().enumerate() {
        draft.push(Timestamp(1), &delta).unwrap();
        let row =
            view::JournalRow { step: StepId(1), seq: Seq(i as u64 + 1), at: Timestamp(1), delta: Arc::new(delta) };
        let sent = serde_json::to_string(&Event::from(&view::Event::Delta(row))).unwrap();
        assert!(!sent.contains("SECRET"), "{sent}");
    }
    let view = view::View { draft: Some(draft), ..view::View::default() };
    let sent = serde_json::to_string(&View::from(&view).draft).unwrap();
    assert!(!sent.contains("SECRET"), "{sent}");
}
