//! Before a model is asked: may its chat and its owner still pay?

use std::collections::BTreeMap;

use everturn_core::budget::{Budget, BudgetAccount, BudgetExhausted, BudgetUse, Day};
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_stores::{StoreError, WriteError};

use crate::drive::Driver;
use crate::engine::Ports;

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
        let error = ProviderError::new(provider, ErrorKind::Budget).with_detail(&exhausted.to_string());
        self.fail(&error, None).await?;
        Ok(true)
    }

    async fn exhausted(&self) -> Result<Option<BudgetExhausted>, StoreError> {
        let budget = self.ports.budgets.of(&self.chat.owner);
        if !budget.is_bounded() {
            return Ok(None);
        }
        let totals = &self.chat.totals;
        let (tokens, cost) = (totals.tally.total(), totals.spend.total());
        let chat = BudgetUse { steps: totals.steps, time: totals.time, alive: totals.alive, tokens, cost };
        let BudgetAccount { day, month, .. } = self.ports.account(&self.chat.owner).await?;
        Ok(budget.exhausted(chat, day, month))
    }
}

impl Ports {
    /// What an owner may use, and has used by now.
    pub(crate) async fn account(&self, owner: &str) -> Result<BudgetAccount, StoreError> {
        let today = Day::of(self.clock.now());
        let day = self.store.used(owner, today..=today).await?;
        let month = self.store.used(owner, today.first_of_month()..=today).await?;
        Ok(BudgetAccount { budget: *self.budgets.of(owner), day, month })
    }
}
