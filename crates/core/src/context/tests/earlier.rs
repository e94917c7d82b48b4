use std::sync::Arc;
use std::time::Duration;

use crate::context::{cut_earlier, spare_bytes};
use crate::ids::{MessageId, Timestamp};
use crate::message::{Body, File, Message, Meta, Part, Summary, SummarySource, Text, text_of};

fn words(text: &str) -> Part {
    Part::Text(Text { text: text.into(), ..Text::default() })
}

fn messages(bodies: Vec<Body>) -> Vec<Arc<Message>> {
    let message = |(id, body)| Arc::new(Message { id: MessageId(id), at: Timestamp(0), body, sent: None });
    (1..).zip(bodies).map(message).collect()
}

fn user(text: &str) -> Body {
    Body::User(vec![words(text)])
}

fn said(message: &Message) -> String {
    match &message.body {
        Body::User(parts) => text_of(parts),
        Body::Context(text) => text.clone(),
        Body::Summary(summary) => text_of(&summary.newest_user),
        Body::Reply(_) | Body::Result(_) => panic!("{message:?}"),
    }
}

/// The newest of what was said before stays whole, the next loses its middle, one line stands for the others, and what
/// was said since is not touched.
#[test]
fn the_newest_of_what_was_said_before_is_kept() {
    let long = "x".repeat(9_000);
    let all = messages(vec![user("a"), user("b"), Body::Context(long.clone()), user("short"), user(&long)]);
    let cut = cut_earlier(&all, MessageId(4), spare_bytes(None));
    let texts: Vec<String> = cut.iter().map(|message| said(message)).collect();
    assert_eq!((&*texts[0], &*texts[1]), ("", "[Earlier messages were left out here to make room.]"));
    assert!(texts[2].len() <= 8 * 1024 && texts[2].contains("bytes of this message were left out"), "{}", texts[2]);
    assert_eq!((&*texts[3], &texts[4]), ("short", &long));
    assert_eq!(cut_earlier(&all, MessageId(0), spare_bytes(None)), all);
}

/// What stands behind a summary was said before as well, files and all; the summary stays.
#[test]
fn messages_behind_a_summary_are_cut_and_the_summary_stays() {
    let file = File {
        name: "a.pdf".into(),
        media_type: "application/pdf".into(),
        bytes: Some(b"%PDF"[..].into()),
        meta: Meta::new(),
    };
    let (text, newest_user) = ("s".repeat(9_000), vec![words(&"x".repeat(9_000)), Part::File(file)]);
    let (source, runtime) = (SummarySource::Overflow, Duration::ZERO);
    let summary = Summary { text: text.clone(), newest_user, source, tokens_before: 0, runtime };
    let cut = cut_earlier(&messages(vec![Body::Summary(Box::new(summary))]), MessageId(1), spare_bytes(None));
    let Body::Summary(summary) = &cut[0].body else { panic!("{cut:?}") };
    assert_eq!(summary.text, text);
    assert!(said(&cut[0]).ends_with("[An attachment was left out here to make room.]"));
    assert!(said(&cut[0]).len() < 8 * 1024 + 256);
}

/// What is kept follows the window; of nothing, a line is left.
#[test]
fn a_small_window_keeps_less() {
    for (limit, bytes) in [(None, 8_192), (Some(1_000_000), 8_192), (Some(4_096), 4_096), (Some(0), 0)] {
        assert_eq!(spare_bytes(limit), bytes, "{limit:?}");
    }
    let all = messages(vec![user("a"), user(&"x".repeat(9_000)), user("new")]);
    let texts = |bytes| cut_earlier(&all, MessageId(2), bytes).iter().map(|it| said(it)).collect::<Vec<_>>();
    assert!(texts(2_048)[1].len() <= 2_048 && texts(2_048)[1].contains("were left out"), "{:?}", texts(2_048));
    assert_eq!(texts(0), ["", "[Earlier messages were left out here to make room.]", "new"]);
}
