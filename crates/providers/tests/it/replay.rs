//! What the fuzz targets found, and what they began with, on any toolchain.

use std::path::{Path, PathBuf};

use crate::fuzz::dice::Dice;
use crate::fuzz::{self, mutate::mutated};

/// What is tried of mutations of each seed, in bytes, so that a long one takes no more time than a short one: some
/// thousand mutations a target. A fuzzer tries more in a minute; this is to notice what is plainly broken.
const MUTATED_BYTES: usize = 150_000;
const MUTATIONS_MAX: usize = 500;

/// Every file of a target's corpus and of the recorded streams it reads, and mutations of each: the same ones always.
fn replay(target: &str, fixtures: &str, hold: fn(&[u8])) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = files(&here.join("../../fuzz/corpus").join(target));
    assert!(!corpus.is_empty(), "no corpus for {target}");
    let is_stream = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sse");
    let recorded = files(&here.join("fixtures")).into_iter().filter(is_stream);
    let recorded = recorded.filter(|path| path.to_string_lossy().contains(fixtures));
    let seeds: Vec<(PathBuf, Vec<u8>)> =
        corpus.into_iter().chain(recorded).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    for (at, (path, seed)) in seeds.iter().enumerate() {
        tried(path, seed, hold);
        let mut dice = Dice::new(at as u64);
        for _ in 0..(MUTATED_BYTES / seed.len().max(1)).min(MUTATIONS_MAX) {
            let (_, other) = dice.pick(&seeds);
            tried(path, &mutated(seed, other, &mut dice), hold);
        }
    }
}

/// Holds what must hold, or tells of which bytes it does not.
fn tried(path: &Path, bytes: &[u8], hold: fn(&[u8])) {
    if std::panic::catch_unwind(|| hold(bytes)).is_err() {
        panic!("a mutation of {} breaks a promise: {:?}", path.display(), String::from_utf8_lossy(bytes));
    }
}

/// The files below a directory, in order.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// P14, P15.
#[test]
fn framing_holds() {
    replay("sse", "/anthropic/", fuzz::sse);
}

/// P16 to P21, and what P14 and P23 say of cuts.
#[test]
fn anthropic_holds() {
    replay("anthropic", "/anthropic/", fuzz::anthropic);
}

/// Replays the corpus of this wire format.
#[test]
fn openai_responses_holds() {
    replay("openai_responses", "/openai_responses/", fuzz::openai_responses);
}

/// Replays the corpus of this wire format.
#[test]
fn openai_chat_holds() {
    replay("openai_chat", "/openai_chat/", fuzz::openai_chat);
}

/// Replays the corpus of this wire format.
#[test]
fn gemini_holds() {
    replay("gemini", "/gemini/", fuzz::gemini);
}

/// Replays the corpus of this wire format.
#[test]
fn interactions_holds() {
    replay("interactions", "/gemini/interactions-", fuzz::interactions);
}
