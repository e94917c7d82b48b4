//! Models that a chat may choose beside those of the agents.
//!
//! Every client with the scope to chat may choose a model, and the operator pays. So the models are a configured list, and
//! no other is used.

use everturn::core::command::ModelChoice;
use everturn::core::ids::ModelId;

use crate::api::problem::Problem;

/// A model, or a set of models, that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelOffer {
    /// This model.
    Model(ModelId),
    /// Every model of the provider whose name begins with this one's.
    Family(ModelId),
    /// Every model of this provider.
    All(String),
}

impl ModelOffer {
    /// Whether the model is this one, or in this set.
    #[must_use]
    pub fn has(&self, model: &ModelId) -> bool {
        match self {
            Self::Model(offered) => offered == model,
            Self::Family(family) => family.provider() == model.provider() && model.name().starts_with(family.name()),
            Self::All(provider) => provider == model.provider(),
        }
    }

    /// The model that the entry names, if it is a full name.
    #[must_use]
    pub fn named(&self) -> Option<&ModelId> {
        match self {
            Self::Model(model) => Some(model),
            Self::Family(family) => Some(family).filter(|family| !family.name().ends_with(['-', '.', ':'])),
            Self::All(_) => None,
        }
    }
}

/// A model that a request names for a chat.
#[derive(Debug)]
pub enum ModelPick {
    /// An offered model.
    Allowed(ModelChoice),
    /// A model that is not offered, and the problem to answer with. A repeat of a request from when it was offered is
    /// answered as before.
    Missing(ModelId, Problem),
}

impl ModelPick {
    /// The model, and the problem if it is not offered.
    pub fn split(self) -> (ModelChoice, Option<Problem>) {
        match self {
            Self::Allowed(choice) => (choice, None),
            Self::Missing(model, problem) => (ModelChoice::Own(model), Some(problem)),
        }
    }
}

/// The offered models to list in a problem: those of the wanted provider, or all.
pub fn instead<'a>(wanted: &str, agents: impl Iterator<Item = &'a ModelId>, offered: &'a [ModelOffer]) -> String {
    let provider = wanted.split(['/', ':']).next().unwrap_or_default();
    let mut models: Vec<&ModelId> = agents.chain(offered.iter().filter_map(ModelOffer::named)).collect();
    models.sort_unstable();
    models.dedup();
    if models.iter().any(|model| model.provider() == provider) {
        models.retain(|model| model.provider() == provider);
    }
    let whatever = offered.iter().filter_map(|offered| match offered {
        ModelOffer::All(provider) => Some(format!("{provider}/…")),
        ModelOffer::Model(_) | ModelOffer::Family(_) => None,
    });
    models.iter().map(ToString::to_string).chain(whatever).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> ModelId {
        text.parse().unwrap()
    }

    #[test]
    fn only_what_is_offered_can_be_chosen() {
        let [one, family] = [ModelOffer::Model(model("a/one")), ModelOffer::Family(model("a/two"))];
        let all = ModelOffer::All("b".into());
        for (offered, wanted, is_taken) in [
            (&one, "a/one", true),
            (&one, "a/one-more", false),
            (&family, "a/two-2026", true),
            (&family, "b/two-2026", false),
            (&all, "b/anything", true),
            (&all, "a/anything", false),
        ] {
            assert_eq!(offered.has(&model(wanted)), is_taken, "{wanted}: {offered:?}");
        }
    }

    #[test]
    fn offered_models_are_listed_instead() {
        let agents = [model("a/one"), model("c/mine")];
        let offered =
            [ModelOffer::Family(model("a/two")), ModelOffer::Family(model("a/gpt-")), ModelOffer::All("b".into())];
        let said = |wanted| instead(wanted, agents.iter(), &offered);
        assert_eq!(said("a/three"), "a/one, a/two, b/…", "those of that provider, if it is here");
        assert_eq!(said("nothing"), "a/one, a/two, c/mine, b/…");
    }
}
