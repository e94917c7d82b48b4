//! OpenTelemetry spans.
//!
//! Spans are named and filled by OpenTelemetry's conventions for generative AI: one per turn, in it one per provider call
//! and one per tool that runs. They hold the model, the duration, the usage and how it ended, and no text of people or
//! models. Without a subscriber for [`TARGET`] they cost next to nothing.

use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::cost::Usage;
use everturn_core::delta::AttemptBegan;
use everturn_core::draft::Draft;
use everturn_core::fact::{AttemptOutcome, AttemptRecord, Fact};
use everturn_core::ids::{CallUid, ModelId};
use everturn_core::message::{Body, CallVerdict, Reply, Stop};
use everturn_providers::ApiAddress;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::observe::metrics::labels;

/// The target of every span here.
pub const TARGET: &str = "everturn::genai";
/// A list in the conventions. Span fields cannot be lists, so it is one word here, and the exporter makes a list of it.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// The open spans of one driver.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    turn: Option<Span>,
    attempt: Option<Span>,
}

impl Spans {
    /// For a chat that was loaded: a turn under way has a span from now on.
    pub(crate) fn of(chat: &Chat) -> Self {
        Self { turn: chat.turn.is_some().then(|| turn(chat, true)), attempt: None }
    }

    fn turn(&self) -> Option<tracing::Id> {
        self.turn.as_ref().and_then(Span::id)
    }

    /// An attempt begins.
    pub(crate) fn ask(&mut self, chat: &Chat, began: &AttemptBegan, server: Option<ApiAddress>) {
        let span = self.attempt(chat, &began.model, server);
        span.record("everturn.attempt.number", i64::from(began.number));
        span.record("everturn.attempt.rung", began.rung.label());
        self.attempt = Some(span);
    }

    fn attempt(&self, chat: &Chat, model: &ModelId, server: Option<ApiAddress>) -> Span {
        let span = info_span!(
            target: TARGET,
            parent: self.turn(),
            "chat",
            otel.name = format!("chat {}", model.name()),
            otel.kind = "client",
            otel.status_code = Empty,
            "error.type" = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider_name(model.provider()),
            gen_ai.request.model = model.name(),
            gen_ai.conversation.id = %chat.id,
            server.address = Empty,
            server.port = Empty,
            gen_ai.response.id = Empty,
            gen_ai.response.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            everturn.attempt.number = Empty,
            everturn.attempt.rung = Empty,
            everturn.usage.estimated = Empty,
        );
        if let Some(ApiAddress { address, port }) = server {
            span.record("server.address", address);
            span.record("server.port", i64::from(port));
        }
        span
    }

    /// Records the response id and model of the answer that has just ended.
    pub(crate) fn heard(&self, draft: &Draft) {
        let (Some(span), Some(began)) = (&self.attempt, draft.current()) else { return };
        if let Some(id) = draft.response_id() {
            span.record("gen_ai.response.id", id);
        }
        let about = draft.meta().get(began.model.provider());
        let model = about.and_then(|about| about.get("model").or_else(|| about.get("modelVersion"))?.as_str());
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            span.record("gen_ai.response.model", model);
        }
    }

    /// The span of a tool that is about to run.
    pub(crate) fn tool(&self, chat: &Chat, tool: &str, call: CallUid) -> Span {
        info_span!(
            target: TARGET,
            parent: self.turn(),
            "execute_tool",
            otel.name = format!("execute_tool {tool}"),
            otel.kind = "internal",
            otel.status_code = Empty,
            "error.type" = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = tool,
            "gen_ai.tool.type" = "function",
            gen_ai.tool.call.id = %call,
            gen_ai.conversation.id = %chat.id,
        )
    }

    /// A commit was written: spans begin and end with its facts. `before` is the chat before it.
    pub(crate) fn committed(
        &mut self,
        before: &Chat,
        facts: &[Fact],
        server_of: impl Fn(&ModelId) -> Option<ApiAddress>,
    ) {
        for fact in facts {
            match fact {
                Fact::TurnBegan(_) => self.turn = Some(turn(before, false)),
                Fact::TurnEnded(end) => {
                    if let Some(span) = self.turn.take() {
                        turn_ended(&span, before, end);
                    }
                }
                Fact::Compacts(compacting) => {
                    let span = self.attempt(before, &compacting.model, server_of(&compacting.model));
                    span.record("everturn.attempt.rung", labels::SUMMARY);
                    self.attempt = Some(span);
                }
                Fact::Attempted(row, _) => {
                    if let Some(span) = self.attempt.take() {
                        attempted(&span, row, reply_of(facts));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Ends the span of a tool.
pub(crate) fn tool_ended(span: &Span, verdict: CallVerdict) {
    match verdict {
        CallVerdict::Done => {}
        CallVerdict::Error => failed(span, "tool_error"),
        CallVerdict::Unknown => failed(span, "unknown"),
        CallVerdict::Denied | CallVerdict::Interrupted => failed(span, "interrupted"),
    }
}

fn turn(chat: &Chat, resumed: bool) -> Span {
    info_span!(
        target: TARGET,
        parent: None,
        "invoke_agent",
        otel.name = format!("invoke_agent {}", chat.agent),
        otel.kind = "internal",
        otel.status_code = Empty,
        "error.type" = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = chat.agent,
        gen_ai.conversation.id = %chat.id,
        everturn.turn.resumed = resumed,
        everturn.turn.end = Empty,
        everturn.turn.steps = Empty,
    )
}

fn turn_ended(span: &Span, before: &Chat, end: &TurnEnd) {
    span.record("everturn.turn.end", labels::end(end));
    span.record("everturn.turn.steps", before.turn.as_ref().map_or(0, |turn| i64::from(turn.steps)));
    if let TurnEnd::Failed(failure) = end {
        failed(span, failure.kind.label());
    }
}

fn attempted(span: &Span, row: &AttemptRecord, reply: Option<&Reply>) {
    let (known, estimated) = (row.tally.known, row.tally.estimated);
    let tokens = [
        ("gen_ai.usage.input_tokens", known.prompt().saturating_add(estimated.prompt())),
        ("gen_ai.usage.output_tokens", known.output.saturating_add(estimated.output)),
        ("gen_ai.usage.reasoning.output_tokens", known.reasoning),
        ("gen_ai.usage.cache_read.input_tokens", known.cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", known.cache_write),
    ];
    for (name, count) in tokens {
        span.record(name, i64::try_from(count).unwrap_or(i64::MAX)); // Unsigned numbers are exported as text.
    }
    span.record("everturn.usage.estimated", row.tally.estimated != Usage::default());
    match row.outcome {
        AttemptOutcome::Answered => {
            if let Some(reply) = reply {
                span.record(FINISH_REASONS, finish_reason(&reply.stop));
            }
        }
        AttemptOutcome::Broke(_, kind) => failed(span, kind.label()),
        AttemptOutcome::Interrupted => failed(span, "interrupted"),
        AttemptOutcome::Lost => failed(span, "lost"),
    }
}

fn reply_of(facts: &[Fact]) -> Option<&Reply> {
    facts.iter().find_map(|fact| match fact {
        Fact::Said(message, _) => match &message.body {
            Body::Reply(reply) => Some(&**reply),
            _ => None,
        },
        _ => None,
    })
}

/// The stop reason of a reply, in the words of the conventions.
const fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::ToolUse => "tool_call",
        Stop::Length => "length",
        Stop::Filtered { .. } => "content_filter",
        Stop::Interrupted | Stop::Broken => "error",
    }
}

fn failed(span: &Span, kind: &'static str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

/// The name of a provider in the conventions. They have the same names for Anthropic and OpenAI, and none for OpenRouter,
/// Ollama and providers that the configuration named.
fn provider_name(provider: &str) -> &str {
    match provider {
        "google" => "gcp.gemini",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_names_follow_the_conventions() {
        for (ours, theirs) in
            [("google", "gcp.gemini"), ("anthropic", "anthropic"), ("openai", "openai"), ("lab", "lab")]
        {
            assert_eq!(provider_name(ours), theirs);
        }
    }
}
