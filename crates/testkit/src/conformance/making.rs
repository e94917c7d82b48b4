//! Chats are made once, empty or with what was said in another, and found by what was said.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn_core::chat::{CallState, Chat, TurnEnd};
use everturn_core::command::{Command, Delivery};
use everturn_core::fact::Fact;
use everturn_core::fork::{self, UnansweredCall};
use everturn_core::ids::{CallUid, ChatId, MessageId, ModelId, StepId, Timestamp};
use everturn_core::message::{Body, CallResult, CallVerdict, File, Meta, Output, Part, Stop};
use everturn_core::prompt::ToolSpec;
use everturn_core::setup::Setup;
use everturn_stores::{ChatQuery, Chosen, Fork, MakeError, MessageRange, NewChat, Store, StoreError, StoreExt as _};
use everturn_testkit::rehearsal::sample::{attempt, call, chat_id, reply, send, text, words};
use everturn_testkit::rehearsal::{Stage, tiny_limits};
use serde_json::json;

use super::Witness;

const REPEATS: u128 = 50;

fn new(number: u128) -> NewChat {
    NewChat { title: titled(""), ..NewChat::of(chat_id(number), "agent", "owner") }
}

fn titled(title: &str) -> Chosen<String> {
    Chosen::ByCaller(title.into())
}

/// Everything a chat can have of its own.
fn setup() -> Arc<Setup> {
    let input = json!({"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]});
    Arc::new(Setup {
        instructions: "The person is called \"Kim\".".into(),
        tools: vec![ToolSpec::new("map", "Shows a map.", input), ToolSpec::new("buy", "", json!({}))],
        metadata: [("project", "kelp"), ("empty", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    })
}

fn keyed(number: u128, key: &str) -> NewChat {
    NewChat { key: Some(key.into()), ..new(number) }
}

fn forked(number: u128, at: u64) -> NewChat {
    NewChat { fork: Some(Fork { chat: chat_id(1), at: MessageId(at) }), ..new(number) }
}

/// A chat's own settings stay, whatever happens in it, and are part of its standing.
pub async fn a_chat_keeps_what_it_has_of_its_own<S: Store>(store: Arc<S>) {
    let made = store.create(&NewChat { setup: Some(setup()), ..new(1) }).await;
    assert_eq!(made, Ok(chat_id(1)));
    let plain = store.create(&new(2)).await;
    assert_eq!(plain, Ok(chat_id(2)));
    for (chat, expected) in [(chat_id(1), Some(setup())), (chat_id(2), None)] {
        assert_eq!(store.standing(chat).await.expect("it is there").setup, expected);
        let mut lease = store.acquire(chat).await.expect("the chat is free");
        store.commit(&mut lease, &[Fact::Renamed("Kelp".into())]).await.expect("it can be written");
        assert_eq!(store.load(&lease).await.expect("it is there").chat.setup, expected);
        assert_eq!(store.standing(chat).await.expect("it is there").setup, expected);
    }
}

/// I2: the same key of the same owner with the same request is the same chat, as long as it is there; with another
/// request it is a conflict, and another owner's keys are another's.
pub async fn a_key_of_an_owner_makes_one_chat<S: Store>(store: Arc<S>) {
    let kelp = |number| NewChat { title: titled("Kelp"), ..keyed(number, "k") };
    assert_eq!(store.created(&kelp(1)).await, Ok(None));
    assert_eq!(store.create(&kelp(1)).await, Ok(chat_id(1)));
    assert_eq!(store.create(&kelp(2)).await, Ok(chat_id(1)), "whatever id it came with");
    assert_eq!(store.created(&kelp(2)).await, Ok(Some(chat_id(1))));
    assert_eq!(store.heading(chat_id(2)).await, Err(StoreError::NoSuchChat));
    let heading = store.heading(chat_id(1)).await.expect("it was made");
    assert_eq!((heading.title.as_str(), heading.version.0), ("Kelp", 0));
    let others = [
        keyed(2, "k"),
        NewChat { agent: Chosen::ByCaller("another".into()), ..kelp(2) },
        NewChat { agent: Chosen::ByDefault("agent".into()), ..kelp(2) },
        NewChat { title: titled("kelp"), ..kelp(2) },
        NewChat { model: Chosen::ByCaller(None), ..kelp(2) },
        NewChat { model: Chosen::ByCaller("a/model".parse().ok()), ..kelp(2) },
        NewChat { debug: true, ..kelp(2) },
        NewChat { setup: Some(setup()), ..kelp(2) },
        NewChat { transcript: Some([1; 32]), ..kelp(2) },
        NewChat { fork: Some(Fork { chat: chat_id(1), at: MessageId(1) }), ..kelp(2) },
    ];
    for other in others {
        assert_eq!(store.create(&other).await, Err(MakeError::Conflict), "{other:?}");
        assert_eq!(store.created(&other).await, Err(MakeError::Conflict), "{other:?}");
    }
    assert_eq!(store.created(&NewChat { owner: "you".into(), ..kelp(3) }).await, Ok(None), "that is another's");
    assert_eq!(store.create(&NewChat { owner: "you".into(), ..kelp(3) }).await, Ok(chat_id(3)));
    assert_eq!(store.create(&keyed(4, "k ")).await, Ok(chat_id(4)));
    assert_eq!(store.create(&new(5)).await, Ok(chat_id(5)), "without a key nothing is found");
    assert_eq!(store.created(&new(5)).await, Ok(None));
    assert_eq!(store.headings(&ChatQuery::default()).await.map(|all| all.len()), Ok(4), "looking has made nothing");
    for (owner, key, found) in [
        (&*kelp(1).owner, "k", Some(chat_id(1))),
        (&*kelp(1).owner, "k ", Some(chat_id(4))),
        ("you", "k", Some(chat_id(3))),
        ("you", "k ", None),
        ("nobody", "k", None),
        (&*kelp(1).owner, "", None),
    ] {
        assert_eq!(store.keyed(owner, key).await, Ok(found), "{key:?} of {owner}");
    }
    let default = |number, agent: &str| NewChat { agent: Chosen::ByDefault(agent.into()), ..keyed(number, "w") };
    assert_eq!(store.create(&default(6, "one")).await, Ok(chat_id(6)));
    assert_eq!(store.create(&default(7, "another")).await, Ok(chat_id(6)), "the default agent may have changed");
}

/// A chat has the model it was made with, and is recorded if it was made so, whether it begins with nothing or with what was said elsewhere.
pub async fn a_chat_is_made_with_its_model<S: Store>(store: Arc<S>) {
    conversation(&store).await;
    let model: Option<ModelId> = "a/model".parse().ok();
    for new in [new(2), forked(3, 5)] {
        let new = NewChat { model: Chosen::ByCaller(model.clone()), debug: true, ..new };
        assert_eq!(store.create(&new).await, Ok(new.id));
        let standing = store.standing(new.id).await.expect("it was made");
        assert_eq!((standing.model.as_ref(), standing.debug), (model.as_ref(), true));
    }
}

/// I2: what a fork has from the other chat is no part of the request: asked again it is the same, whatever that is called
/// by then, and when it is gone. A title that was asked for is.
pub async fn a_key_of_a_fork_outlives_its_source<S: Store>(store: Arc<S>) {
    let source = conversation(&store).await;
    let fork = |number, title: &str| NewChat {
        title: Chosen::ByDefault(title.into()),
        key: Some("f".into()),
        ..forked(number, 5)
    };
    assert_eq!(store.create(&fork(2, "as it was called")).await, Ok(chat_id(2)));
    assert_eq!(store.create(&fork(3, "as it is called now")).await, Ok(chat_id(2)));
    let named = NewChat { title: titled("as it was called"), ..fork(3, "") };
    assert_eq!(store.create(&named).await, Err(MakeError::Conflict));
    assert_eq!(store.create(&NewChat { fork: None, ..named }).await, Err(MakeError::Conflict));
    store.delete(source.lease).await.expect("the lease is ours");
    assert_eq!(store.create(&NewChat { agent: Chosen::ByDefault(String::new()), ..fork(3, "") }).await, Ok(chat_id(2)));
    assert_eq!(
        store.created(&NewChat { agent: Chosen::ByDefault(String::new()), ..fork(3, "") }).await,
        Ok(Some(chat_id(2)))
    );
    let other = NewChat { key: Some("g".into()), ..fork(3, "") };
    assert_eq!(store.create(&other).await, Err(StoreError::NoSuchChat.into()), "nothing is made of nothing");
}

/// I2: however many repeat themselves at the same time, one chat is made.
pub async fn parallel_repeats_make_one_chat<S: Store>(store: Arc<S>) {
    let mut made = tokio::task::JoinSet::new();
    for number in 1..=REPEATS {
        let store = store.clone();
        made.spawn(async move { store.create(&keyed(number, "k")).await });
    }
    let mut made = made.join_all().await;
    made.dedup();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(store.headings(&ChatQuery::default()).await.map(|all| all.len()), Ok(1));
}

/// A chat with a question, a call and its result, an answer, and another question.
async fn conversation<S: Store>(store: &Arc<S>) -> Witness<S> {
    let mut witness = Witness::in_a_turn(store, 1).await;
    let calls = [call(0, "look", "{}"), call(1, "write", "{}")].concat();
    let asks = reply(StepId(1), &calls, Stop::ToolUse);
    witness.change(|change| change.reply(asks, |_| CallState::Ready)).await;
    for ordinal in [1, 0] {
        witness.change(|change| change.result(result(ordinal))).await;
    }
    let answer = reply(StepId(2), &[text("There is kelp.")], Stop::End);
    witness.change(|change| change.reply(answer, |_| CallState::Ready)).await;
    witness.change(|change| change.finish(TurnEnd::Done)).await;
    witness.say("and more?").await;
    witness
}

fn uid(ordinal: u16) -> CallUid {
    CallUid { step: StepId(1), ordinal }
}

fn result(ordinal: u16) -> CallResult {
    let (output, ended, meta) = (Output::text("seen"), Timestamp(0), Meta::new());
    CallResult { call: uid(ordinal), tool: "look".into(), verdict: CallVerdict::Done, output, began: None, ended, meta }
}

/// What a fork must equal.
async fn witness_of<S: Store>(store: &Arc<S>, new: &NewChat, source: &Witness<S>, step: StepId) -> Witness<S> {
    let at = new.fork.expect("it is a fork").at;
    let transcript: Vec<_> = source.stage.transcript.iter().filter(|message| message.id <= at).cloned().collect();
    let empty = fork::titled(new.id, new.agent.value(), &new.owner, new.title.value());
    let empty = Chat { model: new.model.value().clone(), debug: new.debug, setup: new.setup.clone(), ..empty };
    let chat = fork::fork(empty, at, step, source.stage.chat.obeyed);
    let stage = Stage { chat, transcript, ..Stage::new(new.id) };
    let lease = store.acquire(new.id).await.expect("the chat was just made");
    Witness { store: store.clone(), lease, stage, limits: tiny_limits(), calls: BTreeMap::new() }
}

/// A fork has what was said up to a message, under the same numbers, and nothing of what was paid, started or asked.
pub async fn a_fork_begins_with_what_was_said<S: Store>(store: Arc<S>) {
    let source = conversation(&store).await;
    for (number, at, step) in [(2, 1, 1), (3, 4, 2), (4, 5, 3), (5, 6, 3)] {
        let new = NewChat { title: titled("Fork"), ..forked(number, at) };
        assert_eq!(store.create(&new).await, Ok(new.id));
        witness_of(&store, &new, &source, StepId(step)).await.agrees().await;
        let pages = store.messages(new.id, MessageRange::After(MessageId(1), 2)).await.expect("the chat is there");
        let rest = source.stage.transcript.iter().filter(|message| (2..=at).contains(&message.id.0));
        assert_eq!(pages, rest.take(2).cloned().collect::<Vec<_>>());
    }
    source.agrees().await;
}

/// What happens in a fork does not show in the chat it came from, nor the other way round; also when that is edited.
pub async fn a_fork_is_a_chat_of_its_own<S: Store>(store: Arc<S>) {
    let mut source = conversation(&store).await;
    let new = NewChat { key: Some("f".into()), ..forked(2, 5) };
    store.create(&new).await.expect("nothing is open there");
    let mut fork = witness_of(&store, &new, &source, StepId(3)).await;
    fork.say("and in the fork?").await;
    fork.journal(vec![attempt(), text("In the f")]).await;
    source.obey(Command::Edit { message: MessageId(1), parts: words("again") }).await;
    fork.agrees().await;
    source.agrees().await;
    fork.obey(Command::Edit { message: MessageId(1), parts: words("once more") }).await;
    fork.agrees().await;
    source.agrees().await;
    assert_eq!(
        store.create(&NewChat { id: chat_id(3), ..new }).await,
        Ok(chat_id(2)),
        "though what it began with is gone"
    );
    let gone = store.create(&forked(3, 5)).await;
    assert_eq!(gone, Err(MakeError::NoSuchMessage(MessageId(5))));
    assert_eq!(store.heading(chat_id(3)).await, Err(StoreError::NoSuchChat));
}

/// Where a call has no result yet there is no fork, and neither where there is no message.
pub async fn a_fork_ends_where_no_call_is_open<S: Store>(store: Arc<S>) {
    let source = conversation(&store).await;
    let at = async |at| store.create(&forked(2, at)).await;
    assert_eq!(at(2).await, Err(UnansweredCall(uid(0)).into()));
    assert_eq!(at(3).await, Err(UnansweredCall(uid(0)).into()), "the second was answered first");
    for missing in [0, 7, u64::MAX] {
        assert_eq!(at(missing).await, Err(MakeError::NoSuchMessage(MessageId(missing))));
    }
    let nowhere = NewChat { fork: Some(Fork { chat: chat_id(404), at: MessageId(1) }), ..new(2) };
    assert_eq!(store.create(&nowhere).await, Err(StoreError::NoSuchChat.into()));
    assert_eq!(store.heading(chat_id(2)).await, Err(StoreError::NoSuchChat));
    source.agrees().await;
}

/// Files come along, and stay when the chat they came from is gone.
pub async fn a_fork_takes_bytes_along<S: Store>(store: Arc<S>) {
    let mut source = Witness::new(&store, 1).await;
    let file = |byte| {
        let (name, media_type) = ("a.png".to_string(), "image/png".to_string());
        Part::File(File { name, media_type, bytes: Some(vec![byte; 3].into()), meta: Meta::new() })
    };
    for byte in [1, 2] {
        let parts = Arc::new([file(byte)]);
        source.obey(Command::Send { parts, when: Delivery::Queue }).await;
        source.change(|change| change.finish(TurnEnd::Done)).await;
    }
    let new = forked(2, 1);
    store.create(&new).await.expect("nothing is open there");
    let fork = witness_of(&store, &new, &source, StepId(1)).await;
    fork.agrees().await;
    store.delete(source.lease).await.expect("the lease is ours");
    fork.agrees().await;
    assert!(matches!(&fork.stage.transcript[0].body, Body::User(parts) if *parts == [file(1)]));
}

/// A chat is found by all words of one message, whole, in any order and case; not by what was taken back.
pub async fn messages_are_found_by_their_words<S: Store>(store: Arc<S>) {
    let mut source = conversation(&store).await;
    let mut other = Witness::in_a_turn(&store, 2).await;
    other.change(|change| change.say(Body::Context("kelp".into()))).await;
    other.obey(send("There was Kelp, on a Ünicorn\u{0}'s back", Delivery::Steer)).await;
    other.change(|change| change.begin()).await;
    let found = async |text: &str| -> Vec<ChatId> {
        let query = ChatQuery { text: text.into(), owner: Some("owner".into()), ..ChatQuery::default() };
        let mut found: Vec<_> = store.headings(&query).await.expect("it can be asked").iter().map(|h| h.id).collect();
        found.sort_unstable();
        found
    };
    let (one, two) = (chat_id(1), chat_id(2));
    for (text, expected) in [
        ("kelp", vec![one, two]),
        ("KELP there", vec![one, two]),
        ("kelp is", vec![one]),
        ("is kelp more", vec![]),
        ("kel", vec![]),
        ("\u{fc}NICORN", vec![two]),
        ("unicorn", vec![]),
        ("hello", vec![one, two]),
        ("hell", vec![one, two]),
        ("seen", vec![]),
        ("?!", vec![]),
        ("'; DROP TABLE spoken", vec![]),
    ] {
        assert_eq!(found(text).await, expected, "{text}");
    }
    source.obey(Command::Edit { message: MessageId(1), parts: words("squid") }).await;
    assert_eq!((found("kelp").await, found("squid").await), (vec![two], vec![one]));
    store.create(&NewChat { title: titled("another"), ..forked(3, 7) }).await.expect("nothing is open there");
    assert_eq!(found("squid").await, [one, chat_id(3)], "and so is what a fork took over");
    store.delete(other.lease).await.expect("the lease is ours");
    assert_eq!(found("kelp").await, []);
}

/// Chats at work are told from those that rest, or wait for people, and counted besides any that are named.
pub async fn chats_at_work_are_counted<S: Store>(store: Arc<S>) {
    let mut asks = Witness::in_a_turn(&store, 1).await;
    let calls = reply(StepId(1), &call(0, "look", "{}"), Stop::ToolUse);
    asks.change(|change| change.reply(calls, |_| CallState::AsksClient)).await;
    asks.change(|change| change.ask(Timestamp(9))).await;
    let mut runs = Witness::in_a_turn(&store, 2).await;
    let mut wants = Witness::new(&store, 3).await;
    wants.submit(send("hello", Delivery::Queue)).await.expect("an empty chat takes a message");
    Witness::new(&store, 4).await;
    let works = async |owner: &str, besides: &[u128]| {
        let besides = besides.iter().map(|number| chat_id(*number)).collect();
        store.working(owner, &besides).await.expect("it can be asked")
    };
    assert_eq!(works("owner", &[]).await, 2);
    assert_eq!(
        (works("owner", &[2]).await, works("owner", &[1, 4, 9]).await, works("owner", &[2, 3]).await),
        (1, 2, 0)
    );
    assert_eq!(works("somebody else", &[]).await, 0);
    runs.change(|change| change.finish(TurnEnd::Done)).await;
    wants.obey_next().await;
    assert_eq!((works("owner", &[2]).await, works("owner", &[3]).await), (1, 0));
}
