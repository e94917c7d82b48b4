//! Why an answer is over, in everybody's words.

/// What a finish reason means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finish {
    /// The model was done, or waits for tools: whichever it says, the calls tell.
    Ended,
    /// The output limit was reached.
    Length,
    /// The policy, or the model, put an end to it.
    Filtered(String),
    /// It did not end, it failed.
    Failed,
    /// An unknown word.
    Unknown,
}

impl Finish {
    pub fn of(reason: &str) -> Self {
        match reason.trim().to_ascii_lowercase().replace('-', "_").as_str() {
            "stop" | "tool_calls" | "function_call" | "tool_call" | "tool_use" | "end_turn" | "stop_sequence"
            | "eos" | "eos_token" | "end" | "done" | "complete" | "completed" => Self::Ended,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" | "model_context_window_exceeded" => {
                Self::Length
            }
            "content_filter"
            | "safety"
            | "sensitive"
            | "refusal"
            | "recitation"
            | "blocklist"
            | "spii"
            | "prohibited_content"
            | "guardrail_intervened" => Self::Filtered(reason.to_owned()),
            "error"
            | "network_error"
            | "server_error"
            | "internal_error"
            | "failed"
            | "abort"
            | "aborted"
            | "cancelled"
            | "canceled"
            | "timeout"
            | "insufficient_system_resource"
            | "malformed_function_call" => Self::Failed,
            _ => Self::Unknown,
        }
    }
}
