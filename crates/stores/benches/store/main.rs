//! What it costs to keep every delta before anyone sees it, and to commit.
//!
//! Each figure stands beside a floor of the same run: prepared inserts of the same bytes, a row a delta, in batches of the
//! same size, on a connection of their own with nothing around it. The two take turns, and medians are told: a strange
//! machine has other things to do. Run with `cargo xtask bench store [--json]`; the bench itself also takes the names of
//! stores and figures, and then does only those. Postgres is started for it if it is installed.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a bench measures real time, and ends if it cannot")]

mod floor;
mod load;
mod meter;

use std::sync::Arc;
use std::time::Duration;

use everturn_props::PostgresServer;
use everturn_stores::Store;
use floor::{Floor, Rows};
use load::{Drive, Load};
use meter::{Machine, Out, median, percentile};

/// Chats that stream at once.
const CHATS: usize = 1_000;
/// How often a load and its floor take turns.
const ROUNDS: usize = 5;
/// How long each load lasts.
const SPAN: Duration = Duration::from_millis(1_500);
/// How long the paced load lasts, each time.
const PACED: Duration = Duration::from_secs(3);
/// How far apart the deltas of a chat come when there are too many.
const FLOOD: Duration = Duration::from_micros(400);
/// Deltas a second and chat, when paced.
const PACE: u32 = 50;

fn main() {
    let out = Out::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        if out.wants("sqlite") {
            let store = floor::sqlite_store(dir.path());
            measure(&out, "sqlite", store, &Floor::Sqlite(dir.path())).await;
        }
        if out.wants("postgres") {
            match PostgresServer::start() {
                Ok(server) => {
                    let store = floor::postgres_store(&server).await;
                    measure(&out, "postgres", store, &Floor::Postgres(&server)).await;
                }
                Err(error) => eprintln!("without Postgres: {error}"),
            }
        }
    });
}

/// Everything about one store.
async fn measure(out: &Out, name: &str, store: Arc<dyn Store>, floor: &Floor<'_>) {
    if out.wants("fast") {
        fast(out, name, &store, floor).await;
    }
    if out.wants("flood") {
        flood(out, name, &store, floor).await;
    }
    if out.wants("paced") {
        paced(out, name, &store, floor).await;
    }
    if out.wants("answer") {
        long_answer(out, name, &store).await;
    }
    if out.wants("commit") {
        commits(out, name, &store).await;
    }
}

/// One at a time: every chat has its next delta ready when the last one is durable. No engine does that, for it would have
/// to wake a task for every delta; it shows what one append costs, and no goal is held against it (ADR 15).
async fn fast(out: &Out, name: &str, store: &Arc<dyn Store>, floor: &Floor<'_>) {
    let mut load = Load::new(store, CHATS, 1).await;
    let (mut ours, mut raw, mut ratios, mut delays) = (vec![], vec![], vec![], vec![]);
    let (mut cpu, mut here) = (vec![], vec![]);
    let (mut written, mut raw_written, mut raw_cpu) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let (before, elsewhere) = (floor.written().await, floor.cpu_elsewhere().await);
        let done = load.run(SPAN, Drive::Closed).await;
        let elsewhere = floor.cpu_elsewhere().await - elsewhere;
        written.push((floor.written().await - before) as f64 / done.payload as f64);
        let before = floor.written().await;
        let inserted = floor.insert(Rows::at_once(done.deltas, CHATS)).await;
        raw_written.push((floor.written().await - before) as f64 / done.payload as f64);
        ours.push(done.deltas as f64 / done.took.as_secs_f64());
        raw.push(done.deltas as f64 / inserted.seconds);
        ratios.push(ours[ours.len() - 1] / raw[raw.len() - 1]);
        here.push(done.cpu_per_delta());
        cpu.push(done.cpu_per_delta() + elsewhere * 1e9 / done.deltas as f64);
        raw_cpu.push(inserted.cpu * 1e9 / done.deltas as f64);
        delays.extend(done.delays);
    }
    let (ours, raw) = (median(&mut ours), median(&mut raw));
    out.line(name, "fast: deltas a second", CHATS, ours, "1/s", raw);
    out.line(name, "fast: part of the floor", CHATS, median(&mut ratios), "", 1.0);
    out.line(name, "fast: CPU a delta", CHATS, median(&mut cpu), "ns", median(&mut raw_cpu));
    out.line(name, "fast: of it in here", CHATS, median(&mut here), "ns", 1.0);
    out.line(name, "fast: written a byte", CHATS, median(&mut written), "B", median(&mut raw_written));
    out.line(name, "fast: delay p50", CHATS, percentile(&mut delays, 50.0), "ms", 1.0);
    out.line(name, "fast: delay p99", CHATS, percentile(&mut delays, 99.0), "ms", 1.0);
}

/// As fast as possible: more comes than can be written, and what has come while the last append was on its way goes together.
async fn flood(out: &Out, name: &str, store: &Arc<dyn Store>, floor: &Floor<'_>) {
    let mut load = Load::new(store, CHATS, 500_000).await;
    let (mut ours, mut raw, mut ratios, mut cpu, mut delays) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let done = load.run(SPAN, Drive::Flooded(FLOOD)).await;
        raw.push(done.deltas as f64 / floor.insert(Rows::at_once(done.deltas, CHATS)).await.seconds);
        ours.push(done.deltas as f64 / done.took.as_secs_f64());
        ratios.push(ours[ours.len() - 1] / raw[raw.len() - 1]);
        cpu.push(done.cpu_per_delta());
        delays.extend(done.delays);
    }
    out.line(name, "flood: deltas a second", CHATS, median(&mut ours), "1/s", median(&mut raw));
    out.line(name, "flood: part of the floor", CHATS, median(&mut ratios), "", 0.6);
    out.line(name, "flood: CPU a delta", CHATS, median(&mut cpu), "ns", 1.0);
    out.line(name, "flood: delay p99", CHATS, percentile(&mut delays, 99.0), "ms", 10.0);
}

/// At the pace of people's models. The floor puts in as many rows a second, what comes in a millisecond together.
async fn paced(out: &Out, name: &str, store: &Arc<dyn Store>, floor: &Floor<'_>) {
    let mut load = Load::new(store, CHATS, 1_000_000).await;
    let pace = Drive::Paced(Duration::from_secs(1) / PACE);
    let batch = CHATS * PACE as usize / 1_000;
    let raw = Rows { len: PACED.as_millis() as usize * batch, batch, gap: Duration::from_millis(1) };
    floor.rest().await;
    load.run(PACED * 2, pace).await; // After a checkpoint Postgres logs each page whole that it touches for the first time.
    let (mut cpu, mut written, mut stolen) = (vec![], vec![], vec![]);
    let (mut delays, mut raw_delays) = ([vec![], vec![]], [vec![], vec![]]);
    let parts = [50.0, 99.0];
    for _ in 0..ROUNDS {
        let (before, machine) = (floor.written().await, Machine::now());
        let mut done = load.run(PACED, pace).await;
        stolen.push(machine.stolen());
        written.push((floor.written().await - before) as f64 / done.payload as f64);
        cpu.push(done.cpu_per_delta());
        let mut inserted = floor.insert(raw).await.delays;
        for (i, part) in parts.into_iter().enumerate() {
            delays[i].push(percentile(&mut done.delays, part));
            raw_delays[i].push(percentile(&mut inserted, part));
        }
    }
    out.line(name, "paced: CPU a delta", CHATS, median(&mut cpu), "ns", 1.0);
    out.line(name, "paced: written a byte", CHATS, median(&mut written), "B", 8.0);
    out.line(name, "paced: taken by others", CHATS, median(&mut stolen), "%", 1.0);
    for (i, part) in parts.into_iter().enumerate() {
        let metric = format!("paced: delay p{part}");
        out.line(name, &metric, CHATS, median(&mut delays[i]), "ms", median(&mut raw_delays[i]));
    }
    let worst = |rounds: &[f64]| rounds.iter().copied().fold(0.0, f64::max);
    out.line(name, "paced: p99, worst round", CHATS, worst(&delays[1]), "ms", worst(&raw_delays[1]));
}

/// One answer that grows and grows: each delta costs what the first ones did. Answers of different lengths take turns.
async fn long_answer(out: &Out, name: &str, store: &Arc<dyn Store>) {
    let lens = [1_000, 10_000, 100_000];
    let mut load = Load::new(store, lens.len(), 2_000_000).await;
    for (chat, len) in lens.iter().enumerate() {
        load.grow_to(chat, *len).await;
    }
    let mut took = [Duration::ZERO; 3];
    for _ in 0..20 {
        for (chat, took) in took.iter_mut().enumerate() {
            *took += load.grow_by(chat, 100).await;
        }
    }
    for (len, took_here) in lens.iter().zip(took) {
        let a_delta = |took: Duration| took.as_nanos() as f64 / 2_000.0;
        out.line(name, "one answer: time a delta", *len, a_delta(took_here), "ns", a_delta(took[0]));
    }
}

/// A commit writes what is new, however long the chat is. Chats of different lengths take turns.
async fn commits(out: &Out, name: &str, store: &Arc<dyn Store>) {
    let lens = [0, 100, 1_000, 5_000];
    let mut load = Load::new(store, lens.len(), 3_000_000).await;
    for (chat, len) in lens.iter().enumerate() {
        load.talk_to(chat, *len).await;
    }
    let mut took = [const { Vec::new() }; 4];
    for _ in 0..200 {
        for (chat, took) in took.iter_mut().enumerate() {
            took.push(load.say(chat, 1).await.as_nanos() as f64 / 1e3);
        }
    }
    let took = took.map(|mut took| median(&mut took));
    for (len, took_here) in lens.iter().zip(took) {
        out.line(name, "commit", *len, took_here, "us", took[0]);
    }
}
