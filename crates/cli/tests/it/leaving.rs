//! How a chat in a terminal ends, wanted or not.

use crate::daemon::{Daemon, Scratch};
use crate::pty::Terminal;

const WINDOW: (u16, u16) = (80, 24);
/// What a terminal is told when it is given back.
const GIVEN_BACK: &str = "\x1b[?2004l";

fn is_given_back(terminal: &Terminal) -> bool {
    String::from_utf8_lossy(&terminal.bytes).contains(GIVEN_BACK)
}

/// A window that is closed ends the chat in good order: the daemon in its process is not announced any more.
#[tokio::test]
async fn a_window_may_be_closed() {
    let data = Scratch::new();
    let arguments = ["chat", "--data", data.path().to_str().unwrap(), "--model", "understudy/numbered"];
    let mut terminal = Terminal::start(&arguments, &[], WINDOW);
    terminal.shows("› ").await;
    terminal.keys("count to 5000\r").await;
    terminal.shows("t20 ").await;
    assert!(data.path().join("address").exists());
    let status = terminal.closed().await;
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(!data.path().join("address").exists(), "the next command is not sent to a daemon that is gone");
}

/// After a chat is ended by a signal, the terminal is as before.
#[tokio::test]
async fn a_signal_gives_the_terminal_back() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    daemon.chat().await;
    for signal in ["INT", "TERM", "HUP"] {
        for (more, shown) in [(vec![], "› "), (vec!["--resume"], "Which chat?")] {
            let mut arguments = vec!["chat", "--data", data.path().to_str().unwrap()];
            arguments.extend(more);
            let mut terminal = Terminal::start(&arguments, &[], WINDOW);
            terminal.shows(shown).await;
            terminal.signal(signal).await;
            let status = terminal.ended().await;
            assert_eq!(status.code(), Some(0), "{signal} at {shown}: {status}");
            assert!(is_given_back(&terminal), "{signal} at {shown}");
        }
    }
}
