//! Which model the next attempt asks.

use std::sync::Arc;

use everturn_core::chat::{Chat, StepAttempts};
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::ids::ModelId;
use everturn_providers::{ModelFacts, Provider};
use everturn_stores::SubmitError;

use crate::agent::Agent;
use crate::drive::session::Environment;

/// A model, its provider, and what is known about it.
#[derive(Clone)]
pub(crate) struct ModelTarget {
    pub(crate) model: ModelId,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) facts: ModelFacts,
}

impl ModelTarget {
    /// The model that a chat's next attempt asks, or the configuration error to show.
    pub(crate) fn resolve(env: &Environment, chat: &Chat) -> Result<Self, ProviderError> {
        let model = model_of(&env.agent, chat).ok_or_else(|| no_model(env, chat))?;
        let providers = &env.shared.providers;
        let provider = providers.get(model.provider()).cloned().ok_or_else(|| {
            let known: Vec<_> = providers.keys().map(String::as_str).collect();
            let detail =
                format!("no provider `{}` for model {model}; there are: {}", model.provider(), known.join(", "));
            ProviderError::new(model.provider(), ErrorKind::Config).with_detail(&detail)
        })?;
        let facts = provider.facts(model.name());
        Ok(Self { model, provider, facts })
    }
}

/// The model that a chat asks, whether or not its provider is configured.
pub(crate) fn model_of(agent: &Agent, chat: &Chat) -> Option<ModelId> {
    // Beyond the last, as after an agent lost one in between, the last is meant.
    agent.asks(chat.own_model()).take(chat.tried.model.saturating_add(1)).last().cloned()
}

/// The error of a chat with an agent that is missing or has no model.
pub(crate) fn no_model(env: &Environment, chat: &Chat) -> ProviderError {
    let detail = match env.shared.agent(&chat.agent) {
        Some(_) => "the agent has no model".into(),
        None => SubmitError::NoAgent(chat.agent.clone()).to_string(),
    };
    ProviderError::new("", ErrorKind::Config).with_detail(&detail)
}

/// The terms on which the next model of the agent is asked, if there is one.
pub(crate) fn next_model(agent: &Agent, chat: &Chat) -> Option<StepAttempts> {
    agent.asks(chat.own_model()).nth(chat.tried.model.saturating_add(1))?;
    let spent = chat.tried.spent.anew();
    Some(StepAttempts { model: chat.tried.model + 1, spent, without_media: false, ..chat.tried })
}
