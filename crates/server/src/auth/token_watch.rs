//! Whether the tokens of open streams are still good.
//!
//! Each token is asked about every few seconds, however many streams it has: a thousand of one token cost as much as one,
//! and all of them end together. Whoever reads is told why; whoever does not read cannot be, and is cut a moment later.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use everturn::core::ids::Timestamp;
use everturn::stores::{Token, TokenHash};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::app::Shared;

/// How long a stream whose token is over has to say so.
const FAREWELL: Duration = Duration::from_secs(1);

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
    pub fn of(&self, app: &Shared, token: &Token) -> Arc<Check> {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner); // Every change is made whole.
        if let Some(check) = checks.get(&token.hash).and_then(Weak::upgrade).filter(|check| !check.over.is_cancelled())
        {
            return check;
        }
        if checks.len() >= 64 && checks.len().is_power_of_two() {
            checks.retain(|_, check| check.strong_count() > 0);
        }
        let over = app.shutdown.child_token();
        // If it panics, nobody knows whether the token is good.
        let guard = over.clone().drop_guard();
        let asks = tokio::spawn(ask(app.clone(), token.clone(), guard));
        let check = Arc::new(Check { over, _asks: AbortOnDropHandle::new(asks) });
        checks.insert(token.hash, Arc::downgrade(&check));
        check
    }
}

impl Check {
    /// Fires when the token is not good any more, and when the server goes down.
    pub const fn over(&self) -> &CancellationToken {
        &self.over
    }
}

/// When an answer is cut whose token is over, if it has not ended by itself. A part of the answer: whoever has the connection
/// sees to it.
#[derive(Clone)]
pub struct Ends {
    over: CancellationToken,
    shutdown: CancellationToken,
}

impl Ends {
    /// With the token of this check.
    pub fn with(check: &Check, app: &Shared) -> Self {
        Self { over: check.over.clone(), shutdown: app.shutdown.clone() }
    }

    /// Waits until it has to be cut.
    pub async fn due(self) {
        self.over.cancelled().await;
        if self.shutdown.is_cancelled() {
            pending().await // Requests under way have a time of their own then.
        }
        sleep(FAREWELL).await;
    }
}

/// Asks until the token is not good any more.
async fn ask(app: Shared, token: Token, _over: DropGuard) {
    tokio::select! {
        biased;
        () = expired(&app, token.expires) => {}
        () = revoked(&app, &token.hash) => {}
    }
}

/// That needs no store to know, and so does not wait for one that is away.
async fn expired(app: &Shared, expires: Option<Timestamp>) {
    let Some(expires) = expires else { return pending().await };
    while app.now() < expires {
        sleep(expires.since(app.now()).min(app.bounds.recheck)).await; // The wall clock may be set meanwhile.
    }
}

/// A store that cannot be asked is not a reason to cut everybody.
async fn revoked(app: &Shared, token: &TokenHash) {
    loop {
        sleep(app.bounds.recheck).await;
        if matches!(app.token(token).await, Ok(None)) {
            return;
        }
    }
}
