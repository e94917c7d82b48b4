//! Chats of sub-agents belong to the chat whose call created them: they are listed and counted with it, and go with it.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::budget::BudgetUse;
use everturn_core::chat::StepAttempts;
use everturn_core::command::Delivery;
use everturn_core::cost::{Micros, Spend, Tally, Usage};
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::{CallUid, StepId, Timestamp};
use everturn_core::parent::{ParentCall, ParentChat, SubAgentsMax};
use everturn_stores::{ChatQuery, MakeError, NewChat, Store, StoreError, StoreExt as _, SubAgentChats, Submission};
use everturn_testkit::rehearsal::sample::{chat_id, send};
use everturn_testkit::rehearsal::tiny_limits;

use super::{Witness, samples};

/// A chat below others, from the topmost on.
fn below(number: u128, above: &[u128]) -> NewChat {
    let most = SubAgentsMax { tokens: 7, cost: Micros(9) };
    let above = above.iter().map(|number| ParentChat { chat: chat_id(*number), agent: "agent".into(), most });
    let parent = ParentCall { call: CallUid { step: StepId(1), ordinal: 0 }, above: above.collect() };
    NewChat { parent: Some(Arc::new(parent)), ..NewChat::of(chat_id(number), "agent", "owner") }
}

fn tally() -> Tally {
    Tally { known: Usage { input: 100, output: 11, ..Usage::default() }, ..Tally::default() }
}

fn spend() -> Spend {
    Spend { known: Micros(5), estimated: Micros(2) }
}

/// 1 with 2 below it, 3 below that, and 4 beside 2. 5 is on its own.
async fn family<S: Store>(store: &Arc<S>) {
    for new in [below(1, &[]), below(2, &[1]), below(3, &[1, 2]), below(4, &[1]), below(5, &[])] {
        let new = NewChat { parent: new.parent.filter(|parent| !parent.above.is_empty()), ..new };
        assert_eq!(store.create(&new).await, Ok(new.id));
    }
}

async fn listed<S: Store>(store: &Arc<S>, sub_agents: SubAgentChats) -> Vec<u128> {
    let found = store.headings(&ChatQuery { sub_agents, ..ChatQuery::default() }).await.expect("it can be asked");
    let mut numbers: Vec<u128> =
        found.iter().filter_map(|heading| (1..=5).find(|number| chat_id(*number) == heading.id)).collect();
    numbers.sort_unstable();
    numbers
}

/// TA05: lists leave chats of sub-agents out if they are asked to, and show those of one chat.
pub async fn chats_of_sub_agents_are_listed_apart<S: Store>(store: Arc<S>) {
    family(&store).await;
    assert_eq!(listed(&store, SubAgentChats::Listed).await, [1, 2, 3, 4, 5]);
    assert_eq!(listed(&store, SubAgentChats::LeftOut).await, [1, 5]);
    assert_eq!(listed(&store, SubAgentChats::Of(chat_id(1))).await, [2, 4]);
    assert_eq!(listed(&store, SubAgentChats::Of(chat_id(2))).await, [3]);
    assert_eq!(listed(&store, SubAgentChats::Of(chat_id(5))).await, []);
    assert_eq!(store.heading(chat_id(3)).await.expect("it is there").parent, Some(chat_id(2)));
    assert_eq!(store.heading(chat_id(1)).await.expect("it is there").parent, None);
    let parent = store.standing(chat_id(3)).await.expect("it is there").parent.expect("it has one");
    assert_eq!(Some(parent), below(3, &[1, 2]).parent, "all of it comes back");
    let mut witness = Witness::new(&store, 3).await;
    witness.say("hello").await;
    let found = store.heading(chat_id(3)).await.expect("it is there");
    assert_eq!(found.parent, Some(chat_id(2)), "also after a commit");
}

/// TA05: when a chat is deleted, those below it are found, whichever process looks; the next ones when these are deleted.
/// None is created below a chat that is deleted.
pub async fn chats_below_a_deleted_chat_are_found<S: Store>(store: Arc<S>) {
    family(&store).await;
    assert_eq!(store.orphans().await, Ok(Vec::new()));
    let delete = async |number: u128| {
        let lease = store.acquire(chat_id(number)).await.expect("no process has it");
        store.delete(lease).await.expect("the lease is ours");
    };
    delete(1).await;
    assert_eq!(store.orphans().await, Ok(vec![chat_id(2), chat_id(4)]));
    let submission = Submission { command: send("hello", Delivery::Queue), key: None, at: Timestamp(0) };
    store.submit(chat_id(2), submission, &tiny_limits()).await.expect("it is there");
    assert_eq!(store.orphans().await, Ok(vec![chat_id(2), chat_id(4)]), "also with work to do");
    let gone = Err(MakeError::Store(StoreError::NoSuchChat));
    assert_eq!(store.create(&NewChat { id: chat_id(9), ..below(9, &[1]) }).await, gone);
    delete(2).await;
    assert_eq!(store.orphans().await, Ok(vec![chat_id(3), chat_id(4)]));
    delete(4).await;
    delete(3).await;
    assert_eq!(store.orphans().await, Ok(Vec::new()));
    assert_eq!(listed(&store, SubAgentChats::Listed).await, [5]);
}

/// TA04: what a chat uses is counted for all chats above it, in the commit that says so, and stays counted when it is
/// deleted.
pub async fn chats_below_are_counted<S: Store>(store: Arc<S>) {
    family(&store).await;
    let attempted = || {
        let record = AttemptRecord {
            step: StepId(1),
            number: 1,
            model: samples::model("model"),
            aim: AttemptPurpose::Unknown,
            began: Timestamp(1_000),
            took: Duration::from_millis(250),
            tally: tally(),
            spend: spend(),
            outcome: AttemptOutcome::Interrupted,
        };
        Fact::Attempted(Box::new(record), StepAttempts::default())
    };
    let (tokens, cost) = (tally().total(), spend().total());
    let once = BudgetUse { time: Duration::from_millis(250), tokens, cost, ..BudgetUse::default() };
    let mut deepest = Witness::new(&store, 3).await;
    deepest.commit(&[attempted()]).await;
    let used = async |number: u128| store.used_below(chat_id(number)).await.expect("it can be asked");
    assert_eq!([used(1).await, used(2).await, used(3).await], [once, once, BudgetUse::default()]);
    let mut child = Witness::new(&store, 2).await;
    child.commit(&[attempted()]).await;
    assert_eq!([used(1).await, used(2).await], [once.plus(once), once]);
    let mut top = Witness::new(&store, 1).await;
    top.commit(&[attempted()]).await;
    assert_eq!(used(1).await, once.plus(once), "what it uses itself is not below it");
    store.delete(deepest.lease).await.expect("the lease is ours");
    assert_eq!([used(1).await, used(2).await], [once.plus(once), once]);
    store.delete(top.lease).await.expect("the lease is ours");
    assert_eq!(used(1).await, BudgetUse::default());
    child.commit(&[attempted()]).await;
    assert_eq!(used(1).await, BudgetUse::default(), "a deleted chat is not counted for");
}
