//! Starting, dying and ending.

use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;

use crate::crowd::{has_begun, words};
use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::{Reader, reply};

const TOKENS: usize = 150;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// SIGTERM ends streams in good order and the process with 0; the turn goes on at the next start.
#[tokio::test]
async fn a_server_that_is_told_to_end_hands_its_turns_over() {
    let scratch = Scratch::new();
    let mut daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": format!("count to {TOKENS}")})).await;
    reader.until(has_begun).await;
    daemon.signal("TERM").await;
    reader.until_the_end().await;
    assert_eq!(reader.comments.last().unwrap(), "bye, the server is going down");
    assert_eq!(daemon.child.wait().await.unwrap().code(), Some(0));
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let mut reader = Reader::resume(daemon.ask(Method::GET, &format!("{chat}/stream")), reader.follower).await;
    assert_eq!(reply(&reader.until_rest().await), words(TOKENS));
}

/// A server that is stopped while it waits for its database ends at once, though that never answers.
#[tokio::test]
async fn a_start_that_waits_for_its_database_can_be_ended() {
    for signal in ["TERM", "INT"] {
        let (scratch, database) = (Scratch::new(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--data", scratch.path().to_str().unwrap()]);
        command.env("DATABASE_URL", format!("postgres://me@{}/chats", database.local_addr().unwrap()));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _silent = timeout(PATIENCE, database.accept()).await.expect("it looks for its database").unwrap();
        let pid = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().await.unwrap().success());
        let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{signal}: {said}");
        assert!(said.contains("no chat was started") && output.stdout.is_empty(), "{signal}: {said}");
    }
}

/// A server that is stopped while its open store does not answer does not wait for it either.
#[tokio::test]
async fn a_start_on_a_store_that_stands_still_is_given_up() {
    let (scratch, url) = (Scratch::new(), everturn_props::database().unwrap());
    Daemon::start_on(scratch.path(), "understudy/persona", &url).await.end().await;
    let psql = |sql: &str| everturn_props::psql(&url, sql).unwrap().trim().to_owned();
    let url_of_hold = url.clone();
    let hold = std::thread::spawn(move || {
        let _ = everturn_props::psql(&url_of_hold, "BEGIN; LOCK TABLE tokens; SELECT pg_sleep(600)"); // It is cut off below.
    });
    while psql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND wait_event = 'PgSleep'")
        != "1"
    {}
    let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--data", scratch.path().to_str().unwrap()]);
    command.env("DATABASE_URL", &url).env("EVERTURN_DRAIN_SECONDS", "0");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while psql("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tokens'::regclass") == "0" {}
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().await.unwrap().success());
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap();
    psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    hold.join().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("the start did not finish in time"), "{said}");
}

/// Without a key the banner names the understudy, and the data directory.
#[tokio::test]
async fn the_banner_says_what_a_newcomer_needs() {
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    let banner = daemon.banner.join("\n");
    let data = scratch.path().to_str().unwrap();
    for part in ["http://127.0.0.1:", data, &format!("{data}/token"), "no key is set, so the understudy stands in"] {
        assert!(banner.contains(part), "{part} is missing:\n{banner}");
    }
}

/// What would be unsafe or cannot work is refused, with what to do.
#[tokio::test]
async fn what_cannot_be_served_is_refused() {
    let scratch = Scratch::new();
    let _daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    let (data, other) = (scratch.path().to_str().unwrap(), Scratch::new());
    let other = other.path().to_str().unwrap();
    for (arguments, said) in [
        (vec!["serve", "--listen", "0.0.0.0:0", "--data", other], "--expose"),
        (vec!["serve", "--listen", "0.0.0.0:0", "--expose", "--data", other], "--tls-cert"),
        (vec!["serve", "--tls-cert", "/nowhere", "--tls-key", "/nowhere", "--data", other], "/nowhere"),
        (vec!["serve", "--listen", "127.0.0.1:0", "--data", data], "in use by process"),
        (
            vec!["serve", "--listen", "127.0.0.1:0", "--data", other, "--model", "nobody/any"],
            "no provider is configured for",
        ),
    ] {
        let output = everturn(&arguments).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(said), "{error}");
    }
}

/// The file makes agents, and `config show` says where each value came from and no key.
#[tokio::test]
async fn the_configuration_is_read_and_shown() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let file = scratch.path().join("config.toml");
    let file_text = file.to_str().unwrap();
    std::fs::write(&file, "model = \"understudy/numbered\"\n[agents.other]\nmodel = \"understudy/persona\"\n").unwrap();
    let mut command = everturn(&["config", "show", "--config", file_text, "--listen", "127.0.0.1:9"]);
    let output = command.env("OPENAI_API_KEY", "sk-not-to-be-shown").output().await.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    for line in [
        "listen = \"127.0.0.1:9\"  # --listen",
        &format!("model = \"understudy/numbered\"  # {file_text}"),
        "[agents.other]",
        "# OPENAI_API_KEY: set",
    ] {
        assert!(shown.contains(line), "{line} is missing:\n{shown}");
    }
    assert!(!shown.contains("sk-not"));
    std::fs::write(&file, "modle = \"understudy/numbered\"\n").unwrap();
    let output = everturn(&["config", "show", "--config", file_text]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("unknown field `modle`"));
}
