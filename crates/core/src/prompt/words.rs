//! Every sentence that Everturn itself adds to a conversation.
//!
//! The model reads these as part of the conversation, so they state what happened and nothing else: no
//! persona, no politeness, no advice beyond what the situation demands. They are in one place so that they
//! can be read in one go.

use crate::message::CallVerdict;

/// Stands for the person where a conversation would begin with the model.
pub const BEGINNING: &str = "(The conversation begins here.)";

/// Stands for the person where a conversation would end with the model.
pub const GO_ON: &str = "(No new message. Go on.)";

/// Asks for the rest of an answer that broke off.
pub const CONTINUE: &str = "Your last message broke off at its very end. Go on from exactly there: begin with the next \
                            character, repeat nothing of it, and say nothing before it.";

/// The result of a call that has none.
pub const NO_RESULT: &str = "This call was interrupted and has no result.";

/// The result of a call with incomplete input.
pub const CUT_OFF: &str = "The input of this call was cut off, so it was not run.";

/// The result of a call that may or may not have run.
pub const LOST_RESULT: &str = "The result of this call was lost. It is not known whether it ran, or how it ended.";

/// The description of the tool that is offered only because past calls must have some tool.
pub const NO_TOOLS: &str = "Not available. Do not call.";

/// What a result says that says nothing.
pub const fn silent(verdict: CallVerdict) -> &'static str {
    match verdict {
        CallVerdict::Done => "(no output)",
        CallVerdict::Error => "The call failed without a message.",
        CallVerdict::Denied => "The call was refused.",
        CallVerdict::Interrupted => "The call was interrupted.",
        CallVerdict::Unknown => "The call was started, and it is not known how it ended.",
    }
}

/// Introduces the person's newest words after a summary.
pub const NEWEST: &str = "(The newest message before this point, word for word:)";

/// Introduces a summary.
pub fn summary(text: &str) -> String {
    format!("Summary of the conversation so far, in place of it:\n\n{}", text.trim())
}

/// Tells of calls that were taken back.
pub fn retracted(tools: &[String]) -> String {
    format!("(Cut off and taken back before it ran: {}.)", tools.join(", "))
}

/// A note with the output of a tool, for a result without a call.
pub fn orphan(tool: &str, text: &str) -> String {
    format!("(Result of an earlier call of {tool} that is no longer shown:)\n{text}")
}

/// Tells what a tool of a provider found, in words.
pub fn hosted(tool: &str, found: &str) -> String {
    format!("({tool} found:)\n{found}")
}

/// Introduces media that came with a result but cannot be in it.
pub fn media_of(tool: &str) -> String {
    format!("(From the result of {tool}:)")
}

/// Stands for media the model cannot take.
pub fn unreadable(name: &str, media_type: &str, bytes: usize) -> String {
    format!("(A file that cannot be shown here: {}{bytes} bytes.)", described(name, media_type))
}

/// Stands for a file without its bytes.
pub fn gone(name: &str, media_type: &str) -> String {
    format!("(A file that is no longer available: {}no bytes.)", described(name, media_type))
}

/// Introduces a file that is sent as words.
pub fn inlined(name: &str, media_type: &str, text: &str, omitted: usize) -> String {
    let end = if omitted == 0 { String::new() } else { format!("\n({omitted} more bytes of the file are left out.)") };
    format!("(A file: {}as text.)\n{text}{end}", described(name, media_type))
}

fn described(name: &str, media_type: &str) -> String {
    [name, media_type].into_iter().filter(|word| !word.trim().is_empty()).map(|word| format!("{word}, ")).collect()
}

/// In place of an image or a file that made the request too long.
pub const MEDIA_LEFT_OUT: &str = "[An attachment was left out here to make room.]";

/// In place of what people said in earlier turns, where that made the request too long.
pub const EARLIER_LEFT_OUT: &str = "[Earlier messages were left out here to make room.]";

/// In place of the middle of a message from an earlier turn that made the request too long.
pub fn middle_left_out(bytes: usize) -> String {
    format!("[{bytes} bytes of this message were left out here to make room.]")
}

/// In place of an old result that made the request too long.
pub(super) const RESULT_LEFT_OUT: &str = "[This result was left out to make room. Call the tool again if you need it.]";
