//! Recorded streams of many servers, and what each says.

use everturn_core::delta::Delta;
use expect_test::{ExpectFile, expect_file};

use super::super::Completions;
use crate::provider::Frame;
use crate::tests::cuts::{self, told};
use crate::tests::snapshot::{draft, shown};

fn check(name: &str, bytes: &[u8], expected: ExpectFile) {
    let whole = told([bytes], Completions::new("compatible"));
    draft(&whole.frames);
    expected.assert_eq(&shown(&whole));
    cuts::every_cut(name, bytes, || Completions::new("compatible"));
    if !FINISH_TWICE.contains(&name) {
        every_end(name, bytes);
    }
}

/// Servers that say twice why they are done, and more in between, look done when they have said it once.
const FINISH_TWICE: [&str; 2] = ["gemini", "resumed_after_stop"];

/// Cut anywhere, an answer is whole or it is not, and what was said is never said otherwise. A count that came after the
/// finish reason may be missing then: the answer is not.
fn every_end(name: &str, bytes: &[u8]) {
    let counts = |frame: &&Frame| !matches!(frame, Frame::Delta(Delta::Usage(_) | Delta::Source(_)) | Frame::Ping);
    let whole = told([bytes], Completions::new("compatible"));
    let said: Vec<&Frame> = whole.frames.iter().filter(counts).collect();
    for end in 0..bytes.len() {
        let part = told([&bytes[..end]], Completions::new("compatible"));
        let part_said: Vec<&Frame> = part.frames.iter().filter(counts).collect();
        match part.end {
            Ok(()) => assert_eq!(part_said, said, "{name} ended at byte {end} is a silent partial"),
            Err(_) => assert!(said.starts_with(&part_said), "{name} ended at byte {end} says something else"),
        }
    }
}

/// What a recorded stream says stands beside it.
macro_rules! fixtures {
    ($($name:ident,)+) => {$(
        #[test]
        fn $name() {
            let bytes = include_bytes!(concat!("../../../fixtures/openai_chat/", stringify!($name), ".sse"));
            let expected = expect_file![concat!("../../../fixtures/openai_chat/", stringify!($name), ".frames")];
            check(stringify!($name), bytes, expected);
        }
    )+};
}

fixtures! {
    azure,
    calls,
    calls_done,
    cap,
    deepseek,
    done_only,
    filtered,
    gemini,
    interleaved,
    kimi,
    legacy,
    length,
    litellm_error,
    llamacpp,
    mistral,
    network_error,
    no_done,
    odd_calls,
    ollama,
    openrouter,
    openrouter_error,
    refusal,
    resumed_after_stop,
    text,
    vllm,
    vllm_error,
}
