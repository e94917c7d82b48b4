//! The request of an attempt: the transcript prepared for a model, and what the agent adds to it.
//!
//! A picture that is too large, cut off or mislabelled gets the whole request refused, and it stays in the transcript. So
//! a request with media that is refused for good is made once more with a line of text in place of each. If that is
//! answered, media were the reason, and up to there they are not shown again in this chat.

use std::sync::Arc;

use everturn_core::context::CompactionFallback;
use everturn_core::message::Message;
use everturn_core::prompt::{Effort, OUTPUT_MAX, PromptEntries, Request, ResponseChain, Sampling};
use everturn_core::turn_settings::TurnSettings;

use crate::agent::{Background, Chaining};
use crate::drive::compaction::{self, Fitting};
use crate::drive::session::{ChatSession, HookInstructions};
use crate::drive::target::ModelTarget;
use crate::drive::transcript::{PromptOrigin, prompt_of};

/// An answer may always have this many tokens, however little room there seems to be; in a small window, a quarter of it.
const OUTPUT_MIN: u32 = 1_024;

/// A request may have a sixteenth more tokens than measured.
const MEASURE_ERROR: u64 = 16;

/// How many lengths an answer's limit may have.
const OUTPUT_STEPS: u64 = 32;

/// The transcript as one model is to read it. Requests can only be made of this.
pub(crate) struct Prepared {
    pub(crate) target: ModelTarget,
    entries: PromptEntries,
    chain: Option<ResponseChain>,
}

/// Prepares the transcript for a model. The measure of tokens is calibrated whenever the prompt is made anew.
pub(crate) fn prepare(session: &mut ChatSession, fitting: &mut Fitting, target: ModelTarget) -> Prepared {
    let hidden_until = session.media_hidden_until();
    let chains = session.env.agent.chaining == Chaining::On && !session.chat.tried.without_chain;
    let read = |prompt: &everturn_core::prompt::Prompt| {
        let chain = if chains { prompt.chain(&target.model) } else { None };
        (prompt.entries(), chain)
    };
    let ((entries, chain), origin) = session.transcript.read_prompt(&target.facts.target, hidden_until, read);
    let prepared = Prepared { target, entries, chain };
    if origin == PromptOrigin::New {
        compaction::calibrate(session, fitting, &prepared);
    }
    prepared
}

/// How hard the model is to think in this turn.
pub(crate) fn effort(session: &ChatSession) -> Option<Effort> {
    session.chat.settings().and_then(|settings| settings.effort).or(session.env.agent.effort)
}

/// Adds what the request that the turn answers says. Its sampling stands in place of the agent's.
fn set(request: &mut Request, settings: &TurnSettings) {
    request.system.extend(settings.instructions.clone());
    request.tool_choice = settings.tool_choice.clone();
    request.parallel_calls = settings.parallel_calls;
    request.format = settings.format.clone();
    let Sampling { temperature, top_p, top_k, seed, stop } = settings.sampling.clone();
    let agents = std::mem::take(&mut request.sampling);
    request.sampling = Sampling {
        temperature: temperature.or(agents.temperature),
        top_p: top_p.or(agents.top_p),
        top_k: top_k.or(agents.top_k),
        seed: seed.or(agents.seed),
        stop: if stop.is_empty() { agents.stop } else { stop },
    };
}

impl Prepared {
    /// The request for the step as it stands, without a half-said answer.
    pub(crate) fn request(&self, session: &ChatSession, fitting: &Fitting) -> Request {
        let agent = &session.env.agent;
        let mut request = Request::new(self.target.model.clone(), &self.target.facts.target, self.entries.clone());
        request.system = agent.system.clone();
        request.system.extend(session.chat.setup.as_ref().map(|setup| setup.instructions.clone()));
        if let HookInstructions::Known(instructions) = &session.env.instructions {
            request.system.extend(instructions.clone());
        }
        request.tools = session.shelf().offered();
        request.effort = effort(session);
        request.sampling = agent.sampling.clone();
        if let Some(settings) = session.chat.settings() {
            set(&mut request, settings);
        }
        request.background = agent.background == Background::On;
        request.chain.clone_from(&self.chain);
        if let Some(stage) = fitting.reductions(session).stage {
            request.entries = self.reduced(session, &request.entries, stage);
            request.chain = None; // The provider's copy is the one that was too long.
        }
        let asked = session.chat.settings().and_then(|settings| settings.output_tokens_max);
        let told = asked.into_iter().chain(agent.output_tokens_max).min();
        request.output_is_told = told.is_some();
        let wanted = told.unwrap_or(OUTPUT_MAX);
        request.max_output = self.output_max(session, fitting, &request, wanted);
        request
    }

    /// The entries of some messages, for the same model.
    pub(crate) fn entries_of<'a>(
        &self,
        session: &ChatSession,
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
    ) -> PromptEntries {
        prompt_of(messages, &self.target.facts.target, session.media_hidden_until()).entries()
    }

    /// The entries of a request with less in them.
    pub(crate) fn reduced(
        &self,
        session: &ChatSession,
        entries: &PromptEntries,
        stage: CompactionFallback,
    ) -> PromptEntries {
        match stage {
            CompactionFallback::StrongerSummary | CompactionFallback::DropMedia | CompactionFallback::DropResults => {
                entries.leaner(stage)
            }
            CompactionFallback::CutEarlier => self.entries_of(session, &compaction::spared(session)).leaner(stage),
            CompactionFallback::DropEarlier => self.entries_of(session, &compaction::cut(session, 0)).leaner(stage),
        }
    }

    /// How long an answer to a request may be where `wanted` tokens are wanted: many servers refuse one that would not
    /// fit behind the request. Rounded, because some caches hold only as long as nothing about a request changes.
    pub(crate) fn output_max(&self, session: &ChatSession, fitting: &Fitting, request: &Request, wanted: u32) -> u32 {
        let max = wanted.min(self.target.facts.output_max);
        let Some(limit) = session.context_limit() else { return max };
        let tokens = fitting.tokens(request);
        let room = limit.saturating_sub(tokens.saturating_add(tokens / MEASURE_ERROR));
        let room = room - room % (limit / OUTPUT_STEPS).max(1);
        let least = OUTPUT_MIN.min(u32::try_from(limit / 4).unwrap_or(u32::MAX));
        u32::try_from(room).map_or(max, |room| max.min(room.max(least)))
    }
}
