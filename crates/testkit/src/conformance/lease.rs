//! One writer: the newest lease. Earlier leases change nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_core::chat::{CallState, TurnEnd, TurnFailure};
use everturn_core::command::{Command, Delivery};
use everturn_core::error::ErrorKind;
use everturn_core::ids::{Fence, Timestamp};
use everturn_core::message::{Body, Stop};
use everturn_core::status::Status;
use everturn_stores::{Lease, Store, WriteError};
use everturn_testkit::rehearsal::sample::{attempt, call, chat_id, reply, send, text};

use super::Witness;

/// I6, CS17: taking a lease raises the fence, and everything under an older one is refused: no row changes.
pub async fn a_taken_over_lease_changes_nothing<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    let mut first = witness.take_over().await;
    assert!(witness.lease.fence() > first.fence());
    witness.is_shut_out(&mut first, &WriteError::Fenced).await;
    witness.journal(vec![text("lo")]).await;
    let mut second = witness.take_over().await;
    witness.is_shut_out(&mut first, &WriteError::Fenced).await;
    witness.is_shut_out(&mut second, &WriteError::Fenced).await;
    witness.change(|change| change.say(Body::Context("the newest writes".into()))).await;
    witness.agrees().await;
}

/// I6: a fence that was never granted gives no access, below or above.
pub async fn a_lease_that_was_never_given_changes_nothing<S: Store>(store: Arc<S>) {
    let witness = Witness::in_a_turn(&store, 1).await;
    let Fence(fence) = witness.lease.fence();
    for forged in [0, fence - 1, fence + 1, u64::MAX >> 1] {
        let mut lease = Lease::granted(witness.chat(), Fence(forged), Fence(0));
        witness.is_shut_out(&mut lease, &WriteError::Fenced).await;
    }
}

/// Another chat's leases are another chat's.
pub async fn a_lease_fences_its_own_chat_alone<S: Store>(store: Arc<S>) {
    let mut one = Witness::in_a_turn(&store, 1).await;
    let mut two = Witness::in_a_turn(&store, 2).await;
    for _ in 0..3 {
        two.take_over().await;
    }
    one.journal(vec![attempt(), text("still here")]).await;
    one.change(|change| change.finish(TurnEnd::Done)).await;
    two.change(|change| change.finish(TurnEnd::Done)).await;
    one.agrees().await;
    two.agrees().await;
    let mut across = Lease::granted(one.chat(), two.lease.fence(), Fence(0));
    one.is_shut_out(&mut across, &WriteError::Fenced).await;
}

/// CS17: a chat can be taken over in any status, and its new driver finds everything.
pub async fn taking_over_finds_everything_in_every_status<S: Store>(store: Arc<S>) {
    for (status, number) in Status::ALL.into_iter().zip(1..) {
        let mut witness = Witness::in_a_turn(&store, number).await;
        witness.submit(send("and then", Delivery::Queue)).await.expect("there is room");
        match status {
            Status::Running => drop(witness.journal(vec![attempt(), text("Hel")]).await),
            Status::Idle => witness.change(|change| change.finish(TurnEnd::Done)).await,
            Status::Failed => {
                let failure =
                    TurnFailure { kind: ErrorKind::Auth, message: "no".into(), detail: "you".into(), attempts: 1 };
                witness.change(|change| change.fail(None, failure)).await;
            }
            Status::Awaiting | Status::Interrupting => {
                let asks = reply(witness.stage.chat.step, &call(0, "client", "{}"), Stop::ToolUse);
                witness.change(|change| change.reply(asks, |_| CallState::AsksClient)).await;
                witness.change(|change| change.ask(Timestamp(9_000))).await;
                if status == Status::Interrupting {
                    witness.obey_next().await;
                    witness.obey(Command::Interrupt).await;
                }
            }
        }
        assert_eq!(witness.stage.chat.status, status);
        let mut lapsed = witness.take_over().await;
        witness.agrees().await;
        witness.is_shut_out(&mut lapsed, &WriteError::Fenced).await;
    }
}

/// CS03: of many that take the lease at once each gets a fence of its own, and only the highest writes.
pub async fn parallel_takeovers_leave_one_writer<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let mut rivals = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        rivals.spawn(async move { store.acquire(chat_id(1)).await.expect("the chat is there") });
    }
    let mut leases = rivals.join_all().await;
    leases.sort_by_key(Lease::fence);
    assert_eq!(leases.iter().map(Lease::fence).collect::<BTreeSet<_>>().len(), 20);
    witness.lease = leases.pop().expect("there are twenty");
    for lease in &mut leases {
        witness.is_shut_out(lease, &WriteError::Fenced).await;
    }
    witness.change(|change| change.finish(TurnEnd::Done)).await;
    witness.agrees().await;
}

/// I21: a process that acquires a chat again can tell whether another one had it meanwhile, although fences skip numbers.
pub async fn a_lease_says_which_was_before_it<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let mut other = Witness::in_a_turn(&store, 2).await;
    for _ in 0..5 {
        other.take_over().await;
    }
    store.delete(other.lease).await.expect("the lease is ours");
    let first = witness.take_over().await;
    assert_eq!(witness.lease.before(), first.fence());
    let second = witness.take_over().await;
    assert_eq!(witness.lease.before(), second.fence());
    let rival = store.acquire(witness.chat()).await.expect("the chat is there");
    let third = witness.take_over().await;
    assert_eq!((rival.before(), witness.lease.before()), (third.fence(), rival.fence()));
    witness.agrees().await;
}

/// Submitting a command needs no lease, and takes none away.
pub async fn commands_need_no_lease<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.submit(Command::Interrupt).await.expect("a turn is under way");
    witness.agrees().await;
    witness.journal(vec![attempt(), text("the driver has not looked yet")]).await;
    witness.obey_next().await;
    witness.agrees().await;
}
