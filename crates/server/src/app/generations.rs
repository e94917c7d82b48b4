//! Internal chats: generations for clients that keep their conversation themselves.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::ids::{ChatId, MessageId, ModelId, Timestamp};
use everturn::core::message::{Body, Message};
use everturn::core::prompt::{OutputFormat, WireFormat};
use everturn::core::status::Status;
use everturn::core::turn_settings::TurnSettings;
use everturn::stores::{ChatQuery, Chosen, Heading, MessageRange, NewChat, StoreError, StoreExt as _, SubmitError};

use super::{App, SharedApp};
use crate::api::problem::{Problem, ProblemKind};
use crate::auth::access::Caller;
use crate::fronts::gateway::{Answerer, GATEWAY_AGENT};
use crate::setup::offer::{ModelOffer, instead};

/// How often old generations are looked for, unless they are kept for less.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How often at most.
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(100);
/// How many are deleted at once.
const SWEEP_LEN: usize = 200;

/// The server's work for clients that send their whole conversation with each request.
pub(crate) struct Generations<'a>(pub(crate) &'a App);

impl Generations<'_> {
    /// What a request's `model` names: an agent, a model by its full name, or a model by the name its provider has for it.
    pub(crate) fn answerer(&self, provider: &str, name: &str) -> Result<Answerer, Problem> {
        if name != GATEWAY_AGENT && self.0.engine.agents().any(|(agent, _)| agent == name) {
            return Ok(Answerer::Agent(name.into()));
        }
        let of_agents = || self.0.engine.agents().flat_map(|(_, agent)| &agent.models);
        let is_offered = |model: &ModelId| {
            let is_known =
                of_agents().any(|other| other == model) || self.0.models.iter().any(|offer| offer.has(model));
            is_known && self.0.engine.facts(model).is_some()
        };
        let full = name.parse::<ModelId>().ok();
        let of_provider = format!("{provider}/{name}").parse::<ModelId>().ok();
        let known = of_agents().chain(self.0.models.iter().filter_map(ModelOffer::named));
        let of_any = known.filter(|model| model.name() == name).cloned();
        let found = full.into_iter().chain(of_provider).chain(of_any).find(is_offered);
        found.map(Answerer::Model).ok_or_else(|| {
            let there = instead(name, of_agents(), &self.0.models);
            let agents: Vec<&str> =
                self.0.engine.agents().map(|(agent, _)| agent).filter(|agent| *agent != GATEWAY_AGENT).collect();
            let why = format!(
                "The model `{name}` is not offered; choose one of: {there}; or an agent: {}.",
                agents.join(", ")
            );
            Problem::new(ProblemKind::NotFound, why).at("model")
        })
    }

    /// Refuses settings that would change the answer and that the model's provider has no field for.
    /// `wire` is the format in which tools of providers are defined.
    pub(crate) fn refuse_unmet(
        &self,
        answerer: &Answerer,
        settings: &TurnSettings,
        wire: WireFormat,
    ) -> Result<(), Problem> {
        let model = match answerer {
            Answerer::Model(model) => Some(model),
            Answerer::Agent(name) => {
                let found = self.0.engine.agents().find(|(agent, _)| agent == name);
                found.and_then(|(_, agent)| agent.models.first())
            }
        };
        let Some(target) = model.and_then(|model| self.0.engine.facts(model)).map(|facts| facts.target) else {
            return Ok(());
        };
        let unmet = |field: &str| {
            let why = format!("`{field}` cannot be met: the provider of this model has nothing like it. Leave it out.");
            Err(Problem::new(ProblemKind::Invalid, why).at(field))
        };
        if !settings.sampling.stop.is_empty() && !target.takes_stop {
            return unmet("stop");
        }
        if settings.format == OutputFormat::JsonObject && target.wire == WireFormat::Anthropic {
            return unmet("response_format");
        }
        if target.wire != wire && settings.tools.iter().any(|tool| tool.provider_defined.is_some()) {
            return unmet("tools");
        }
        Ok(())
    }

    /// The chat that a request is answered in, if it is created now.
    pub(crate) fn request_chat(&self, caller: &Caller, answerer: &Answerer, key: String) -> NewChat {
        let (agent, model) = match answerer {
            Answerer::Model(model) => (GATEWAY_AGENT, Some(model.clone())),
            Answerer::Agent(agent) => (agent.as_str(), None),
        };
        NewChat {
            model: Chosen::of(model.map(Some), None),
            internal: true,
            key: Some(key),
            ..NewChat::of(self.0.engine.new_id(), agent, caller.owner())
        }
    }

    /// The chat that was created under the key of this one.
    pub(crate) async fn found(&self, new: &NewChat) -> Result<Option<Heading>, Problem> {
        let Some(chat) = self.0.store.keyed(&new.owner, new.key.as_deref().unwrap_or_default()).await? else {
            return Ok(None);
        };
        match self.0.store.heading(chat).await {
            Ok(heading) => Ok(Some(heading)),
            Err(StoreError::NoSuchChat) => Ok(None), // Deleted meanwhile.
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a generation.
    pub(crate) async fn answer_request(
        &self,
        caller: &Caller,
        new: &NewChat,
        conversation: &[Body],
        settings: Arc<TurnSettings>,
    ) -> Result<ChatId, Problem> {
        let starter = self.0.starting.enter(caller.owner(), new.id);
        let line = starter.line();
        let others = self.0.store.working(caller.owner(), &line).await?;
        if line.len() + others > self.0.limits.running_max {
            let why = "Too many of your chats are running; wait until one is done, or interrupt one.";
            return Err(Problem::new(ProblemKind::TooMany, why));
        }
        Ok(self.0.engine.answer_request(new, conversation, settings).await?.id())
    }

    /// Messages of a chat after one. The caller has checked the owner.
    pub(crate) async fn messages_after(
        &self,
        chat: ChatId,
        after: MessageId,
        len: usize,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        self.0.store.messages(chat, MessageRange::After(after, len)).await
    }

    /// Notes that a client has the answer whole: the generation's chat is archived.
    pub(crate) async fn mark_delivered(&self, chat: ChatId) -> Result<(), SubmitError> {
        self.0.engine.chat(chat).archive().await.map(drop)
    }

    /// Deletes generations that ended longer ago than they are kept. Returns how many.
    pub(crate) async fn delete_old_generations(&self) -> Result<usize, StoreError> {
        let before =
            Timestamp(self.0.now().0 - i64::try_from(self.0.limits.generations_kept.as_millis()).unwrap_or(i64::MAX));
        let after = Some((before, ChatId::from_u128(u128::MAX)));
        let query = ChatQuery { internal: Some(true), after, len: SWEEP_LEN, ..ChatQuery::default() };
        let mut deleted = 0;
        for heading in self.0.store.headings(&query).await? {
            if matches!(heading.status, Status::Idle | Status::Failed) {
                match self.0.engine.chat(heading.id).delete().await {
                    Ok(()) => deleted += 1,
                    Err(StoreError::NoSuchChat) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(deleted)
    }
}

/// Deletes old generations until the server stops.
pub(crate) async fn sweep(app: SharedApp) {
    let stop = app.shutdown.clone();
    let pause = app.limits.generations_kept.clamp(SWEEP_PAUSE_MIN, SWEEP_EVERY);
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        match Generations(&app).delete_old_generations().await {
            Ok(0) => {}
            Ok(deleted) => tracing::debug!(deleted, "old generations deleted"),
            Err(error) => tracing::warn!(%error, "old generations not deleted; trying again in a minute"),
        }
    }
}
