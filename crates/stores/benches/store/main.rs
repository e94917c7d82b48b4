//! What it costs to keep every delta before anyone sees it, and to commit.
//!
//! Each figure stands beside a floor of the same run: prepared inserts of the same bytes, in batches of the same size, on
//! a connection of their own with nothing around it. Run with `cargo xtask bench store [--json]`. Postgres is started for
//! it if it is installed. CPU is this process's alone: of Postgres, what the client costs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a bench measures real time, and ends if it cannot")]

mod floor;
mod load;
mod meter;

use std::sync::Arc;
use std::time::Duration;

use everturn_props::Server;
use everturn_stores::Store;
use load::Load;
use meter::{Out, percentile};

/// Chats that stream at once.
const CHATS: usize = 1_000;
/// How long each load lasts.
const SPAN: Duration = Duration::from_secs(4);
/// Deltas a second and chat, when paced.
const PACE: u32 = 50;

fn main() {
    let out = Out { json: std::env::args().any(|arg| arg == "--json") };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let store = floor::sqlite_store(dir.path());
        let floor = async |rows, batch| floor::sqlite(dir.path(), rows, batch);
        measure(&out, "sqlite", store, floor).await;
        match Server::start() {
            Ok(server) => {
                let store = floor::postgres_store(&server).await;
                let floor = async |rows, batch| floor::postgres(&server, rows, batch).await;
                measure(&out, "postgres", store, floor).await;
            }
            Err(error) => eprintln!("without Postgres: {error}"),
        }
    });
}

/// Everything about one store. `floor` says how many seconds so many rows take it in batches of so many.
async fn measure(out: &Out, name: &str, store: Arc<dyn Store>, floor: impl AsyncFn(usize, usize) -> f64) {
    fast(out, name, &store, &floor).await;
    paced(out, name, &store).await;
    long_answer(out, name, &store).await;
    commits(out, name, &store).await;
}

/// As fast as possible: every chat has its next delta ready when the last one is durable.
async fn fast(out: &Out, name: &str, store: &Arc<dyn Store>, floor: &impl AsyncFn(usize, usize) -> f64) {
    let load = Load::new(store, CHATS, 1).await;
    let done = load.run(SPAN, None).await;
    let seconds = floor(done.deltas, CHATS).await;
    let (ours, floor) = (done.deltas as f64 / done.took.as_secs_f64(), done.deltas as f64 / seconds);
    out.line(name, "fast: deltas a second", CHATS, ours, "1/s", floor);
    out.line(name, "fast: CPU a delta", CHATS, done.cpu_per_delta(), "ns", seconds * 1e9 / done.deltas as f64);
    out.line(name, "fast: written a byte", CHATS, done.written as f64 / done.payload as f64, "B", 1.0);
    let mut delays = done.delays;
    out.line(name, "fast: delay p50", CHATS, percentile(&mut delays, 50.0), "ms", 1.0);
    out.line(name, "fast: delay p99", CHATS, percentile(&mut delays, 99.0), "ms", 1.0);
}

/// At the pace of people's models.
async fn paced(out: &Out, name: &str, store: &Arc<dyn Store>) {
    let load = Load::new(store, CHATS, 1_000_000).await;
    let done = load.run(SPAN, Some(Duration::from_secs(1) / PACE)).await;
    out.line(name, "paced: CPU a delta", CHATS, done.cpu_per_delta(), "ns", 1.0);
    out.line(name, "paced: written a byte", CHATS, done.written as f64 / done.payload as f64, "B", 1.0);
    let mut delays = done.delays;
    out.line(name, "paced: delay p50", CHATS, percentile(&mut delays, 50.0), "ms", 1.0);
    out.line(name, "paced: delay p99", CHATS, percentile(&mut delays, 99.0), "ms", 10.0);
}

/// One answer that grows and grows: each delta costs what the first ones did.
async fn long_answer(out: &Out, name: &str, store: &Arc<dyn Store>) {
    let mut load = Load::new(store, 1, 2_000_000).await;
    let mut first = None;
    for n in [1_000, 10_000, 100_000] {
        let took = load.grow_to(n).await.as_nanos() as f64;
        out.line(name, "one answer: time a delta", n, took, "ns", *first.get_or_insert(took));
    }
}

/// A commit writes what is new, however long the chat is.
async fn commits(out: &Out, name: &str, store: &Arc<dyn Store>) {
    let mut load = Load::new(store, 1, 3_000_000).await;
    let mut first = None;
    for messages in [0, 100, 1_000, 5_000] {
        let took = load.commit_at(messages).await.as_nanos() as f64 / 1e3;
        out.line(name, "commit", messages as usize, took, "us", *first.get_or_insert(took));
    }
}
