//! One turn for scripts, and the other small commands.

use std::os::unix::fs::DirBuilderExt as _;
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::daemon::{Daemon, Scratch, everturn};
use crate::pty::Terminal;
use crate::reader::Reader;
use crate::stage::{Stage, TOKEN};

/// What came of a command: its exit code, its output, its errors.
async fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = everturn(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The answer, and nothing else, is on standard output; the chat can go on, with a daemon or without.
#[tokio::test]
async fn a_turn_prints_the_answer_and_the_chat_goes_on() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let model = ["--model", "understudy/numbered"];
    let (code, out, error) = ran(&[&["run", "--data", path, "count to 3"][..], &model].concat()).await;
    assert_eq!((code, out.as_str()), (Some(0), "t1 t2 t3\n"), "{error}");
    let id = error.trim().rsplit(' ').next().unwrap().to_owned();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let (code, out, error) = ran(&["run", "--data", path, "--resume", &id[18..], "count to 2"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "t1 t2\n"), "{error}");
    let (_, out, _) = ran(&["chats", "--data", path]).await;
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(out.contains(&id) && out.contains("count to 3"), "{out}");
    let (code, _, error) = ran(&["run", "--data", path, "--system", "Be brief.", "count to 2"]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("a daemon runs on"), "{error}");
}

/// The model of `--model` is stored with the chat, in a running daemon and in an embedded one.
#[tokio::test]
async fn a_turn_is_asked_of_the_model_that_was_named() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let _daemon = Daemon::start(data.path(), "understudy/persona").await;
    let run = async |arguments: &[&str]| ran(&[&["run", "--data", path][..], arguments].concat()).await;
    let (code, out, error) = run(&["--model", "understudy/numbered", "count to 3"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "t1 t2 t3\n"), "{error}");
    let id = error.trim().rsplit(' ').next().unwrap().to_owned();
    let (_, out, _) = run(&["--resume", &id, "count to 2"]).await;
    assert_eq!(out, "t1 t2\n", "the chat keeps it");
    let (_, out, _) = run(&["--resume", &id, "--model", "understudy/persona", "count to 2"]).await;
    assert!(out.contains("count to 2"), "{out}");
    let (code, _, error) = run(&["--model", "understudy/nobody", "count to 2"]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("choose one of: understudy/drill, understudy/numbered, understudy/persona"), "{error}");
}

/// With --json each event is a line, and folding them gives the chat.
#[tokio::test]
async fn a_turn_prints_its_events() {
    use everturn_server::wire::{Event, View};
    let arguments = ["run", "--ephemeral", "--json", "--model", "understudy/numbered", "count to 9"];
    let (code, out, error) = ran(&arguments).await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"], "chat");
    assert_eq!(lines[0]["data"]["status"], "idle");
    let mut view = View::default();
    for line in &lines[1..] {
        let event = Event::parse(line["event"].as_str().unwrap(), &line["data"].to_string()).unwrap().unwrap();
        view.fold(&event).unwrap();
    }
    assert_eq!(crate::reader::reply(&view), "t1 t2 t3 t4 t5 t6 t7 t8 t9");
}

/// Ctrl-C stops the turn, prints what was said, and says so by the exit code.
#[tokio::test]
async fn a_turn_that_is_stopped_ends_with_130() {
    let mut command = everturn(&["run", "--ephemeral", "--model", "understudy/numbered", "count to 5000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    out.read_until(b'0', &mut said).await.unwrap();
    let pid = child.id().unwrap().to_string();
    assert!(tokio::process::Command::new("kill").args(["-s", "INT", &pid]).status().await.unwrap().success());
    out.read_to_end(&mut said).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    let said = String::from_utf8(said).unwrap();
    let expected: Vec<String> = (1..=said.split_whitespace().count()).map(|n| format!("t{n}")).collect();
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), expected);
    assert!(said.ends_with('\n'));
}

/// What a script has to tell apart has exit codes of its own.
#[tokio::test]
async fn exit_codes_tell_how_it_ended() {
    let stage = Stage::launching().await;
    let mut command = everturn(&["run", "--url", &stage.base, "go"]);
    let output = command.env("EVERTURN_TOKEN", TOKEN).output().await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("launch waits for approval"), "{error}");
    // The whole input, so that a person can decide, and nothing of it obeyed.
    assert!(error.contains("\"target\": \"") && error.matches('x').count() >= 2_000, "{error}");
    assert!(!error.contains('\u{1b}'), "{error}");
    let mut command = everturn(&["run", "--url", &stage.base, "go"]);
    let output = command.env("EVERTURN_TOKEN", "evt_nobody-knows-this-token-at-all-here").output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    stage.server.stop().await;
    assert_eq!(ran(&["run", "--no-such-flag"]).await.0, Some(2));
    let (code, _, error) = ran(&["run", "--ephemeral"]).await;
    assert_eq!(code, Some(2));
    assert!(error.contains("the prompt is empty"), "{error}");
}

/// The progress of a tool goes to standard error while it runs; -q leaves it out.
#[tokio::test]
async fn the_progress_of_a_tool_is_beside_the_answer() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
    let stage = Stage::building().await;
    let client = reqwest::Client::new();
    for quiet in [&[][..], &["-q"]] {
        let made = client.post(format!("{}/v1/chats", stage.base)).bearer_auth(TOKEN).json(&json!({}));
        let made: Value = made.send().await.unwrap().json().await.unwrap();
        let id = made["id"].as_str().unwrap();
        let mut command = everturn(&["run", "--url", &stage.base, "--resume", id, "go"]);
        command.args(quiet).env("EVERTURN_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stream = client.get(format!("{}/v1/chats/{id}/stream", stage.base)).bearer_auth(TOKEN);
        let mut reader = Reader::open(stream).await;
        reader.until(|view| view.status.as_ref().is_some_and(|status| !status.progress.is_empty())).await;
        let mut error = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        if quiet.is_empty() {
            error.read_line(&mut said).await.unwrap();
            assert_eq!(said, "everturn: build: 1 of 2\n");
        }
        stage.built.notify_one();
        error.read_to_string(&mut said).await.unwrap();
        assert_eq!(said.is_empty(), !quiet.is_empty(), "{said}");
        assert_eq!(child.wait_with_output().await.unwrap().stdout, b"Built.\n");
    }
    stage.server.stop().await;
}

/// A turn that fails ends with 1, one that ends early with 3.
#[tokio::test]
async fn failures_and_early_ends_have_codes() {
    let stage = Stage::too_long().await;
    for (code, said) in [(3, "ended early: length"), (1, "everturn: ")] {
        let mut command = everturn(&["run", "--url", &stage.base, "go"]); // There is no second script to play.
        let output = command.env("EVERTURN_TOKEN", TOKEN).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(said), "{error}");
    }
    stage.server.stop().await;
}

/// Of several lines the first that goes wrong gives the exit code.
#[tokio::test]
async fn a_piped_chat_tells_what_went_wrong_first() {
    let stage = Stage::too_long_then_well().await;
    let data = Scratch::new();
    std::fs::create_dir_all(data.path()).unwrap();
    let input = data.path().join("input");
    std::fs::write(&input, "one\ntwo\n").unwrap();
    let mut command = everturn(&["chat", "--url", &stage.base]);
    command.env("EVERTURN_TOKEN", TOKEN).stdin(std::fs::File::open(&input).unwrap());
    let output = command.output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "As long as\nWell then.\n");
    assert_eq!(output.status.code(), Some(3));
    stage.server.stop().await;
}

/// Listing and exporting chats only read: a turn that was under way when its daemon was killed stays where it
/// was.
#[tokio::test]
async fn looking_carries_nothing_on() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let mut daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 400"})).await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 10)).await;
    daemon.child.kill().await.unwrap();
    let id = chat.rsplit('/').next().unwrap();
    for _ in 0..3 {
        let (code, listed, error) = ran(&["chats", "--data", path]).await;
        assert_eq!(code, Some(0), "{error}");
        assert!(listed.contains(id) && listed.contains("running"), "{listed}");
        let (code, exported, error) = ran(&["export", id, "--data", path, "--format", "json"]).await;
        assert_eq!(code, Some(0), "{error}");
        let exported: Value = serde_json::from_str(&exported).unwrap();
        let len = |name: &str| exported[name].as_array().unwrap_or_else(|| panic!("{exported}")).len();
        assert_eq!((len("messages"), len("attempts")), (1, 0), "{exported}");
    }
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut reader = Reader::resume(daemon.ask(Method::GET, &format!("{chat}/stream")), reader.follower).await;
    assert!(crate::reader::reply(&reader.until_rest().await).ends_with("t400"), "a daemon goes on");
}

/// S8: on a terminal nothing of what a model said is obeyed, as events and as a whole chat; in a pipe it is
/// as it was.
#[tokio::test]
async fn nothing_that_is_printed_is_obeyed() {
    let stage = Stage::hostile().await;
    let variables = [("EVERTURN_TOKEN", TOKEN)];
    let shown = async |arguments: &[&str]| {
        let mut terminal = Terminal::start(&[arguments, &["--url", &stage.base]].concat(), &variables, (80, 24));
        assert!(terminal.ended().await.success(), "{}", terminal.all());
        let bytes = String::from_utf8_lossy(&terminal.bytes).into_owned();
        for obeyed in ["\x1b", "\u{9b}", "\u{202e}", "\u{200b}", "\u{7}"] {
            assert!(!bytes.contains(obeyed), "{obeyed:?} was passed on by {arguments:?}");
        }
        bytes
    };
    let events = shown(&["run", "--json", "go"]).await;
    let chat = events.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    shown(&["export", &chat]).await;
    shown(&["export", &chat, "--format", "json"]).await;
    let mut command = everturn(&["export", &chat, "--format", "json", "--url", &stage.base]);
    let output = command.env("EVERTURN_TOKEN", TOKEN).output().await.unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains('\u{9b}'));
    stage.server.stop().await;
}

/// A title is one line, whatever is in it.
#[tokio::test]
async fn a_title_forges_no_row() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    daemon.post("/v1/chats", &json!({"title": "one\n01kdg1qg7v3m8s1t1j0a9n2x4c  just now \u{1b}[2J"})).await;
    let (_, listed, _) = ran(&["chats", "--data", data.path().to_str().unwrap()]).await;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(!listed.contains('\u{1b}'), "{listed}");
}

/// A backup is of the usual data directory if none is named.
#[tokio::test]
async fn a_backup_is_of_the_usual_directory() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    ran(&["run", "--data", path, "--model", "understudy/numbered", "count to 3"]).await;
    let copy = data.path().join("copy.db");
    let mut command = everturn(&["backup", copy.to_str().unwrap()]);
    let output = command.env("EVERTURN_DATA", path).output().await.unwrap();
    let (said, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(said.contains("1 chats, 2 messages"), "{said}");
    let restored = Scratch::new();
    std::fs::DirBuilder::new().mode(0o700).create(restored.path()).unwrap();
    std::fs::rename(copy, restored.path().join("everturn.db")).unwrap();
    let (_, listed, error) = ran(&["chats", "--data", restored.path().to_str().unwrap()]).await;
    assert!(listed.contains("count to 3"), "{listed}{error}");
    let mut command = everturn(&["backup", "x.db"]);
    let output = command.env("DATABASE_URL", "postgres://nowhere/").output().await.unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("pg_dump"), "it is not where chats are");
}

/// Standard input is said if there is no prompt, or behind it if that is asked for.
#[tokio::test]
async fn standard_input_is_said() {
    let data = Scratch::new();
    std::fs::create_dir_all(data.path()).unwrap();
    let input = data.path().join("input");
    std::fs::write(&input, "to 4").unwrap();
    for (arguments, said) in
        [(vec!["--stdin", "count"], "t1 t2 t3 t4\n"), (vec!["count to 2"], "t1 t2\n"), (vec![], "t1 t2 t3 t4\n")]
    {
        let mut all = vec!["run", "--ephemeral", "--model", "understudy/numbered"];
        all.extend(arguments);
        let output = everturn(&all).stdin(std::fs::File::open(&input).unwrap()).output().await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), said);
    }
}

/// Several turns at once share whichever process holds the directory, and none is lost when it leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_at_once_share_a_directory() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap().to_owned();
    std::fs::write(format!("{path}.toml"), "model = \"understudy/numbered\"\n").unwrap();
    let turns: Vec<_> = (1..=4)
        .map(|n| {
            let path = path.clone();
            tokio::spawn(async move {
                let prompt = format!("count to {}", n * 40);
                // Only the one that becomes the daemon may choose the model; the file says it to all.
                let config = format!("{path}.toml");
                ran(&["run", "--data", &path, "--config", &config, &prompt]).await
            })
        })
        .collect();
    for (n, turn) in turns.into_iter().enumerate() {
        let (code, out, error) = turn.await.unwrap();
        assert_eq!((code, out.split_whitespace().count()), (Some(0), (n + 1) * 40), "{error}");
    }
    std::fs::remove_file(format!("{path}.toml")).unwrap();
}

/// Tokens are made, listed without their secret, and taken back.
#[tokio::test]
async fn tokens_are_made_and_taken_back() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let (code, _, error) = ran(&["tokens", "--data", path]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("no daemon runs on"), "{error}");
    let daemon = Daemon::start(data.path(), "understudy/persona").await;
    let (code, secret, _) = ran(&["tokens", "--data", path, "make", "phone", "--scope", "read"]).await;
    assert_eq!(code, Some(0));
    let secret = secret.trim();
    let base = daemon.banner[0].strip_prefix("Everturn listens on ").unwrap();
    let listed = || async {
        let mut command = everturn(&["chats", "--url", base]);
        command.env("EVERTURN_TOKEN", secret).output().await.unwrap().status.code()
    };
    assert_eq!(listed().await, Some(0));
    let (_, tokens, _) = ran(&["tokens", "--data", path]).await;
    assert!(tokens.contains("phone") && !tokens.contains(secret), "{tokens}");
    let (code, _, error) = ran(&["tokens", "revoke", "", "--data", path]).await;
    assert_eq!(code, Some(1), "an empty name is no token");
    assert!(error.contains("the token is missing"), "{error}");
    assert_eq!(ran(&["tokens", "revoke", "phone", "--data", path]).await.0, Some(0));
    assert_eq!(listed().await, Some(1));
}

/// A daemon whose first token was revoked starts all the same, also where every pod has it from one secret: it says how to come to a new one, other tokens are good, and a command without one is told which it
/// had.
#[tokio::test]
async fn a_first_token_that_was_revoked_stops_no_start() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let daemon = Daemon::start(data.path(), "understudy/persona").await;
    let (_, secret, _) = ran(&["tokens", "--data", path, "make", "phone", "--scope", "read"]).await;
    let (code, _, error) = ran(&["tokens", "revoke", "first", "--data", path]).await;
    assert!(
        code == Some(1) && error.contains("the token that this command uses") && error.contains("--yes"),
        "{error}"
    );
    assert_eq!(ran(&["tokens", "revoke", "first", "--yes", "--data", path]).await.0, Some(0));
    daemon.end().await;
    let told = format!("the token in {path}/token was revoked");
    let daemon = Daemon::start(data.path(), "understudy/persona").await;
    assert!(daemon.banner.iter().any(|line| line.contains(&told)), "{:?}", daemon.banner);
    let mut other = everturn(&["chats", "--url", &daemon.base]);
    assert_eq!(other.env("EVERTURN_TOKEN", secret.trim()).output().await.unwrap().status.code(), Some(0));
    for command in [vec!["chats", "--data", path], vec!["run", "--data", path, "hello"]] {
        let (code, _, error) = ran(&command).await;
        assert!(code == Some(1) && error.contains(&told) && error.contains("delete the file"), "{code:?} {error}");
    }
    let logged = daemon.end().await;
    assert!(logged.contains(&told), "{logged}");
    let (code, _, error) = ran(&["run", "--data", path, "hello"]).await; // A daemon of its own is no better off.
    assert!(code == Some(1) && error.contains(&told), "{code:?} {error}");
    std::fs::remove_file(data.path().join("token")).unwrap();
    let daemon = Daemon::start(data.path(), "understudy/persona").await;
    assert_eq!(ran(&["chats", "--data", path]).await.0, Some(0));
    daemon.end().await;
}

/// Shells learn the commands.
#[tokio::test]
async fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = ran(&["completions", shell]).await;
        assert_eq!(code, Some(0));
        assert!(out.contains("serve") && out.contains("completions"), "{shell}");
    }
}

/// A chat is written whole, for people and for programs, by a piece of its id.
#[tokio::test]
async fn a_chat_is_exported() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let (_, _, error) = ran(&["run", "--data", path, "--model", "understudy/numbered", "count to 3"]).await;
    let id = error.trim().rsplit(' ').next().unwrap();
    let (code, markdown, error) = ran(&["export", &id[id.len() - 6..], "--data", path]).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(markdown.contains("count to 3") && markdown.contains("t1 t2 t3"), "{markdown}");
    let file = data.path().join("chat.json");
    let (code, _, error) =
        ran(&["export", id, "--data", path, "--format", "json", "--out", file.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{error}");
    let chat: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(chat["messages"].as_array().unwrap().len(), 2, "{chat}");
    let (code, _, error) = ran(&["export", "nothing-like-it", "--data", path]).await;
    assert_eq!(code, Some(1), "{error}");
}

/// A tool that no command can run is not said to be run by one.
#[tokio::test]
async fn a_turn_that_waits_for_a_client_says_who_can_go_on() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let file = scratch.path().join("config.toml");
    std::fs::write(&file, "[tools.map]\ndescription = \"Shows a map.\"\n").unwrap();
    let (code, _, error) = ran(&["run", "--ephemeral", "--config", file.to_str().unwrap(), "Show me."]).await;
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("map has to be run by a client") && error.contains("/answers"), "{error}");
    assert!(!error.contains("everturn chat"), "{error}");
}

/// The file with the token is for the daemon that the environment names as well, and for no other.
#[tokio::test]
async fn a_token_file_goes_with_a_daemon_of_the_environment() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let token = data.path().join("token");
    let arguments = ["run", "--token-file", token.to_str().unwrap(), "count to 3"];
    let output = everturn(&arguments).env("EVERTURN_URL", &daemon.base).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t1 t2 t3\n", "{output:?}");
    let (code, _, error) = ran(&arguments).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("EVERTURN_URL"), "{error}");
}
