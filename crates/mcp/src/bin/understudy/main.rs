//! A stand-in MCP server for tests: raw lines, both generations of the protocol, and faults on demand.
//!
//! Written without the library that the client uses, so that the two share no mistake. It is also the helper of the
//! processes that tests start, and with `--host` a program that holds servers until it is killed.

mod host;
mod script;

use std::io::{BufRead as _, Write as _};

use script::{Action, Generation, ServerScript};
use serde_json::Value;

fn main() {
    everturn_tools::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "--host") {
        return host::run(&args[1..]);
    }
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    if has("--exit") {
        eprintln!("starting\n\u{1b}[31mno licence found\u{1b}[0m");
        std::process::exit(3);
    }
    if has("--noise") {
        println!("Welcome!\n\n{{\"level\":\"info\"}}\n[1, 2]");
    }
    let generation = match value("--speaks").as_deref() {
        Some("2025-11-25") => Generation::Old,
        Some("2026-07-28") => Generation::New,
        _ => Generation::Both,
    };
    let path = |name: &str| value(name).map(Into::into);
    let mut script = ServerScript { generation, log: path("--log"), list: path("--list"), tasks: path("--tasks") };
    let mut held = Vec::new();
    // How many messages it takes before it answers: a server that starts slowly finds several.
    let hold: usize = value("--hold").map_or(0, |n| n.parse().expect("a number"));
    let mut seen = 0;
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.expect("input is text")).expect("input is JSON");
        seen += 1;
        if has("--wants-initialize") && seen == 1 && message["method"] != "initialize" {
            eprintln!("protocol violation");
            std::process::exit(1);
        }
        let actions = script.answer(&message);
        held.extend(actions);
        if seen < hold || has("--mute") {
            continue;
        }
        held.drain(..).for_each(act);
    }
    if has("--stays") {
        loop {
            std::thread::park();
        }
    }
}

fn act(action: Action) {
    let mut output = std::io::stdout().lock();
    let bytes = match action {
        Action::Send(message) => format!("{message}\n").into_bytes(),
        Action::SendRaw(bytes) => bytes,
        Action::Die => std::process::exit(9),
    };
    if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
        std::process::exit(0); // The client has closed the connection.
    }
}
