//! Chats in a real terminal.

use reqwest::Method;

use crate::daemon::{Daemon, Scratch, everturn};
use crate::pty::Terminal;
use crate::stage::{Stage, TOKEN};

const WINDOW: (u16, u16) = (80, 24);

fn count(to: usize) -> String {
    (1..=to).map(|n| format!("t{n}")).collect::<Vec<_>>().join(" ")
}

/// A chat with the daemon of this directory.
async fn chat(data: &Scratch, more: &[&str], size: (u16, u16)) -> Terminal {
    let mut arguments = vec!["chat", "--data", data.path().to_str().unwrap()];
    arguments.extend(more);
    let mut terminal = Terminal::start(&arguments, &[], size);
    terminal.shows("› ").await;
    terminal
}

/// The answer arrives word by word, is shown once, and its model is named below.
#[tokio::test]
async fn an_answer_streams_into_the_window() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], WINDOW).await;
    terminal.keys("count to 150\r").await;
    terminal.shows("answering").await;
    terminal.shows("t9 ").await;
    assert!(!terminal.window().contains("t150"), "it is shown as it arrives");
    terminal.shows("understudy/numbered ·").await;
    let words = terminal.words();
    assert!(words.contains(&format!("› count to 150 {} understudy/numbered", count(150))), "{words}");
    terminal.keys("\x04").await;
    assert!(terminal.ended().await.success());
    assert!(terminal.words().contains("Resume with: everturn chat --resume"));
}

/// Ctrl-C stops the answer and keeps all of it that was shown; a second one leaves; the chat is there again
/// later.
#[tokio::test]
async fn an_interrupt_keeps_the_partial_answer_and_resume_shows_it() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], WINDOW).await;
    terminal.keys("count to 5000\r").await;
    terminal.shows("t30 ").await;
    terminal.keys("\x03").await;
    terminal.has("■ stopped; the answer so far is kept").await;
    let chats = daemon.get("/v1/chats").await;
    let id = chats["chats"][0]["id"].as_str().unwrap().to_owned();
    let page = daemon.get(&format!("/v1/chats/{id}/messages")).await;
    let kept = page["messages"][1]["parts"][0]["text"].as_str().unwrap().trim().to_owned();
    assert!(kept.starts_with(&count(30)));
    assert!(terminal.words().contains(&format!("› count to 5000 {kept} ■ stopped")), "{}", terminal.words());
    terminal.keys("\x03\x03").await;
    assert!(terminal.ended().await.success());

    for arguments in [vec!["--last"], vec!["--resume", &id[20..]], vec!["--resume", &id]] {
        let mut again = chat(&data, &arguments, WINDOW).await;
        again.has(&format!("› count to 5000 {kept} ■ stopped")).await;
        again.keys("/quit\r").await;
        assert!(again.ended().await.success());
    }
}

/// Without an id, chats are offered to choose from.
#[tokio::test]
async fn resume_offers_the_chats_there_are() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    for text in ["count to 1", "count to 2"] {
        let chat = daemon.chat().await;
        daemon.post(&format!("{chat}/messages"), &serde_json::json!({"text": text})).await;
        while daemon.get(&chat).await["title"] != text {} // It has one as soon as that is heard.
    }
    let arguments = ["chat", "--data", data.path().to_str().unwrap(), "--resume"];
    let mut terminal = Terminal::start(&arguments, &[], WINDOW);
    terminal.shows("count to 2").await;
    terminal.keys("to 1").await;
    terminal.until("only one is left", |window| window.contains("❯") && !window.contains("count to 2")).await;
    terminal.keys("\r").await;
    terminal.has("› count to 1 t1").await;
}

/// What is typed while an answer arrives waits, in sight, and is heard after it.
#[tokio::test]
async fn a_message_for_a_busy_chat_is_queued() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], WINDOW).await;
    terminal.keys("count to 150\r").await;
    terminal.shows("t9 ").await;
    terminal.keys("count to 3\r").await;
    terminal.shows("⋯ queued count to 3").await;
    terminal.has("› count to 3 t1 t2 t3 understudy/numbered").await;
    let words = terminal.words();
    assert!(words.contains(&format!("› count to 150 {} understudy", count(150))), "{words}");
    assert!(!terminal.window().contains("queued"));
}

/// Every row fits, and every word is there, in narrow and wide windows, and in one that changes.
#[tokio::test]
async fn windows_may_be_narrow_or_wide_and_change() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    for size in [(30, 12), (200, 50)] {
        let mut terminal = chat(&data, &[], size).await;
        terminal.keys("count to 120\r").await;
        terminal.has(&format!("› count to 120 {} understudy/numbered", count(120))).await;
    }
    let mut terminal = chat(&data, &[], (100, 30)).await;
    terminal.keys("count to 40\r").await;
    terminal.has(&format!("{} understudy/numbered", count(40))).await;
    terminal.resize((40, 20));
    terminal.insists("count to 50").await;
    terminal.keys("\r").await;
    terminal.has(&format!("› count to 50 {} understudy/numbered", count(50))).await;
}

/// With NO_COLOR nothing is coloured.
#[tokio::test]
async fn no_color_is_respected() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let arguments = ["chat", "--data", data.path().to_str().unwrap()];
    for (variables, is_coloured) in [(vec![("NO_COLOR", "1")], false), (vec![], true)] {
        let mut terminal = Terminal::start(&arguments, &variables, WINDOW);
        terminal.shows("› ").await;
        terminal.keys("count to 5\r").await;
        terminal.shows("understudy/numbered ·").await;
        let text = String::from_utf8_lossy(&terminal.bytes).into_owned();
        let looks = text.split("\x1b[").skip(1).filter(|code| code.find(|c: char| c.is_alphabetic()) == code.find('m'));
        assert_eq!(looks.count() > 0, is_coloured);
    }
}

/// In a pipe there is plain text, and nothing else.
#[tokio::test]
async fn a_pipe_gets_plain_text() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut command = everturn(&["chat", "--data", data.path().to_str().unwrap()]);
    let input = data.path().join("input");
    std::fs::write(&input, "count to 3\n\ncount to 5\n").unwrap();
    let output = command.stdin(std::fs::File::open(input).unwrap()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "t1 t2 t3\nt1 t2 t3 t4 t5\n");
}

/// The daemon is killed in the middle of an answer and started again: the chat says so, goes on, and every
/// word is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_goes_on_when_the_daemon_is_killed_and_started_again() {
    let data = Scratch::new();
    let mut daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], WINDOW).await;
    terminal.keys("count to 200\r").await;
    terminal.shows("t40 ").await;
    daemon.child.kill().await.unwrap();
    terminal.shows("reconnecting").await;
    terminal.keys("count to 2\r").await; // Typed while no daemon runs.
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    terminal.has("› count to 2 t1 t2 understudy/numbered").await;
    let words = terminal.words();
    assert!(words.contains(&format!("› count to 200 {} ", count(200))), "{words}");
    assert_eq!(words.matches("t77 ").count(), 1, "{words}");
    assert!(!terminal.window().contains("reconnecting"));
}

/// The daemon is away for longer than a request is tried: what is typed meanwhile is shown as not sent, and
/// goes out in order and once when it is back. A command that ends before lists what was not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_typed_is_lost_while_the_daemon_is_away() {
    let data = Scratch::new();
    let mut daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], WINDOW).await;
    terminal.keys("count to 1\r").await;
    terminal.has("t1 understudy/numbered").await;
    daemon.child.kill().await.unwrap();
    terminal.shows("reconnecting").await;
    terminal.keys("count to 2\rcount to 3\rcount to 4").await;
    terminal.has("Your messages are kept").await;
    terminal.shows("⋯ not sent count to 3").await;
    assert!(terminal.window().contains("⋯ not sent count to 2"), "{}", terminal.window());
    let mut daemon = Daemon::start(data.path(), "understudy/numbered").await;
    terminal.has("› count to 2 t1 t2").await;
    terminal.has("› count to 3 t1 t2 t3").await;
    terminal.shows("› count to 4").await;
    let words = terminal.words();
    assert_eq!((words.matches("› count to 2").count(), words.matches("› count to 3").count()), (1, 1), "{words}");
    daemon.child.kill().await.unwrap();
    terminal.shows("reconnecting").await;
    terminal.keys("\r").await;
    terminal.keys("\x04").await;
    assert!(terminal.ended().await.success());
    assert!(terminal.words().contains("Not sent; send it again after resuming: count to 4"), "{}", terminal.words());
}

/// Where no daemon runs, the chat is one: others find it, and nothing is lost when it leaves.
#[tokio::test]
async fn a_chat_without_a_daemon_is_one() {
    let data = Scratch::new();
    let mut terminal = chat(&data, &["--model", "understudy/numbered"], WINDOW).await;
    terminal.shows("in this process").await;
    terminal.keys("count to 4\r").await;
    terminal.has("t1 t2 t3 t4 understudy/numbered").await;
    let path = data.path().to_str().unwrap();
    let output = everturn(&["run", "--data", path, "count to 2"]).output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "t1 t2\n", "a guest of the guest");
    terminal.keys("\x04").await;
    assert!(terminal.ended().await.success());
    assert!(!data.path().join("address").exists());
    let mut again = chat(&data, &["--last", "--model", "understudy/numbered"], WINDOW).await;
    again.has("› count to 2 t1 t2").await;
}

/// S20: the whole call is shown before it is allowed, with control characters visible; y runs it, n tells the
/// model why not.
#[tokio::test]
async fn an_approval_shows_the_whole_call() {
    for (typed, outcome) in [("y\r", "✓ launch"), ("n not today\r", "⊘ launch was not allowed")] {
        let stage = Stage::launching().await;
        let variables = [("EVERTURN_TOKEN", TOKEN)];
        let mut terminal = Terminal::start(&["chat", "--url", &stage.base], &variables, (60, 20));
        terminal.shows("› ").await;
        terminal.keys("go\r").await;
        terminal.shows("Allow launch?").await;
        let all = terminal.all();
        assert!(all.contains("┌ launch wants to run with"), "{all}");
        // All of it, however long, and nothing of it obeyed.
        assert!(all.contains("\\u001b[2Jmoon"), "{all}");
        let target: String = all.lines().filter(|line| line.starts_with('│')).collect();
        assert_eq!(target.matches('x').count(), 2_000, "{target}");
        terminal.keys("why?").await;
        terminal.shows("› why?").await;
        terminal.keys("\x15").await;
        terminal.keys(typed).await;
        terminal.has(outcome).await;
        terminal.has("Well then. understudy/any").await;
        stage.server.stop().await;
    }
}

/// A running tool is shown with its input and its progress, which is gone when it has ended.
#[tokio::test]
async fn a_running_tool_is_shown_with_its_progress() {
    let stage = Stage::building().await;
    let mut terminal = Terminal::start(&["chat", "--url", &stage.base], &[("EVERTURN_TOKEN", TOKEN)], WINDOW);
    terminal.shows("› ").await;
    terminal.keys("go\r").await;
    terminal.shows("│ 1 of 2").await;
    assert!(terminal.window().contains("build make all · "), "{}", terminal.window());
    stage.built.notify_one();
    terminal.has("Built. understudy/any").await;
    assert!(!terminal.window().contains("1 of 2"), "{}", terminal.window());
    stage.server.stop().await;
}

/// S20: what was shown in one chat does not count in the next, although its calls have the same names.
#[tokio::test]
async fn an_approval_in_the_next_chat_shows_its_own_call() {
    let stage = Stage::launching_twice().await;
    let mut terminal = Terminal::start(&["chat", "--url", &stage.base], &[("EVERTURN_TOKEN", TOKEN)], WINDOW);
    terminal.shows("› ").await;
    for target in ["moon", "mars"] {
        terminal.keys("go\r").await;
        terminal.shows("Allow launch?").await;
        let whole = format!("┌ launch wants to run with │ {{ │ \"target\": \"{target}\" │ }} └");
        assert!(terminal.words().contains(&whole), "{}", terminal.all());
        terminal.keys("y\r").await;
        terminal
            .until("the end of the turn", |window| {
                window.split_once("Well then.").is_some_and(|(_, after)| after.contains("understudy/any"))
            })
            .await;
        terminal.keys("/new\r").await;
        terminal.shows("Your next message starts a new").await;
        terminal.keys("\x0c").await;
        terminal.until("an empty window", |window| !window.contains("understudy/any")).await;
    }
    stage.server.stop().await;
}

/// S8: what a model says is shown, and never obeyed.
#[tokio::test]
async fn nothing_the_model_says_is_obeyed() {
    let stage = Stage::hostile().await;
    let mut terminal = Terminal::start(&["chat", "--url", &stage.base], &[("EVERTURN_TOKEN", TOKEN)], WINDOW);
    terminal.shows("› ").await;
    terminal.keys("go\r").await;
    terminal.has("<U+200B>").await;
    let words = terminal.words();
    for shown in ["␛[2J␛[H", "␛]0;title␇", "<U+009B>31m", "<U+202E>", "␛[31mred", "<U+200B>"] {
        assert!(words.contains(shown), "{shown} is missing: {words}");
    }
    let bytes = String::from_utf8_lossy(&terminal.bytes).into_owned();
    for obeyed in ["\x1b[2J", "\x1b]0;", "\u{9b}31m", "\u{202e}", "\x1b[31mred", "\u{200b}"] {
        assert!(!bytes.contains(obeyed), "{obeyed:?} was passed on");
    }
    stage.server.stop().await;
}

/// What was said last can be changed, and the chat named, and its cost told.
#[tokio::test]
async fn commands_with_a_slash() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], (80, 50)).await;
    terminal.keys("count to 4\r").await;
    terminal.has("t4 understudy/numbered").await;
    terminal.keys("/edit\r").await;
    terminal.shows("replaces the old one").await;
    terminal.keys("\x7f6\r").await;
    terminal.has("› count to 6 t1 t2 t3 t4 t5 t6 understudy/numbered").await;
    terminal.keys("/title Numbers\r").await;
    terminal.has("The title is now: Numbers").await;
    terminal.keys("/cost\r").await;
    terminal.has("2 provider calls; tokens:").await;
    terminal.keys("/mod\t\r").await;
    terminal.has("understudy/numbered").await;
    terminal.keys("/queue\r").await;
    terminal.has("The queue is empty.").await;
    terminal.keys("/nonsense\r").await;
    terminal.has("there is no /nonsense").await;
    terminal.keys("/new\r").await;
    terminal.keys("count to 1\r").await;
    terminal.has("next message starts a new chat. › count to 1 t1 understudy/numbered").await;
    terminal.keys("/quit\r").await;
    assert!(terminal.ended().await.success());
    let chats = daemon.ask(Method::GET, "/v1/chats").send().await.unwrap().text().await.unwrap();
    assert!(chats.contains("\"title\":\"Numbers\""), "{chats}");
}

/// What is pasted may have several lines, and is sent by Enter alone.
#[tokio::test]
async fn a_paste_of_several_lines_is_one_message() {
    let data = Scratch::new();
    let _daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let mut terminal = chat(&data, &[], WINDOW).await;
    terminal.keys("\x1b[200~count\nto 3\x1b[201~").await;
    terminal.shows("› count\n  to 3").await;
    terminal.keys("\r").await;
    terminal.has("› count to 3 t1 t2 t3 understudy/numbered").await;
}
