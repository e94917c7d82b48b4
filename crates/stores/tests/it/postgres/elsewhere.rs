//! What one process writes another reads, whole and at once: nothing that others need is only in memory.

use std::sync::Arc;

use async_trait::async_trait;
use everturn_stores::Postgres;
use everturn_stores::postgres::PostgresOptions;
use everturn_testkit::conformance::{deleting, generated, inbox, journal, making, reads, watchers};
use everturn_testkit::{Access, Layered, StoreLayer};

use super::{database, open};

/// A chat that is driven here and watched there.
struct Elsewhere {
    here: Arc<Postgres>,
    there: Arc<Postgres>,
}

impl Elsewhere {
    async fn store() -> Arc<Layered<Self>> {
        let url = database();
        let (here, there) =
            (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
        Arc::new(Layered(Self { here, there }))
    }
}

/// I3, CS04: subscribers in another process see the same, draft included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_another_process_see_what_is_there() {
    watchers::every_watcher_sees_what_is_there(Elsewhere::store().await).await;
}

/// I5: whatever a driver did is there for another process as soon as it was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_reads_any_life_as_it_was() {
    generated::any_life_of_a_chat_is_stored_as_it_was(Elsewhere::store().await).await;
}

/// Commands that come in by one process are obeyed by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_cross_processes() {
    inbox::obeyed_commands_leave_the_inbox_in_order(Elsewhere::store().await).await;
    inbox::a_refused_command_leaves_no_trace(Elsewhere::store().await).await;
    journal::rows_go_with_their_step(Elsewhere::store().await).await;
    reads::a_catch_up_is_whole(Elsewhere::store().await).await;
}

/// What one process deletes or forks is gone or there for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_and_making_cross_processes() {
    deleting::nothing_is_left_of_a_deleted_chat(Elsewhere::store().await).await;
    deleting::a_deleted_chat_can_be_made_anew(Elsewhere::store().await).await;
    making::a_fork_is_a_chat_of_its_own(Elsewhere::store().await).await;
    making::messages_are_found_by_their_words(Elsewhere::store().await).await;
}

#[async_trait]
impl StoreLayer for Elsewhere {
    type Store = Postgres;
    type Inner<'a> = &'a Postgres;

    async fn inner(&self, access: Access) -> &Postgres {
        match access {
            Access::Driver => &self.here,
            Access::Client => &self.there,
        }
    }
}
