use std::collections::HashSet;
use std::fmt::Write as _;

use everturn_core::chat::{TurnEnd, TurnFailure};
use everturn_core::cost::Usage;
use everturn_core::delta::Rung;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::fact::AttemptOutcome;
use everturn_core::message::{Output, Stop};
use everturn_core::status::Status;
use everturn_core::truncate;
use everturn_stores::StoreError;

use super::labels::{self, LabelValue};
use super::size::is_cut;
use super::*;

/// The page that lists every metric, made from what is registered.
struct Page(String);

impl Visitor for Page {
    fn metric<M: Metric + TypedMetric + Clone>(&mut self, name: &str, labels: &str, help: &str, _: &M) {
        let suffix = if M::TYPE.as_str() == "counter" { "_total" } else { "" };
        writeln!(self.0, "| `everturn_{name}{suffix}` | {} | {labels} | {help} |", M::TYPE.as_str()).unwrap();
    }
}

const HEAD: &str = "# Metrics

Written by the test in `crates/everturn/src/observe/metrics/tests.rs` from what is registered; run it with `UPDATE_EXPECT=1` to
write it anew. A metric with labels is shown once something was counted under them.

Seconds, bytes and US dollars: base units throughout. `provider` and `model` are those of the agents;
`tool` is the name a tool was registered under, and `unknown` for whatever else a model calls. What a model wrote is
never a label. All other labels hold one of the words below.

| name | type | labels | meaning |
|---|---|---|---|
";

const SERVER: &str = "\n## The server\n";

/// CL46: what is registered is what the page documents.
#[test]
fn the_page_lists_what_is_registered() {
    let mut page = Page(HEAD.into());
    Metrics::unregistered().0.each(&mut page);
    page.0.push_str("\n| label | words |\n|---|---|\n");
    for (label, words) in vocabulary() {
        writeln!(page.0, "| {label} | {} |", words.join(", ")).unwrap();
    }
    // The rest is of the server, and checked by its test.
    let (_, server) = include_str!("../../../../../docs/metrics.md").split_once(SERVER).expect("the server's part");
    write!(page.0, "{SERVER}{server}").unwrap();
    expect_test::expect_file!["../../../../../docs/metrics.md"].assert_eq(&page.0);
}

/// Every word that may stand in a label, by label.
fn vocabulary() -> Vec<(&'static str, Vec<LabelValue>)> {
    let kinds: Vec<LabelValue> = ErrorKind::ALL.iter().map(|kind| kind.label()).collect();
    let silent = AttemptOutcome::Broke(Cause::IdleStall, ErrorKind::Silence);
    let failures = chain(WriteError::Fenced, |error| match error {
        WriteError::Fenced => Some(WriteError::OutOfPlace),
        WriteError::OutOfPlace => Some(StoreError::NoSuchChat.into()),
        WriteError::Store(StoreError::NoSuchChat) => Some(StoreError::Unavailable("disk full".into()).into()),
        WriteError::Store(StoreError::Unavailable(_)) => Some(StoreError::Unreadable("newer".into()).into()),
        WriteError::Store(StoreError::Unreadable(_)) => Some(StoreError::Damaged("a page".into()).into()),
        WriteError::Store(StoreError::Damaged(_)) => None,
    });
    vec![
        ("status", Status::ALL.map(labels::status).to_vec()),
        ("end", ends().iter().map(labels::end).chain([labels::EDITED]).collect()),
        ("stop", stops().iter().map(labels::stop).collect()),
        ("rung", rungs().iter().map(|rung| rung.label()).chain([labels::SUMMARY, labels::SALVAGE]).collect()),
        ("outcome", outcomes().into_iter().map(labels::outcome).collect()),
        ("result", outcomes().into_iter().chain([silent]).filter_map(labels::result).collect()),
        ("kind of `driver_failures`", failures.iter().map(labels::failure).chain([labels::PANIC]).collect()),
        ("kind of `tokens`", labels::kinds(&Usage::default()).map(|(kind, _)| kind).to_vec()),
        ("kind elsewhere", kinds),
        ("basis", vec![labels::KNOWN, labels::ESTIMATED]),
    ]
}

fn rungs() -> Vec<Rung> {
    chain(Rung::First, |rung| match rung {
        Rung::First => Some(Rung::Reattach),
        Rung::Reattach => Some(Rung::Continue),
        Rung::Continue => Some(Rung::Restart),
        Rung::Restart => Some(Rung::FallBack),
        Rung::FallBack => None,
    })
}

fn outcomes() -> Vec<AttemptOutcome> {
    chain(AttemptOutcome::Answered, |outcome| match outcome {
        AttemptOutcome::Answered => Some(AttemptOutcome::Broke(Cause::Reset, ErrorKind::Timeout)),
        AttemptOutcome::Broke(..) => Some(AttemptOutcome::Interrupted),
        AttemptOutcome::Interrupted => Some(AttemptOutcome::Lost),
        AttemptOutcome::Lost => None,
    })
}

fn stops() -> Vec<Stop> {
    chain(Stop::End, |stop| match stop {
        Stop::End => Some(Stop::ToolUse),
        Stop::ToolUse => Some(Stop::Length),
        Stop::Length => Some(Stop::Filtered { category: String::new(), detail: String::new() }),
        Stop::Filtered { .. } => Some(Stop::Interrupted),
        Stop::Interrupted => Some(Stop::Broken),
        Stop::Broken => None,
    })
}

fn ends() -> Vec<TurnEnd> {
    let failure = TurnFailure { kind: ErrorKind::Auth, message: String::new(), detail: String::new(), attempts: 1 };
    chain(TurnEnd::Done, |end| match end {
        TurnEnd::Done => Some(TurnEnd::StopAfter("chosen by a model".into())),
        TurnEnd::StopAfter(_) => Some(TurnEnd::Interrupted),
        TurnEnd::Interrupted => Some(TurnEnd::Length),
        TurnEnd::Length => Some(TurnEnd::Filtered),
        TurnEnd::Filtered => Some(TurnEnd::Empty),
        TurnEnd::Empty => Some(TurnEnd::StepsMax),
        TurnEnd::StepsMax => Some(TurnEnd::TimeMax),
        TurnEnd::TimeMax => Some(TurnEnd::TokensMax),
        TurnEnd::TokensMax => Some(TurnEnd::CostMax),
        TurnEnd::CostMax => Some(TurnEnd::SameCallMax),
        TurnEnd::SameCallMax => Some(TurnEnd::Failed(Box::new(failure.clone()))),
        TurnEnd::Failed(_) => None,
    })
}

/// All values of a type, each named by the one before it. A new one does not compile until it has its place.
fn chain<T: Clone>(first: T, next: impl Fn(&T) -> Option<T>) -> Vec<T> {
    std::iter::successors(Some(first), next).collect()
}

/// CL51: the words dashboards are built on are plain, and no two of them look the same.
#[test]
fn every_word_is_snake_case_and_distinct() {
    let causes = [Cause::Refused, Cause::Reset, Cause::GoAway, Cause::IdleStall, Cause::ServerError];
    let causes = causes.into_iter().chain([Cause::Truncated, Cause::ErrorFinish, Cause::Malformed, Cause::Resumed]);
    for (label, words) in vocabulary().into_iter().chain([("cause", causes.map(Cause::label).collect())]) {
        for word in &words {
            let plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(plain && !word.starts_with('_') && !word.ends_with('_'), "{label}: {word}");
        }
        let distinct: HashSet<_> = words.iter().collect();
        assert_eq!(distinct.len(), words.len(), "{label}: {words:?}");
    }
}

/// A result is cut when something is missing, not when its bytes are no text.
#[test]
fn only_what_lost_something_is_cut() {
    let budget = 2_000;
    let noise: Vec<u8> = (0..1_500_u32).map(|i| if i % 2 == 0 { 0xff } else { 0 }).collect();
    for (bytes, cut) in [
        (b"short".to_vec(), false),
        (vec![b'x'; budget], false),
        (vec![b'x'; budget + 1], true),
        (b"a\0b".to_vec(), false),
        (vec![0xff, b'a', 0xc3], false),
        ("é".repeat(budget).into_bytes(), true),
        (noise, true), // Fewer bytes than the budget, but too many as text.
    ] {
        assert_eq!(
            is_cut(&truncate::output(bytes.clone(), budget, truncate::ASK_FOR_LESS)),
            cut,
            "{} bytes",
            bytes.len()
        );
    }
    assert!(!is_cut(&Output::default()));
}
