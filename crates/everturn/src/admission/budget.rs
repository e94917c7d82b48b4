//! Budgets of owners, and what they have used.

use std::collections::BTreeMap;

use everturn_core::budget::{Budget, BudgetAccount, Day};
use everturn_stores::StoreError;

use crate::process::Shared;

/// The budgets of all owners.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    /// For owners without a budget of their own.
    pub(crate) usual: Budget,
    pub(crate) owners: BTreeMap<String, Budget>,
}

impl Budgets {
    pub(crate) fn of(&self, owner: &str) -> &Budget {
        self.owners.get(owner).unwrap_or(&self.usual)
    }
}

/// The budget of an owner, and what is used of it by now.
pub(crate) async fn account(shared: &Shared, owner: &str) -> Result<BudgetAccount, StoreError> {
    let today = Day::of(shared.clock.now());
    let day = shared.store.used(owner, today..=today).await?;
    let month = shared.store.used(owner, today.first_of_month()..=today).await?;
    Ok(BudgetAccount { budget: *shared.budgets.of(owner), day, month })
}
