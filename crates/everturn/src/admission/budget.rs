//! Budgets of owners, and what they have used.

use std::collections::BTreeMap;

use everturn_core::budget::{Budget, BudgetAccount, BudgetUse, Day};
use everturn_core::chat::Chat;
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

/// What the chat that a person began has used together with all chats of sub-agents below it: `chat` or one above it.
pub(crate) async fn used_with_sub_agents(shared: &Shared, chat: &Chat) -> Result<BudgetUse, StoreError> {
    match chat.parent.as_ref().and_then(|parent| parent.above.first()) {
        None => Ok(chat.totals.used().plus(shared.store.used_below(chat.id).await?)),
        Some(top) => {
            let totals = shared.store.standing(top.chat).await?.totals;
            Ok(totals.used().plus(shared.store.used_below(top.chat).await?))
        }
    }
}

/// The budget of an owner, and what is used of it by now.
pub(crate) async fn account(shared: &Shared, owner: &str) -> Result<BudgetAccount, StoreError> {
    let today = Day::of(shared.clock.now());
    let day = shared.store.used(owner, today..=today).await?;
    let month = shared.store.used(owner, today.first_of_month()..=today).await?;
    Ok(BudgetAccount { budget: *shared.budgets.of(owner), day, month })
}
