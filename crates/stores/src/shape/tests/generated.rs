//! Whatever a chat goes through and a provider attaches is stored as it was.

use std::sync::Arc;

use everturn_core::delta::Delta;
use everturn_core::ids::{MessageId, Seq, StepId, Timestamp};
use everturn_core::message::{Body, Message, Meta, Part};
use everturn_core::view::JournalRow;
use everturn_testkit::rehearsal::sample::chat_id;
use everturn_testkit::rehearsal::{Deed, Dice, Stage, tiny_limits, wish};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Appends, comes_back, is_joined, samples};

/// Any text at all, control characters and NUL included.
fn texts() -> impl Strategy<Value = String> {
    vec(prop_oneof![any::<char>(), prop::char::range('\0', '\u{7f}')], 0..12)
        .prop_map(|chars| chars.into_iter().collect())
}

/// Any JSON. Numbers take all their bits.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(texts(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn message(meta: Meta) -> Message {
    Message { id: MessageId(1), at: Timestamp(1), body: Body::User(vec![Part::Other(meta)]), sent: None }
}

/// What people want and drivers do, as `number` says.
fn live(stage: &mut Stage, number: u64) {
    let mut dice = Dice::new(number);
    stage.now = Timestamp(stage.now.0 + 10);
    match dice.below(4) {
        0 => {
            let command = wish(&stage.chat, &stage.transcript, &number.to_string(), &mut dice);
            comes_back(&command);
            comes_back(&stage.submit(command, &tiny_limits()).map(drop));
        }
        1 => {
            if let Some(facts) = stage.obey_next() {
                stage.commit(&facts);
            }
        }
        _ => match stage.deed(&tiny_limits(), &mut dice) {
            Deed::Rest => {}
            Deed::Journal(deltas) => comes_back(&stage.journal(deltas)),
            Deed::Commit(facts) => stage.commit(&facts),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_life_of_a_chat_comes_back(numbers in vec(any::<u64>(), 0..60)) {
        let mut stage = Stage::new(chat_id(1));
        for number in numbers {
            live(&mut stage, number);
            comes_back(&stage.chat);
        }
        stage.transcript.iter().for_each(|message| comes_back(&**message));
        stage.attempts.iter().for_each(comes_back);
        comes_back(&stage.rows);
    }

    #[test]
    fn any_metadata_comes_back(meta in btree_map(texts(), values(), 0..4)) {
        comes_back(&message(meta));
    }

    #[test]
    fn any_words_at_any_time_come_back(words in vec((any::<i64>(), texts(), any::<bool>()), 0..8)) {
        let row = |((at, text, aloud), seq)| {
            let delta = if aloud { Delta::Text(text) } else { Delta::Reasoning(text) };
            JournalRow { step: StepId(1), seq: Seq(seq), at: Timestamp(at), delta: Arc::new(delta) }
        };
        let rows: Vec<JournalRow> = words.into_iter().zip(1..).map(row).collect();
        comes_back(&rows);
        is_joined(&rows);
        if !rows.is_empty() {
            comes_back(&Appends(rows.into_iter().map(|row| (row.seq.0 as i64, vec![row])).collect()));
        }
    }

    #[test]
    fn any_text_comes_back_from_everywhere(odd in texts().prop_filter("a model has a name", |odd| !odd.is_empty())) {
        samples::messages(&odd).iter().for_each(comes_back);
        samples::commands(&odd).iter().for_each(comes_back);
        samples::journals(&odd).iter().for_each(comes_back);
        samples::appends(&odd).iter().for_each(comes_back);
    }
}

/// Providers are read to a depth of 128. Whatever was read must be readable again from inside a message.
#[test]
fn deep_metadata_comes_back() {
    for depth in [100, 126, 127, 160, 240] {
        let value = (0..depth).fold(json!("[{\"\\"), |value, _| json!([value]));
        comes_back(&message(Meta::from([("deep".into(), value)])));
    }
}
