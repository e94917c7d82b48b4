//! What a delta costs on its whole way: from a model's socket through the journal to a client's socket.
//!
//! The real binary serves, with real HTTP on both sides and a journal on disk. Beside it, in the same run,
//! stand two floors: a proxy that passes bytes on, and one that parses each event, appends it to a log and
//! emits it again. The model and the clients live in this process, so that only the one in the middle is
//! measured. Run with `cargo xtask bench serve [--json]`; it needs Linux. The bench itself also takes loads,
//! as `CHATS`, `CHATS@PACE` or `CHATS@PACE/2` for HTTP/2, and then measures only those: `1` is the one that
//! comes as fast as possible, and `0` is for what comes after a kill.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a bench measures real time, and ends if it cannot")]

mod client;
mod floor;
mod meter;
mod process;
mod shared;
mod source;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{Clients, Seen};
use meter::{Out, median, percentile};
use process::{Middle, Process, Wire};
use source::Source;

/// Deltas a second and chat.
const PACE: u32 = 50;
/// Chats that stream at the same time, at which pace, and how. Two cores that also have the model and the
/// clients to do are full with a thousand connections on each side at the usual pace, with any server in the
/// middle (ADR 16); so there are a thousand slower ones too, and a thousand that share connections as
/// providers and proxies have it.
const LOADS: [Load; 4] = [
    Load(200, PACE, Wire::Http1),
    Load(1_000, 15, Wire::Http1),
    Load(1_000, PACE, Wire::Http1),
    Load(1_000, PACE, Wire::Http2),
];
/// Chats that stream when the server is killed.
const KILLED: usize = 200;
/// How often they are measured, and how long each time. Medians are told: a strange machine has other things
/// to do.
const ROUNDS: usize = 9;
const SPAN: Duration = Duration::from_secs(1);
/// How long they stream before.
const WARM_UP: Duration = Duration::from_secs(1);
/// Deltas of an answer that comes as fast as possible, and how many such answers.
const FAST: (usize, usize) = (20_000, 20);

/// Chats, deltas a second and chat, and what is spoken.
#[derive(Clone, Copy, PartialEq)]
struct Load(usize, u32, Wire);

/// The cost of one load for the process in the middle.
struct Cost {
    /// Microseconds of CPU a delta.
    cpu: f64,
    /// Deltas a second.
    rate: f64,
    /// Milliseconds from the model's write to the client's read, and in the worst round.
    p50: f64,
    p99: f64,
    worst_p99: f64,
    /// Which part of the machine was busy, with the model and the clients.
    busy: f64,
    /// KiB of memory before anything came, for each chat, and for each but the first: that one has the
    /// program's pages brought in, and caches and connections made.
    idle: f64,
    a_chat: f64,
    one_more: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == floor::ROLE) {
        return floor::run(&arguments[at + 1..]);
    }
    let out = Out { json: arguments.iter().any(|argument| argument == "--json") };
    let asked: Vec<Load> = arguments.iter().filter_map(|argument| load(argument)).collect();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = Source::start(dir.path());
    let is_asked = |chats| asked.is_empty() || asked.iter().any(|load| load.0 == chats);
    if is_asked(1) {
        let [passed, parsed, ours] = Middle::ALL.map(|middle| fast(middle, &source, dir.path()));
        floors(&out, "one chat, fast: CPU a delta", FAST.0, &passed, &parsed);
        out.line("one chat, fast: CPU a delta", FAST.0, ours.cpu, "us", parsed.cpu, Some(2.5));
        out.line("one chat, fast: deltas a second", FAST.0, ours.rate, "1/s", parsed.rate, None);
    }
    let mut idle = None;
    let loads = if asked.is_empty() { &LOADS[..] } else { &asked };
    for load in loads.iter().filter(|load| load.0 > 1) {
        let [passed, parsed, ours] = Middle::ALL.map(|middle| paced(middle, &source, dir.path(), *load));
        tell(&out, *load, &passed, &parsed, &ours);
        idle = Some(ours.idle);
    }
    if is_asked(0) {
        let mut waits = restarted(&source, dir.path());
        let chats = waits.len();
        out.line("killed: next token p50", chats, percentile(&mut waits, 50.0), "ms", 250.0, None);
        out.line("killed: next token p99", chats, percentile(&mut waits, 99.0), "ms", 250.0, Some(1.0));
    }
    if let Some(idle) = idle {
        out.line("idle: memory", 0, idle / 1024.0, "MiB", 30.0, Some(1.0));
    }
}

/// What a paced load cost.
fn tell(out: &Out, Load(chats, pace, wire): Load, passed: &Cost, parsed: &Cost, ours: &Cost) {
    let shared = if wire == Wire::Http2 { ", HTTP/2" } else { "" };
    let name = |what| format!("{chats} chats at {pace}/s{shared}: {what}");
    floors(out, &name("CPU a delta"), chats, passed, parsed);
    let line = |what, value, unit, floor, goal| out.line(&name(what), chats, value, unit, floor, goal);
    line("CPU a delta", ours.cpu, "us", parsed.cpu, Some(2.5));
    line("deltas a second", ours.rate, "1/s", chats as f64 * f64::from(pace), None);
    line("delay p50", ours.p50, "ms", parsed.p50, None);
    line("delay p99", ours.p99, "ms", parsed.p99, None);
    line("delay p99, worst second", ours.worst_p99, "ms", parsed.worst_p99, None);
    line("delay p99, added", (ours.p99 - passed.p99).max(0.0), "ms", 15.0, Some(1.0));
    // A machine that is busy all the time measures the length of its queues, not the process in the middle.
    line("machine busy", ours.busy, "", parsed.busy, None);
    line("memory a chat", ours.a_chat, "KiB", 100.0, Some(1.0));
    line("memory of one more chat", ours.one_more, "KiB", parsed.one_more, None);
}

/// A load as it is asked for.
fn load(argument: &str) -> Option<Load> {
    let (argument, wire) = argument.strip_suffix("/2").map_or((argument, Wire::Http1), |load| (load, Wire::Http2));
    let (chats, pace) = argument.split_once('@').map_or((argument, Ok(PACE)), |(chats, pace)| (chats, pace.parse()));
    Some(Load(chats.parse().ok()?, pace.ok().filter(|pace| *pace > 0)?, wire))
}

fn floors(out: &Out, metric: &str, n: usize, passed: &Cost, parsed: &Cost) {
    out.line(&format!("{metric}, passed on"), n, passed.cpu, "us", parsed.cpu, None);
    out.line(&format!("{metric}, parsed and logged"), n, parsed.cpu, "us", parsed.cpu, None);
    for (who, cost) in [("passed on", passed), ("parsed and logged", parsed)] {
        eprintln!(
            "  {who}: delay p50 {:.2} ms, p99 {:.2} ms, {:.0} deltas a second, {:.0} KiB idle, {:.1} KiB a chat, machine {:.0} % busy",
            cost.p50,
            cost.p99,
            cost.rate,
            cost.idle,
            cost.a_chat,
            cost.busy * 100.0
        );
    }
}

/// Chats at the pace of people's models.
fn paced(middle: Middle, source: &Source, dir: &Path, Load(chats, pace, wire): Load) -> Cost {
    let process = Process::start(middle, wire, source, dir);
    std::thread::sleep(WARM_UP);
    let idle = process.rss();
    let seen = Arc::new(Seen::new(source.clock(), Duration::ZERO));
    let first = Clients::open(&process, &seen, 1, "at the usual pace");
    seen.wait_until_begun(1);
    let with_one = process.rss();
    let others = Clients::open(&process, &seen, chats - 1, "at the usual pace");
    seen.wait_until_begun(chats);
    source.go_on(pace);
    std::thread::sleep(WARM_UP);
    let (cpu, started, machine) = (process.cpu(), source.now(), meter::machine());
    let (mut deltas, mut p50, mut p99) = (0, vec![], vec![]);
    for _ in 0..ROUNDS {
        seen.measure();
        std::thread::sleep(SPAN);
        let mut delays = seen.measured();
        deltas += delays.len();
        p50.push(percentile(&mut delays, 50.0));
        p99.push(percentile(&mut delays, 99.0));
    }
    let machine = meter::machine() - machine;
    let (cpu, took) = (process.cpu() - cpu, source.now() - started);
    let rss = process.rss();
    source.end_answers();
    drop((first, others));
    Cost {
        cpu: cpu.as_secs_f64() * 1e6 / deltas as f64,
        rate: deltas as f64 / took.as_secs_f64(),
        p50: median(&mut p50),
        p99: median(&mut p99),
        worst_p99: p99.iter().copied().fold(0.0, f64::max),
        busy: machine.busy(),
        idle,
        a_chat: (rss - idle) / chats as f64,
        one_more: (rss - with_one) / (chats - 1) as f64,
    }
}

/// How long it is, in microseconds, from the moment a server says that it is ready until each of the chats
/// that were streaming when the one before it was killed has a new delta at a client that came back.
fn restarted(source: &Source, dir: &Path) -> Vec<u32> {
    let (dir, chats) = (tempfile::tempdir_in(dir).unwrap(), KILLED);
    let process = Process::start_in(Middle::Everturn, Wire::Http1, source, dir.path());
    let seen = Arc::new(Seen::new(source.clock(), Duration::ZERO));
    let clients = Clients::open(&process, &seen, chats, "until somebody is killed");
    seen.wait_until_begun(chats);
    source.go_on(PACE);
    std::thread::sleep(WARM_UP);
    drop(process);
    source.end_answers(); // No client reads the ends of the old answers.
    let killed = source.now();
    let process = Process::start_in(Middle::Everturn, Wire::Http1, source, dir.path());
    let start = (source.now() - killed).as_micros() as u32;
    let seen = Arc::new(Seen::new(source.clock(), killed));
    clients.come_back(&process, &seen);
    seen.wait_until_begun(chats);
    seen.firsts().into_iter().map(|first| first - start).collect()
}

/// One answer after the other, each as fast as it can be read.
fn fast(middle: Middle, source: &Source, dir: &Path) -> Cost {
    let process = Process::start(middle, Wire::Http1, source, dir);
    let (deltas, rounds) = FAST;
    let idle = process.rss();
    let (cpu, started, machine) = (process.cpu(), source.now(), meter::machine());
    let mut delays = Vec::new();
    for _ in 0..rounds {
        let seen = Arc::new(Seen::new(source.clock(), Duration::ZERO));
        seen.measure();
        let clients = Clients::open(&process, &seen, 1, &format!("{}{deltas}", source::FAST));
        seen.wait_for(deltas);
        delays.extend(seen.measured());
        drop(clients);
    }
    let (cpu, took, machine) = (process.cpu() - cpu, source.now() - started, meter::machine() - machine);
    Cost {
        cpu: cpu.as_secs_f64() * 1e6 / (deltas * rounds) as f64,
        rate: (deltas * rounds) as f64 / took.as_secs_f64(),
        p50: percentile(&mut delays, 50.0),
        p99: percentile(&mut delays, 99.0),
        worst_p99: 0.0,
        busy: machine.busy(),
        idle,
        a_chat: process.rss() - idle,
        one_more: 0.0,
    }
}
