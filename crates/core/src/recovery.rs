//! What to do when a provider's stream breaks.
//!
//! A broken stream is not a failed answer: people have read part of it, tools in it may be complete, and somebody paid
//! for it. The ladder asks, best rung first, what of it can go on. The same question is asked by the attempt that saw
//! the break and by a new process that found the draft in the journal.

use crate::delta::{GenerationHandle, Rung};
use crate::draft::Draft;
use crate::error::Cause;

/// What a model and its provider can do for a broken stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Whether the provider keeps generations, and policy lets us use that.
    pub reattach: Reattach,
    /// Whether an assistant message at the end of a request is gone on with.
    pub prefill: Prefill,
    /// Whether the provider goes on from this very draft, sent back as it came.
    pub echo: Echo,
}

/// Whether a lost generation can be found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reattach {
    /// It is gone with its connection.
    #[default]
    No,
    /// The provider keeps it for a while.
    Yes,
    /// It does, and showed that it lives while it was silent: whoever thinks for long need not say so.
    Alive,
}

/// Whether a request may end with the beginning of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefill {
    /// The model refuses it, or begins anew.
    #[default]
    No,
    /// The model goes on from there.
    Yes,
}

/// Whether a draft can be sent back as it came, for its provider to go on: the provider's own tools had the last word,
/// and nothing of it is half said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Echo {
    /// It cannot.
    #[default]
    No,
    /// It can. What those tools found is paid for, and is not asked for again.
    Yes,
}

/// What the policy still allows on the current model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryBudget {
    /// Another attempt.
    Left,
    /// None here, but there is a next model.
    SpentHere,
    /// None at all.
    Spent,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Reopen the same generation after the provider's own cursor. Nothing is paid twice.
    Reattach(GenerationHandle),
    /// Seal the step as tool use with the calls that are complete, and take back the rest. Nothing is paid twice.
    Salvage {
        /// Calls to take back, by their place in the step.
        retract: Vec<u16>,
    },
    /// Ask for the rest of the text. The input is paid again.
    Continue {
        /// Calls to take back first.
        retract: Vec<u16>,
        /// How the model is brought to go on.
        how: Continuation,
    },
    /// Take everything back and ask the same again.
    Restart,
    /// Ask the next model, with the draft if that can be.
    FallBack {
        /// Whether the draft goes along.
        carry: FallBackCarry,
    },
    /// Keep what there is and fail.
    GiveUp,
}

/// How a model is brought to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// The request ends with what was said.
    Prefill,
    /// The request ends with an instruction to go on.
    Instruct,
    /// The request ends with what was said, its provider's own tools included, as it came.
    Echo,
}

/// What a fall-back takes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FallBackCarry {
    /// The text so far; these calls are taken back.
    Draft {
        /// Calls to take back first.
        retract: Vec<u16>,
    },
    /// Nothing: the draft is taken back.
    Nothing,
}

/// Climbs the ladder.
#[must_use]
pub fn plan(draft: &Draft, cause: Cause, can: Capabilities, budget: RetryBudget) -> Recovery {
    // Complete calls cost nothing to keep, so not even an empty purse stands in their way. A refusal comes before any
    // output, so whatever the draft holds then is of an earlier attempt, and still counts.
    let open: Vec<u16> = draft.open_calls().map(|call| call.uid.ordinal).collect();
    // A generation that ended in failure, or that its provider no longer has, is not there to be found again.
    let is_over = ends_generation(cause) || found_dumb(draft, cause, can.reattach);
    let reattach = can.reattach != Reattach::No && !is_over && budget == RetryBudget::Left;
    if let Some(handle) = draft.handle().filter(|_| reattach) {
        return Recovery::Reattach(handle.clone());
    }
    if draft.complete_calls().next().is_some() {
        return Recovery::Salvage { retract: open };
    }
    match (budget, draft.has_text()) {
        (RetryBudget::Left, _) if can.echo == Echo::Yes => {
            Recovery::Continue { retract: open, how: Continuation::Echo }
        }
        (RetryBudget::Left, true) => Recovery::Continue { retract: open, how: continuation(can) },
        (RetryBudget::Left, false) => Recovery::Restart,
        (RetryBudget::SpentHere, true) => Recovery::FallBack { carry: FallBackCarry::Draft { retract: open } },
        (RetryBudget::SpentHere, false) => Recovery::FallBack { carry: FallBackCarry::Nothing },
        (RetryBudget::Spent, _) => Recovery::GiveUp,
    }
}

/// Whether a break is the end of the generation itself, and not only of the stream it came by.
#[must_use]
pub const fn ends_generation(cause: Cause) -> bool {
    matches!(cause, Cause::Malformed | Cause::ErrorFinish)
}

/// Whether the generation was found again and said nothing more. A connection that broke proves nothing about it; a
/// stream that failed at once does, and would again; so does one that ended or fell silent, unless it showed that it lived.
fn found_dumb(draft: &Draft, cause: Cause, reattach: Reattach) -> bool {
    let found = draft.current().is_some_and(|began| began.rung == Rung::Reattach);
    let is_proof = match cause {
        Cause::ServerError => true,
        Cause::Truncated | Cause::IdleStall => reattach != Reattach::Alive,
        _ => false,
    };
    found && draft.current_bytes() == 0 && is_proof
}

/// How this model is brought to go on.
#[must_use]
pub const fn continuation(can: Capabilities) -> Continuation {
    match can.prefill {
        Prefill::Yes => Continuation::Prefill,
        Prefill::No => Continuation::Instruct,
    }
}

#[cfg(test)]
mod tests;
