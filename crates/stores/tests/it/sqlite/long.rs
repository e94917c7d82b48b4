//! A chat of any length is opened at the same cost.

use everturn_core::ids::MessageId;
use everturn_core::message::Body;
use everturn_core::view::Event;
use everturn_stores::{MessageRange, Store as _};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::chat_id;

use super::{given, open, other};
use crate::scratch::Scratch;

const MESSAGES: usize = 100_000;
const COMMITS: usize = 100;
/// What may be needed more than for an empty chat: caches of some megabytes, and never what the messages have together.
const MEMORY_MAX: usize = 24 << 20;

/// Its newest page is shown, and one can page back to its beginning, without holding it.
#[tokio::test]
async fn a_very_long_chat_is_opened_in_constant_memory() {
    let (short, long) = (Scratch::new(), Scratch::new());
    drop(Witness::in_a_turn(&open(&short), 1).await);
    {
        let mut witness = Witness::in_a_turn(&open(&long), 1).await;
        let words = "words ".repeat(100);
        for _ in 0..COMMITS {
            let facts = witness.stage.change(|change| {
                (0..MESSAGES / COMMITS).fold(change, |change, _| change.say(Body::Context(words.clone())))
            });
            witness.commit(&facts).await;
            witness.stage.transcript.clear(); // It need not be held here either.
        }
    }
    let peak = |dir: &Scratch| {
        let played = other("sqlite::long::looks_at_it", dir).output().unwrap();
        let told = String::from_utf8_lossy(&played.stdout).into_owned();
        assert!(played.status.success(), "{told} {}", String::from_utf8_lossy(&played.stderr));
        let peak = told.split("peak ").nth(1).and_then(|rest| rest.split_whitespace().next()).map(str::parse::<usize>);
        peak.unwrap().unwrap()
    };
    let (short, long) = (peak(&short), peak(&long));
    assert!(long < short + MEMORY_MAX, "{long} bytes, and {short} for a short one");
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn looks_at_it() {
    let store = open(given());
    let news = store.since(chat_id(1), None).await.unwrap().unwrap();
    let [Event::Reset(snapshot)] = &news.events[..] else { panic!("{news:?}") };
    assert!(snapshot.messages.len() <= 200);
    assert_eq!(store.since(chat_id(1), Some(news.cursor)).await, Ok(None));
    let (mut before, mut seen) = (snapshot.messages[0].id, snapshot.messages.len());
    loop {
        let page = store.messages(chat_id(1), MessageRange::Before(Some(before), 500)).await.unwrap();
        let Some(first) = page.first() else { break };
        assert!(page.iter().zip(first.id.0..).all(|(message, id)| message.id == MessageId(id)));
        assert_eq!(page.last().unwrap().id.0 + 1, before.0);
        (before, seen) = (first.id, seen + page.len());
    }
    assert!(seen == 1 || seen == MESSAGES + 1, "{seen}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: usize = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    println!("peak {} ", kilobytes << 10);
}
