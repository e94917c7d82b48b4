//! When jobs wait for others, and when they do not.

use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

use super::*;
use crate::sqlite::writer::tx::WriteTx;
use crate::store::StoreError;

const HOUR: Duration = Duration::from_secs(3_600);
const HOURS: GroupCommitWindow = GroupCommitWindow { max: HOUR, gap: HOUR };

struct Idle(DurabilityNeed);

impl WriteJob for Idle {
    fn needs(&self) -> DurabilityNeed {
        self.0
    }

    fn run(&mut self, _: &mut WriteTx<'_>) -> Result<(), rusqlite::Error> {
        Ok(())
    }

    fn answer(self: Box<Self>, _: Option<StoreError>) {}
}

async fn put(queue: &Queue, needs: DurabilityNeed) {
    queue.put(Box::new(Idle(needs))).await.expect("it is open");
}

/// A writer that has just been at work, and how many it takes next.
fn taking(queue: &Arc<Queue>) -> JoinHandle<Option<usize>> {
    let queue = queue.clone();
    spawn(move || queue.take(clock::now()).map(|jobs| jobs.len()))
}

/// A task that takes from the queue, once it waits.
async fn waiting(queue: &Arc<Queue>, what_for: WriterState) -> JoinHandle<Option<usize>> {
    let taken = taking(queue);
    while queue.lock().writer != what_for {
        tokio::task::yield_now().await;
    }
    taken
}

#[tokio::test]
async fn a_single_job_runs_at_once() {
    for needs in [DurabilityNeed::Nothing, DurabilityNeed::Process, DurabilityNeed::Full] {
        let queue = Arc::new(Queue::new(HOURS));
        let taken = waiting(&queue, WriterState::WaitingForAny).await;
        put(&queue, needs).await;
        assert_eq!(taken.join().unwrap(), Some(1));
    }
}

#[tokio::test]
async fn appends_wait_for_company_until_somebody_wants_more() {
    for urgent in [DurabilityNeed::Nothing, DurabilityNeed::Full] {
        let queue = Arc::new(Queue::new(HOURS));
        put(&queue, DurabilityNeed::Process).await;
        put(&queue, DurabilityNeed::Process).await;
        let taken = waiting(&queue, WriterState::WaitingForMany).await;
        put(&queue, urgent).await;
        assert_eq!(taken.join().unwrap(), Some(3));
    }
}

#[tokio::test]
async fn appends_do_not_wait_when_they_are_many_or_nobody_else_comes() {
    let queue = Arc::new(Queue::new(HOURS));
    put(&queue, DurabilityNeed::Process).await;
    put(&queue, DurabilityNeed::Process).await;
    let taken = waiting(&queue, WriterState::WaitingForMany).await;
    for _ in 2..GROUP_COMMIT_LEN {
        put(&queue, DurabilityNeed::Process).await;
    }
    assert_eq!(taken.join().unwrap(), Some(GROUP_COMMIT_LEN));
    let moment = Duration::from_millis(1);
    for window in [GroupCommitWindow { max: moment, gap: HOUR }, GroupCommitWindow { max: HOUR, gap: moment }] {
        let queue = Queue::new(window);
        put(&queue, DurabilityNeed::Process).await;
        put(&queue, DurabilityNeed::Process).await;
        assert_eq!(queue.take(clock::now()).map(|jobs| jobs.len()), Some(2));
    }
}

#[tokio::test]
async fn callers_of_a_full_queue_wait_for_room() {
    let queue = Arc::new(Queue::new(HOURS));
    let crowd: Vec<_> = (0..QUEUE_LEN_MAX + 10)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { put(&queue, DurabilityNeed::Process).await })
        })
        .collect();
    while queue.len() < QUEUE_LEN_MAX {
        tokio::task::yield_now().await;
    }
    assert_eq!(taking(&queue).join().unwrap(), Some(QUEUE_LEN_MAX));
    for one in crowd {
        one.await.unwrap();
    }
    assert_eq!(queue.len(), 10);
}

#[tokio::test]
async fn queued_jobs_run_before_the_end_and_none_after_it() {
    let queue = Arc::new(Queue::new(HOURS));
    put(&queue, DurabilityNeed::Process).await;
    put(&queue, DurabilityNeed::Process).await;
    let taken = waiting(&queue, WriterState::WaitingForMany).await;
    queue.close();
    assert_eq!(taken.join().unwrap(), Some(2));
    assert_eq!(taking(&queue).join().unwrap(), None);
    assert!(queue.put(Box::new(Idle(DurabilityNeed::Full))).await.is_err());
}

#[tokio::test]
async fn callers_do_not_wait_for_a_writer_that_ended() {
    let queue = Arc::new(Queue::new(HOURS));
    while queue.len() < QUEUE_LEN_MAX {
        put(&queue, DurabilityNeed::Full).await;
    }
    let late = tokio::spawn({
        let queue = queue.clone();
        async move { queue.put(Box::new(Idle(DurabilityNeed::Full))).await }
    });
    tokio::task::yield_now().await;
    queue.give_up();
    assert!(late.await.unwrap().is_err());
    assert_eq!(queue.len(), 0);
}
