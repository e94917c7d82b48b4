//! Before a model is asked: may its chat and its owner still pay?

use std::collections::BTreeMap;

use everturn_core::budget::{Budget, Day, Exhausted, Used};
use everturn_core::error::{Kind, ProviderError};
use everturn_stores::{StoreError, WriteError};

use crate::driver::Driver;

/// What owners may use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    /// Everybody's whom nobody named.
    pub(crate) usual: Budget,
    pub(crate) owners: BTreeMap<String, Budget>,
}

impl Budgets {
    fn of(&self, owner: &str) -> &Budget {
        self.owners.get(owner).unwrap_or(&self.usual)
    }
}

impl Driver {
    /// Ends the turn if its chat's or its owner's budget is used up, and says whether it was. Who waits goes on waiting.
    pub(crate) async fn is_broke(&mut self) -> Result<bool, WriteError> {
        let Some(exhausted) = self.exhausted().await? else { return Ok(false) };
        let provider = self.asked().map(|asked| asked.model.provider().to_owned()).unwrap_or_default();
        let error = ProviderError::new(provider, Kind::Budget).with_detail(&exhausted.to_string());
        self.fail(&error, None).await?;
        Ok(true)
    }

    async fn exhausted(&self) -> Result<Option<Exhausted>, StoreError> {
        let budget = self.ports.budgets.of(&self.chat.owner);
        if !budget.is_bounded() {
            return Ok(None);
        }
        let totals = &self.chat.totals;
        let chat = Used { tokens: totals.tally.total(), cost: totals.spend.total() };
        let today = Day::of(self.now());
        let day = self.used_since(today).await?;
        let month = self.used_since(today.first_of_month()).await?;
        Ok(budget.exhausted(chat, day, month))
    }

    async fn used_since(&self, first: Day) -> Result<Used, StoreError> {
        self.ports.store.used(&self.chat.owner, first..=Day::of(self.now())).await
    }
}
