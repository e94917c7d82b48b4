//! First use, without a key and just after the installation.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::daemon::{Daemon, Scratch, everturn};
use crate::pty::Terminal;

const WINDOW: (u16, u16) = (100, 60);

async fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = everturn(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// C12, C11: without a key there is a tour, a tool that runs, and one that asks before it changes anything.
#[tokio::test]
async fn the_stand_in_shows_a_call_and_an_approval() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let _daemon = Daemon::start(data.path(), "understudy/persona").await;
    let mut terminal = Terminal::start(&["chat", "--data", path], &[], WINDOW);
    terminal.shows("› ").await;
    assert!(terminal.words().contains("a new chat · understudy/persona, at http"), "{}", terminal.all());
    terminal.keys("what can you do?\r").await;
    terminal.has("a real model answers, in this chat too.").await;
    assert!(terminal.words().contains("A tour of Everturn"), "{}", terminal.all());
    terminal.has("understudy/persona ·").await;
    terminal.keys("roll 3 dice\r").await;
    terminal.has("✓ roll_dice").await;
    terminal.has("asks you first.").await;
    terminal.keys("note: buy kelp\r").await;
    terminal.shows("Allow leave_note?").await;
    let notes = data.path().join("notes.md");
    assert!(!notes.exists(), "nothing is written before it is allowed");
    terminal.keys("y\r").await;
    terminal.has("Nothing ran before you decided.").await;
    assert_eq!(std::fs::read_to_string(notes).unwrap(), "- buy kelp\n");
}

/// C12: an answer that breaks by itself is one answer, and the terminal says that it broke.
#[tokio::test]
async fn the_stand_in_breaks_and_goes_on() {
    let (code, out, error) = ran(&["run", "--ephemeral", "--model", "understudy/persona", "break"]).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("the connection to the provider breaks right here, and the engine asked"), "{out}");
    assert_eq!(out.matches("Watch this sentence").count(), 1, "{out}");
    assert!(error.contains("the answer broke off and was recovered (2 attempts)"), "{error}");
}

/// C7, C9: faults in a model's name happen in process too; what was done about them is on standard error, or
/// with -q nowhere.
#[tokio::test]
async fn retries_and_recoveries_are_told_beside_the_answer() {
    let count: String = (1..=30).map(|n| format!("t{n}")).collect::<Vec<_>>().join(" ") + "\n";
    for (fault, told) in [
        ("cut@9x1", "the answer broke off and was recovered (2 attempts)"),
        ("429@1x1", "attempt 2 in"),
        ("429@1x1", "answered at attempt 2"),
    ] {
        let model = format!("understudy/numbered-faults:{fault}");
        let (code, out, error) = ran(&["run", "--ephemeral", "--model", &model, "count to 30"]).await;
        assert_eq!((code, out.as_str()), (Some(0), count.as_str()), "{fault}: {error}");
        assert!(error.contains(told), "{fault}: {error}");
        let (code, out, error) = ran(&["run", "-q", "--ephemeral", "--model", &model, "count to 30"]).await;
        assert_eq!((code, out.as_str(), error.as_str()), (Some(0), count.as_str(), ""), "{fault}");
    }
}

/// A chat of a server may use such a model, and an unknown fault is refused.
#[tokio::test]
async fn a_model_with_faults_can_be_chosen() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let _daemon = Daemon::start(data.path(), "understudy/persona").await;
    let run = async |model: &str| ran(&["run", "--data", path, "--model", model, "count to 12"]).await;
    let (code, out, error) = run("understudy/numbered-faults:reset@5x1").await;
    assert!(code == Some(0) && out.ends_with("t12\n"), "{out} {error}");
    let (code, _, error) = run("understudy/numbered-faults:nonsense").await;
    assert!(code == Some(1) && error.contains("there is no fault \"nonsense\""), "{error}");
}

/// C7: where no server answers, every command says so in one line, and soon.
#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_away() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    for command in [vec!["chats"], vec!["status"], vec!["run", "hello"], vec!["tokens"]] {
        let began = Instant::now();
        let mut command = everturn(&[&command[..], &["--url", &url]].concat());
        let output = command.env("EVERTURN_TOKEN", "x").output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        assert!(
            error.contains(&format!("no server answers at {url}")) && error.contains("connection refused"),
            "{error}"
        );
        assert!(began.elapsed() < Duration::from_secs(10), "it was tried again and again");
    }
}

/// C9, C8: what was asked for wrongly is a matter of usage, and says how it is done.
#[tokio::test]
async fn wrong_usage_is_told_as_such() {
    for (arguments, said) in [
        (vec!["run", ""], "the prompt is empty: give one"),
        (vec!["run", "  "], "the prompt is empty: give one"),
        (vec!["serve", "--host", "https://chat.example.com/"], "write chat.example.com"),
        (vec!["serve", "--origin", "app.example.com"], "such as https://app.example.com"),
        (vec!["serve", "--origin", "https://app.example.com/"], "such as https://app.example.com"),
    ] {
        let (code, _, error) = ran(&arguments).await;
        assert!(code == Some(2) && error.contains(said), "{arguments:?}: {code:?} {error}");
    }
}

/// C8: a session whose last line was cut is mended, and is in order afterwards, as its own copy and as a
/// chat.
#[tokio::test]
async fn a_file_that_ends_in_the_middle_of_a_line_is_mended() {
    let data = Scratch::new();
    std::fs::create_dir_all(data.path()).unwrap();
    let [file, mended] = ["session.jsonl", "mended.jsonl"].map(|name| data.path().join(name));
    let line = |uuid: &str, role: &str, text: &str| {
        serde_json::json!({"type": role, "uuid": uuid, "sessionId": "s", "timestamp": "2026-01-02T03:04:05.678Z",
            "message": {"role": role, "content": text}})
        .to_string()
    };
    let whole = format!("{}\n{}\n", line("1", "user", "Hello."), line("2", "assistant", "Hi."));
    std::fs::write(&file, format!("{whole}{}", &line("3", "user", "Well?")[..40])).unwrap();
    let [file, mended] = [&file, &mended].map(|file| file.to_str().unwrap());
    let (code, told, _) = ran(&["doctor", file]).await;
    assert!(code == Some(1) && told.contains("line 3: the file ends in the middle of it"), "{told}");
    let (code, told, error) = ran(&["doctor", file, "--fix", "--out", mended]).await;
    assert!(code == Some(0) && told.contains("2 messages, 1 flaw: written to"), "{told} {error}");
    assert_eq!(std::fs::read_to_string(mended).unwrap(), whole);
    let (code, told, _) = ran(&["doctor", mended]).await;
    assert!(code == Some(0) && told.contains("it has no flaws"), "{told}");
    let kept = data.path().join("data");
    let (code, told, error) = ran(&["doctor", file, "--fix", "--data", kept.to_str().unwrap()]).await;
    assert!(code == Some(0) && told.contains("now chat"), "{told} {error}");
}

/// C11: what there is can be read by programs; chats are put away, taken out and deleted by commands.
#[tokio::test]
async fn lists_are_there_for_programs_and_chats_are_put_away() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let (code, _, error) = ran(&["status", "--data", path]).await;
    assert!(code == Some(1) && error.contains("start one with `everturn serve`"), "{error}");
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let (_, _, error) = ran(&["run", "--data", path, "count to 3"]).await;
    let id = error.trim().rsplit(' ').next().unwrap().to_owned();
    let parsed = |out: &str| serde_json::from_str::<Value>(out.trim()).unwrap();
    let (code, out, _) = ran(&["status", "--json", "--data", path]).await;
    let status = parsed(&out);
    assert!(code == Some(0) && status["ready"] == true && status["chats"]["idle"] == 1, "{out}");
    assert!(ran(&["status", "--data", path]).await.1.contains("understudy/numbered, used by the agent default"));
    let listed = async |more: &[&str]| ran(&[&["chats", "--json", "--data", path], more].concat()).await.1;
    assert_eq!(parsed(&listed(&[]).await)["id"], *id);
    let (_, tokens, _) = ran(&["tokens", "--json", "--data", path]).await;
    assert_eq!(parsed(&tokens)["name"], "first");
    assert_eq!(ran(&["archive", &id[20..], "--data", path]).await.0, Some(0));
    assert_eq!(listed(&[]).await, "");
    assert_eq!(parsed(&listed(&["--all"]).await)["archived"], true);
    assert_eq!(ran(&["archive", "--undo", &id, "--data", path]).await.0, Some(0));
    assert_eq!(parsed(&listed(&[]).await)["archived"], false);
    let (code, _, error) = ran(&["delete", &id, "--data", path]).await;
    assert!(code == Some(1) && error.contains("--yes"), "{error}");
    assert_eq!(ran(&["delete", &id, "--yes", "--data", path]).await.0, Some(0));
    assert_eq!(listed(&["--all"]).await, "");
}

/// C11: in the terminal a message is written in the editor of one's choice, files go along, and a chat is put
/// away or deleted.
#[tokio::test]
async fn a_message_is_written_outside_and_takes_files_along() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let file = data.path().join("kelp.txt");
    std::fs::write(&file, "a seaweed").unwrap();
    let editor = [("EDITOR", "sh -c 'echo \"count to 4\" > \"$0\"'"), ("PATH", "/usr/bin:/bin")];
    let mut terminal = Terminal::start(&["chat", "--data", path], &editor, WINDOW);
    terminal.shows("› ").await;
    terminal.keys("something\x07").await;
    terminal.shows("› count to 4").await;
    terminal.keys("\r").await;
    terminal.has("t4 understudy/numbered").await;
    terminal.keys(&format!("count to 2 with @{}\t", &file.to_str().unwrap()[..file.to_str().unwrap().len() - 4])).await;
    terminal.shows("kelp.txt").await;
    terminal.keys("\r").await;
    terminal.has("t1 t2 understudy/numbered").await;
    assert!(terminal.words().contains("a seaweed"), "{}", terminal.all());
    terminal.keys("\x12to 4").await;
    terminal.shows("search `to 4`").await;
    terminal.keys("\r\x15").await;
    terminal.keys("/archive\r").await;
    terminal.has("Archived: lists leave it out").await;
    terminal.keys("/archive off\r").await;
    terminal.has("It is in the lists again.").await;
    let chats = daemon.get("/v1/chats").await;
    let id = chats["chats"][0]["id"].as_str().unwrap().to_owned();
    terminal.keys("/delete\r").await;
    terminal.has("deletes this chat for good").await;
    terminal.keys(&format!("/delete {}\r", &id[20..])).await;
    terminal.has("The chat is deleted.").await;
    assert_eq!(daemon.get("/v1/chats").await["chats"], serde_json::json!([]));
    terminal.keys("count to 1\r").await;
    terminal.has("› count to 1 t1 understudy/numbered").await;
}
