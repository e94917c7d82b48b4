//! What can be done in a chat beside talking, in a real terminal.

use crate::daemon::{Daemon, Scratch};
use crate::pty::Terminal;
use crate::stage::{Stage, TOKEN};

const WINDOW: (u16, u16) = (80, 50);

async fn numbered(data: &Scratch) -> (Daemon, Terminal) {
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = Terminal::start(&["chat", "--data", data.path().to_str().unwrap()], &[], WINDOW);
    terminal.shows("› ").await;
    (daemon, terminal)
}

/// A fork begins as the chat did, is told so, and goes on by itself.
#[tokio::test]
async fn a_fork_goes_on_in_a_copy() {
    let data = Scratch::new();
    let (daemon, mut terminal) = numbered(&data).await;
    terminal.keys("/fork\r").await;
    terminal.has("There is no message yet.").await;
    terminal.keys("count to 3\r").await;
    terminal.has("t1 t2 t3 understudy/numbered").await;
    terminal.keys("/fork\r").await;
    terminal.has("up to message 2. You are in the copy, chat").await;
    terminal.has("the other stays as it was: everturn chat --resume").await;
    terminal.keys("count to 2\r").await;
    terminal.has("› count to 2 t1 t2 understudy/numbered").await;
    let chats = daemon.get("/v1/chats").await;
    let chats = chats["chats"].as_array().unwrap();
    assert_eq!(chats.len(), 2);
    let mut lens = Vec::new();
    for chat in chats {
        let page = daemon.get(&format!("/v1/chats/{}/messages", chat["id"].as_str().unwrap())).await;
        lens.push(page["messages"].as_array().unwrap().len());
    }
    assert_eq!(lens, [4, 2], "the copy has what was said before and after, the other one what was said before");
}

/// A chat is summarised on demand, and goes on.
#[tokio::test]
async fn a_chat_is_compacted() {
    let data = Scratch::new();
    let (_daemon, mut terminal) = numbered(&data).await;
    terminal.keys("count to 3\r").await;
    terminal.has("t1 t2 t3 understudy/numbered").await;
    terminal.keys("/compact\r").await;
    terminal.has("≡ everything before this point is summarised").await;
    terminal.keys("count to 2\r").await;
    terminal.has("› count to 2 t1 t2 understudy/numbered").await;
}

/// Help names every command, and fits the window.
#[tokio::test]
async fn help_names_what_there_is() {
    let data = Scratch::new();
    let (_daemon, mut terminal) = numbered(&data).await;
    terminal.keys("/help\r").await;
    terminal.has("leaves; the chat stays").await;
    for name in ["/steer", "/now", "/stop", "/queue", "/edit", "/fork", "/new", "/title", "/compact", "/cost", "/model"]
    {
        assert!(terminal.words().contains(name), "{name} is missing: {}", terminal.all());
    }
}

/// Ctrl-S sends the message at the next step of the running turn, ahead of the queue.
#[tokio::test]
async fn a_busy_chat_is_steered() {
    let data = Scratch::new();
    let (_daemon, mut terminal) = numbered(&data).await;
    terminal.keys("count to 150\r").await;
    terminal.shows("t9 ").await;
    terminal.keys("count to 3\r").await;
    terminal.shows("⋯ queued count to 3").await;
    terminal.keys("count to 2\x13").await;
    terminal.shows("⋯ next count to 2").await;
    terminal.has("› count to 3 t1 t2 t3 understudy/numbered").await;
    let words = terminal.words();
    let (steered, queued) = (words.find("› count to 2 t1 t2"), words.find("› count to 3 t1"));
    assert!(steered.is_some() && steered < queued, "{words}");
}

/// C9: Ctrl-C and `/stop` stop the answer and nothing else: the first queued message begins the next turn, the others
/// stay queued behind it.
#[tokio::test]
async fn a_stop_lets_the_queue_go_on() {
    for stop in ["\x03", "/stop\r"] {
        let data = Scratch::new();
        let (daemon, mut terminal) = numbered(&data).await;
        terminal.keys("count to 5000\r").await;
        terminal.shows("t9 ").await;
        terminal.keys("count to 2\r").await;
        terminal.shows("⋯ queued count to 2").await;
        terminal.keys("count to 3\r").await;
        terminal.shows("⋯ queued count to 3").await;
        terminal.keys(stop).await;
        terminal.has("› count to 3 t1 t2 t3 understudy/numbered").await;
        assert!(terminal.words().contains("› count to 2 t1 t2 understudy/numbered"), "{}", terminal.words());
        let chats = daemon.get("/v1/chats").await;
        let page = daemon.get(&format!("/v1/chats/{}/messages", chats["chats"][0]["id"].as_str().unwrap())).await;
        let stops = page["messages"].as_array().unwrap().iter().filter(|message| message["kind"] == "reply");
        let stops: Vec<&str> = stops.map(|reply| reply["stop"]["why"].as_str().unwrap()).collect();
        assert_eq!(stops, ["interrupted", "end", "end"], "{stop:?}: {page}");
    }
}

/// Ctrl-S while a message is being changed changes it, and says nothing else.
#[tokio::test]
async fn a_change_is_not_steered() {
    let data = Scratch::new();
    let (daemon, mut terminal) = numbered(&data).await;
    terminal.keys("count to 4\r").await;
    terminal.has("t4 understudy/numbered").await;
    terminal.keys("/edit\r").await;
    terminal.shows("replaces the old one").await;
    terminal.keys("\x7f2\x13").await;
    terminal.has("› count to 2 t1 t2 understudy/numbered").await;
    assert!(!terminal.window().contains("replaces the old one"), "{}", terminal.window());
    let chats = daemon.get("/v1/chats").await;
    let page = daemon.get(&format!("/v1/chats/{}/messages", chats["chats"][0]["id"].as_str().unwrap())).await;
    assert_eq!(page["messages"].as_array().unwrap().len(), 2, "{page}");
}

/// A message with files is not changed: they would be lost.
#[tokio::test]
async fn a_message_with_files_is_not_changed() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let chat = daemon.chat().await;
    let file = serde_json::json!({"type": "file", "name": "a.txt", "media_type": "text/plain", "data": "aGk="});
    let said = serde_json::json!({"text": "count to 3", "parts": [file]});
    daemon.post(&format!("{chat}/messages"), &said).await;
    let mut terminal = Terminal::start(&["chat", "--data", data.path().to_str().unwrap(), "--last"], &[], WINDOW);
    terminal.has("understudy/numbered ·").await;
    terminal.keys("/edit\r").await;
    terminal.has("That message has files").await;
    assert!(!terminal.window().contains("replaces the old one"), "{}", terminal.window());
}

/// Thinking is dim, and a tool has a state and a duration.
#[tokio::test]
async fn thinking_is_dim_and_tools_have_a_state() {
    let stage = Stage::thinking().await;
    let mut terminal = Terminal::start(&["chat", "--url", &stage.base], &[("EVERTURN_TOKEN", TOKEN)], WINDOW);
    terminal.shows("› ").await;
    terminal.keys("go\r").await;
    terminal.shows("Allow launch?").await;
    assert!(terminal.words().contains("│ Where to? The moon is near. ▸ launch"), "{}", terminal.all());
    let bytes = String::from_utf8_lossy(&terminal.bytes).into_owned();
    assert!(bytes.contains("\x1b[2;3mWhere to? The moon is near.\x1b[0m"), "{bytes:?}");
    terminal.keys("y\r").await;
    terminal.has("Well then. understudy/any").await;
    let all = terminal.all();
    let done = all.lines().find(|line| line.contains("✓ launch")).unwrap();
    assert!(done.contains(" · ") && done.ends_with("s"), "it says how long it took: {done}");
    stage.server.stop().await;
}

/// `/model` has the chat ask another model from its next turn on; names are completed; what is not there
/// changes nothing.
#[tokio::test]
async fn a_chat_is_given_another_model() {
    let data = Scratch::new();
    let (daemon, mut terminal) = numbered(&data).await;
    terminal.keys("/model\r").await;
    terminal.has("understudy/numbered: default").await;
    terminal.keys("/model understudy/pers\t").await;
    terminal.shows("/model understudy/persona").await;
    terminal.keys("\r").await;
    terminal.has("The chat will use understudy/persona.").await;
    terminal.keys("count to 3\r").await;
    terminal.has("understudy/persona ·").await;
    terminal.keys("/model understudy/numbered\r").await;
    terminal.has("This chat uses understudy/numbered from its next turn on.").await;
    terminal.keys("count to 2\r").await;
    terminal.has("› count to 2 t1 t2 understudy/numbered").await;
    terminal.keys("/model elsewhere/one\r").await;
    terminal.has("elsewhere/one is not offered; choose one of: understudy/drill, understudy/numbered").await;
    terminal.keys("/model agent\r").await;
    terminal.has("This chat uses the model of the agent default from its next turn on.").await;
    let chats = daemon.get("/v1/chats").await;
    let chat = daemon.get(&format!("/v1/chats/{}", chats["chats"][0]["id"].as_str().unwrap())).await;
    assert_eq!(chat.get("model"), None);
}

/// What is allowed in advance runs without another question, is listed, and asks again once it is revoked.
#[tokio::test]
async fn a_call_is_allowed_for_good_until_that_is_revoked() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/persona").await;
    let mut terminal = Terminal::start(&["chat", "--data", data.path().to_str().unwrap()], &[], (120, 50));
    terminal.shows("› ").await;
    terminal.keys("note: buy kelp\r").await;
    terminal.shows("or a to allow leave_note from now on").await;
    terminal.keys("a\r").await;
    terminal.until("the approval to be over", |window| !window.contains("Allow leave_note?")).await;
    terminal.has("understudy/persona · ").await;
    terminal.keys("/permissions\r").await;
    terminal.has("allows leave_note, agreed by").await;
    terminal.keys("note: buy salt\r").await;
    terminal
        .until("the second note to be written", |_| {
            std::fs::read_to_string(data.path().join("notes.md")).is_ok_and(|notes| notes.contains("salt"))
        })
        .await;
    terminal.keys("/permissions revoke 1.0\r").await;
    terminal.has("1.0 is revoked").await;
    terminal.keys("note: buy rope\r").await;
    terminal.shows("Allow leave_note?").await;
}
