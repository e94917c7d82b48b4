//! Faults of a stream that has begun.

use std::time::Duration;

use everturn::core::delta::Delta;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn_understudy::{
    Cue, begin_call, call, cut, fail, hang, input, raw, reset, script, stop, usage, wait_ms, words,
};
use serde_json::json;

use super::Row;
use super::case::{Case, HALF, Then, WHOLE, numbers};
use super::way::Way;

/// Why it must not be left out.
const NOT_KEPT: &str = "its generations end with their streams";

/// Why an answer stops, on the wire that says that by itself.
const FINISHED: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn impatient(limits: &mut Limits) {
    limits.silence_max = Duration::from_secs(2);
}

fn long_waits(limits: &mut Limits) {
    (limits.retry.delay_base, limits.retry.delay_max) = (Duration::from_secs(60), Duration::from_secs(60));
}

pub fn stalls() -> Row {
    Row::new(
        "a stall in the stream, signs of life or none",
        [
            Case::new("nothing more comes").half_way(|_| vec![hang()]).limits(impatient),
            Case::new("only signs of life come").fault("chatter@14x1").limits(impatient),
            Case::new("nothing comes at all").fault("stall@0x1").limits(impatient),
            Case::new("a person ends it").half_way(|_| vec![hang()]).then(Then::Interrupts(HALF)),
            Case::new("nothing but the end is missing")
                .scripts(|_| vec![script([words(&numbers(1, WHOLE)), raw(FINISHED), hang()])])
                .limits(impatient)
                .only(Way::Chat, "its answers are over with their last event and not before"),
        ],
    )
}

pub fn drips() -> Row {
    Row::new(
        "every byte comes alone",
        [
            Case::new("to the end").fault("drip"),
            Case::new("until a person ends it").fault("drip").half_way(|_| vec![hang()]).then(Then::Interrupts(HALF)),
        ],
    )
}

pub fn oddities() -> Row {
    Row::new(
        "all that an event stream may be",
        [
            Case::new("marks, comments, ids, lines and line ends of all kinds").fault("odd"),
            Case::new("the same, byte by byte").fault("odd+drip"),
        ],
    )
}

pub fn floods() -> Row {
    let small = |limits: &mut Limits| {
        limits.line_bytes_max = 16 << 10;
        limits.frame_bytes_max = 32 << 10;
        limits.response_bytes_max = 128 << 10;
    };
    Row::new(
        "a line, an event, an answer without end",
        [
            Case::new("a line").fault("line@20x1").limits(small),
            Case::new("an event").fault("event@20x1").limits(small),
            Case::new("tiny events").fault("flood@20x1").limits(small),
            Case::new("a line, at first").fault("line@0x1").limits(small),
        ],
    )
}

pub fn ends_without_an_end() -> Row {
    Row::new(
        "the stream ends, the answer does not",
        [
            Case::new("half-way").half_way(|_| vec![cut()]),
            Case::new("before anything was said").fault("cut@0x1"),
            Case::new("half-way, and a person ends the wait")
                .half_way(|_| vec![cut()])
                .limits(long_waits)
                .then(Then::InterruptsTheWait),
            Case::new("half-way, and it says nothing more")
                .scripts(|_| vec![script([words(&format!("{} ", numbers(1, HALF))), cut()])])
                .only(Way::Kept, NOT_KEPT),
            Case::new("half-way, and the provider has forgotten it")
                .half_way(|_| vec![cut()])
                .forgetful()
                .only(Way::Kept, NOT_KEPT),
        ],
    )
}

/// A generation that is kept is found again, and says nothing twice.
const NOT_REPEATED: &str = "what is kept goes on where it was";

pub fn resets() -> Row {
    // Five words at a time. A generation that is kept goes on, and breaks again.
    let pieces = |way: Way| {
        let piece = |first| [words(&format!("{} ", numbers(first, first + 4))), reset()];
        match way {
            Way::Kept => {
                let rest = [words(&numbers(16, WHOLE)), usage(100, 24), stop(Stop::End)];
                vec![script([1, 6, 11].into_iter().flat_map(piece).chain(rest))]
            }
            _ => [1, 6, 11].map(|first| script(piece(first))).into(),
        }
    };
    let calls = |_| {
        let half = [call("echo", json!({"say": "a"})), begin_call("echo", "{\"say\": \"b"), reset()];
        let rest = [input(1, "\"}"), Cue::Say(vec![Delta::CallEnded { slot: 1 }]), usage(10, 10), stop(Stop::ToolUse)];
        vec![script(half.into_iter().chain(rest))]
    };
    let broken = |kind, cause| move |_: Way| vec![fail(kind, cause)];
    let piece = |first, last| script([words(&numbers(first, last)), reset()]);
    let repeats = move |_: Way| vec![piece(1, HALF), piece(2, HALF - 2)];
    let anew = move |_: Way| {
        let whole = script([words(&numbers(1, WHOLE)), usage(100, 24), stop(Stop::End)]);
        vec![piece(1, HALF), piece(1, HALF - 2), whole]
    };
    Row::new(
        "the connection breaks",
        [
            Case::new("reset half-way").half_way(|_| vec![reset()]),
            Case::new("closed half-way").half_way(broken(ErrorKind::Timeout, Cause::Truncated)),
            Case::new("reset before anything was said").fault("reset@0x1"),
            Case::new("reset again and again").scripts(pieces),
            Case::new("reset behind a whole call and in another").scripts(calls),
            Case::new("reset while it repeats what it said").scripts(repeats).except([Way::Kept], NOT_REPEATED),
            Case::new("it begins anew each time").scripts(anew).except([Way::Kept], NOT_REPEATED),
        ],
    )
}

pub fn ignored_cancels() -> Row {
    Row::new(
        "the server goes on after an interrupt",
        [
            Case::new("it says nothing").half_way(|_| vec![hang()]).then(Then::Interrupts(HALF)),
            Case::new("it goes on talking")
                .half_way(|_| (0..200).flat_map(|_| [raw(": still here\n\n"), wait_ms(5)]).collect())
                .then(Then::Interrupts(HALF)),
            Case::new("it knows nothing of it")
                .half_way(|_| vec![hang()])
                .forgetful()
                .then(Then::Interrupts(HALF))
                .only(Way::Kept, NOT_KEPT),
        ],
    )
}
