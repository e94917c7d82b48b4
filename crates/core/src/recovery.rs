//! What to do when a provider's stream breaks.
//!
//! A broken stream is not a failed answer: people have read part of it, calls in it may be complete, and it
//! was paid for. The ladder decides, best rung first, what of it can be kept. The attempt that saw the break
//! and a new process that found the draft in the journal call the same function.

use crate::delta::{GenerationHandle, Rung};
use crate::draft::Draft;
use crate::error::Cause;

/// What a model and its provider can do for a broken stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Whether the provider keeps generations, and policy lets us use that.
    pub reattach: Reattach,
    /// Whether the model continues an assistant message at the end of a request.
    pub prefill: Prefill,
    /// Whether the provider goes on from this very draft, sent back as it came.
    pub echo: Echo,
}

/// Whether a lost generation can be found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reattach {
    /// It is lost with its connection.
    #[default]
    No,
    /// The provider keeps it for a while.
    Yes,
    /// The provider keeps it, and sent pings while it was silent: a long thought needs no output.
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

/// Whether a draft can be sent back unchanged for its provider to continue: it ends with the provider's own
/// tools, and no part of it is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Echo {
    /// It cannot.
    #[default]
    No,
    /// It can. The results of those tools are paid for and are not requested again.
    Yes,
}

/// The attempts that the retry policy still allows.
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
        /// How the model is made to continue.
        how: Continuation,
    },
    /// Take everything back and ask the same again.
    Restart,
    /// Ask the next model, with the text so far if there is any.
    FallBack,
    /// Keep what there is and fail.
    GiveUp,
}

/// How a model is made to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// The request ends with what was said.
    Prefill,
    /// The request ends with an instruction to go on.
    Instruct,
    /// The request ends with what was said, its provider's own tools included, as it came.
    Echo,
}

/// Chooses the best rung of the ladder that is possible.
#[must_use]
pub fn plan(draft: &Draft, cause: Cause, can: Capabilities, budget: RetryBudget) -> Recovery {
    // Complete calls cost nothing to keep, so a spent budget does not matter. A refusal comes before any
    // output, so what the draft holds then is from an earlier attempt, and still counts.
    let open: Vec<u16> = draft.open_calls().map(|call| call.uid.ordinal).collect();
    // A generation that failed, or that its provider no longer has, cannot be re-attached.
    let is_over = ends_generation(cause) || reattach_was_silent(draft, cause, can.reattach);
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
        (RetryBudget::SpentHere, _) => Recovery::FallBack,
        (RetryBudget::Spent, _) => Recovery::GiveUp,
    }
}

/// Whether a break is the end of the generation itself, and not only of the stream it came by.
#[must_use]
pub const fn ends_generation(cause: Cause) -> bool {
    matches!(cause, Cause::Malformed | Cause::ErrorFinish)
}

/// Whether the newest attempt re-attached and brought nothing. A connection that broke proves nothing about it; a
/// stream that failed at once does, and would again; so does one that ended or fell silent, unless it showed that it lived.
fn reattach_was_silent(draft: &Draft, cause: Cause, reattach: Reattach) -> bool {
    let found = draft.current().is_some_and(|began| began.rung == Rung::Reattach);
    let is_proof = match cause {
        Cause::ServerError => true,
        Cause::Truncated | Cause::IdleStall => reattach != Reattach::Alive,
        _ => false,
    };
    found && draft.current_bytes() == 0 && is_proof
}

/// How this model is made to continue.
#[must_use]
pub const fn continuation(can: Capabilities) -> Continuation {
    match can.prefill {
        Prefill::Yes => Continuation::Prefill,
        Prefill::No => Continuation::Instruct,
    }
}

#[cfg(test)]
mod tests;
