//! Whether the tokens of open streams are still good.
//!
//! Each token is asked about every few seconds, however many streams it has: a thousand of one token cost as much as one,
//! and all of them end together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use everturn::stores::TokenHash;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::app::Shared;

/// The checks of all tokens that have streams.
#[derive(Default)]
pub struct Checks(Mutex<HashMap<TokenHash, Weak<Check>>>);

/// What asks about one token, as long as somebody holds it.
pub struct Check {
    over: CancellationToken,
    _asks: AbortOnDropHandle<()>,
}

impl Checks {
    /// The check of a token that was good a moment ago.
    pub fn of(&self, app: &Shared, token: TokenHash) -> Arc<Check> {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner); // Every change is made whole.
        if let Some(check) = checks.get(&token).and_then(Weak::upgrade).filter(|check| !check.over.is_cancelled()) {
            return check;
        }
        if checks.len() >= 64 && checks.len().is_power_of_two() {
            checks.retain(|_, check| check.strong_count() > 0);
        }
        let over = app.shutdown.child_token();
        // If it panics, nobody knows whether the token is good.
        let guard = over.clone().drop_guard();
        let asks = tokio::spawn(ask(app.clone(), token, guard));
        let check = Arc::new(Check { over, _asks: AbortOnDropHandle::new(asks) });
        checks.insert(token, Arc::downgrade(&check));
        check
    }
}

impl Check {
    /// Fires when the token is not good any more, and when the server goes down.
    pub const fn over(&self) -> &CancellationToken {
        &self.over
    }
}

/// Asks until the token is not good any more. A store that cannot be asked is not a reason to cut everybody.
async fn ask(app: Shared, token: TokenHash, _over: tokio_util::sync::DropGuard) {
    loop {
        tokio::time::sleep(app.bounds.recheck).await;
        if matches!(app.token(&token).await, Ok(None)) {
            return;
        }
    }
}
