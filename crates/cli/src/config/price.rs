//! Prices of models in the configuration file, and warnings about cost limits that have no effect.
//!
//! A model without a known price is accounted as free, so a cost limit would not stop it. The operator is
//! warned where that can be known.

use std::collections::BTreeMap;

use anyhow::Context as _;
use everturn::core::ids::ModelId;
use everturn::providers::catalogue::PriceCard;
use serde::Deserialize;

use super::money::Money;
use super::{AGENT, Config};

/// Prices, by prefix of the model's name.
pub type Prices = BTreeMap<String, Price>;

/// Price per million tokens.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: Money,
    pub output: Money,
    /// Prompt tokens read from the provider's cache; as `input` if left out.
    pub cache_read: Option<Money>,
    /// Prompt tokens written to that cache; as `input` if left out.
    pub cache_write: Option<Money>,
}

impl From<Price> for PriceCard {
    fn from(Price { input, output, cache_read, cache_write }: Price) -> Self {
        let micros = |Money(micros): Money| micros.0;
        Self {
            input: micros(input),
            output: micros(output),
            cache_read: cache_read.map(micros),
            cache_write: cache_write.map(micros),
            above: None,
        }
    }
}

/// The prices by model.
pub fn by_model(prices: &Prices) -> anyhow::Result<BTreeMap<ModelId, Price>> {
    let model = |(name, price): (&String, &Price)| {
        let model = name.parse().with_context(|| format!("`{name}` in `prices`"))?;
        Ok((model, *price))
    };
    prices.iter().map(model).collect()
}

impl Config {
    /// Warnings for the operator: cost limits without effect, and parameters that are not sent.
    pub fn warnings(&self, usual: &ModelId) -> Vec<String> {
        let mut warnings = self.unbound(usual);
        warnings.extend(self.untaken(usual));
        warnings
    }

    /// Warnings about cost limits without effect: the model's price is unknown, and no token limit stands
    /// beside them. `usual` is the model of the default agent.
    fn unbound(&self, usual: &ModelId) -> Vec<String> {
        let company = self.company();
        let mut bounds: BTreeMap<ModelId, Vec<String>> = BTreeMap::new();
        let budgets = self.unbound_budgets();
        let mut tell = |model: &ModelId, unbound: Option<String>| {
            if !company.is_priced(model) {
                bounds.entry(model.clone()).or_insert_with(|| budgets.clone()).extend(unbound);
            }
        };
        let turn = |agent: &str| format!("the turn_cost_max of the agent `{agent}`");
        for model in self.fallbacks.iter().chain([usual]) {
            tell(model, self.usual.turns().is_cost_alone().then(|| turn(AGENT)));
        }
        for (name, profile) in &self.agents {
            let models = profile.fallbacks.iter().chain([&profile.model]);
            for model in models.filter_map(|model| model.parse().ok()) {
                tell(&model, profile.turns().is_cost_alone().then(|| turn(name)));
            }
        }
        self.models.value.iter().for_each(|model| tell(model, None));
        let told = bounds.into_iter().filter(|(_, bounds)| !bounds.is_empty());
        told.map(|(model, bounds)| warning(&model, &bounds)).collect()
    }

    /// Cost limits of budgets that need a price to have an effect.
    fn unbound_budgets(&self) -> Vec<String> {
        let usual = self.budget.costs_alone().into_iter().map(|name| format!("{name} in [budget]"));
        let own = self.owners.iter().flat_map(|(owner, budget)| {
            budget.costs_alone().into_iter().map(move |name| format!("{name} of the owner `{owner}`"))
        });
        usual.chain(own).collect()
    }
}

fn warning(model: &ModelId, bounds: &[String]) -> String {
    let (which, do_not) = (bounds.join(", "), if bounds.len() == 1 { "does not" } else { "do not" });
    format!(
        "the price of {model} is unknown, so {which} {do_not} stop its turns: \
         set it in [prices.\"{model}\"], 0 if it is free, or limit tokens as well"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    const LAB: &str = "[providers.lab]\nwire = \"chat\"\nurl = \"https://lab.example/v1\"\n";

    fn unbound(text: &str) -> Vec<String> {
        read(Flags::default(), &[], text).unwrap().unbound(&"lab/qwen-3".parse().unwrap())
    }

    #[test]
    fn a_cost_limit_without_effect_is_a_warning() {
        let price = "[prices.\"lab/qwen\"]\ninput = 0.5\noutput = 1.5\n";
        let agent = "[agents.a]\nmodel = \"openrouter/x/y\"\nturn_cost_max = 0.5\n";
        for (text, told) in [
            (String::new(), vec![]),
            ("[budget]\nday_cost_max = 2".into(), vec![("lab/qwen-3", "so day_cost_max in [budget] does not stop")]),
            ("turn_cost_max = 2".into(), vec![("lab/qwen-3", "so the turn_cost_max of the agent `default` does not")]),
            (format!("{agent}{price}"), vec![("openrouter/x/y", "so the turn_cost_max of the agent `a` does not")]),
            (
                "[owners.al]\nmonth_cost_max = 2\nchat_cost_max = 1".into(),
                vec![("lab/qwen-3", "chat_cost_max of the owner `al`, month_cost_max of the owner `al` do not stop")],
            ),
            (
                "models = [\"ollama/a\"]\n[budget]\nchat_cost_max = 2".into(),
                vec![("lab/qwen-3", "chat_cost_max in"), ("ollama/a", "chat_cost_max in")],
            ),
            (format!("[budget]\nday_cost_max = 2\n{price}"), vec![]),
            ("[budget]\nday_cost_max = 2\nday_tokens_max = 9".into(), vec![]),
            ("[budget]\nmonth_cost_max = 2\nday_tokens_max = 9".into(), vec![]),
            ("[budget]\nchat_cost_max = 2\nchat_tokens_max = 9".into(), vec![]),
            ("[budget]\nday_cost_max = 2\nchat_tokens_max = 9".into(), vec![("lab/qwen-3", "day_cost_max")]),
            ("turn_cost_max = 2\nturn_tokens_max = 9".into(), vec![]),
            ("fallbacks = [\"anthropic/claude-sonnet-4-5\"]\n[prices.\"lab/q\"]\ninput = 0\noutput = 0\n[budget]\nday_cost_max = 1".into(), vec![]),
        ] {
            let warnings = unbound(&format!("{text}\n{LAB}"));
            assert_eq!(warnings.len(), told.len(), "{text}: {warnings:?}");
            for (warning, (model, said)) in warnings.iter().zip(told) {
                assert!(warning.contains(model) && warning.contains(said), "{text}: {warning}");
            }
        }
    }

    #[test]
    fn prices_are_in_dollars() {
        let text = "[prices.\"lab/qwen\"]\ninput = 0.5\noutput = 1.5\ncache_read = 0.05\n";
        let company = read(Flags::default(), &[], text).unwrap().company();
        let price =
            PriceCard { input: 500_000, output: 1_500_000, cache_read: Some(50_000), cache_write: None, above: None };
        assert_eq!(company.prices, BTreeMap::from([("lab/qwen".parse().unwrap(), price)]));
        for (text, said) in [
            ("[prices.qwen]\ninput = 1\noutput = 1", "`qwen` in `prices`"),
            ("[prices.\"lab/qwen\"]\ninput = 1", "missing field `output`"),
            ("[prices.\"lab/qwen\"]\ninput = 1\noutput = 1\ncahce_read = 1", "did you mean `cache_read`?"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
