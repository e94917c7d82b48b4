//! Before a model is asked: may its owner still pay?

use std::collections::BTreeMap;

use everturn_core::budget::{Budget, Day, Exhausted, Used, Window};
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
    /// Ends the turn if its owner's budget is used up, and says whether it was. Who waits goes on waiting.
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
        let today = self.used(Window::Day).await?;
        let month = self.used(Window::Month).await?;
        Ok(budget.exhausted(today, month))
    }

    async fn used(&self, window: Window) -> Result<Used, StoreError> {
        let today = Day::of(self.now());
        let first = match window {
            Window::Day => today,
            Window::Month => today.first_of_month(),
        };
        self.ports.store.used(&self.chat.owner, first..=today).await
    }
}
