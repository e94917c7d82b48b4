//! Repeated checks of the tokens of open streams.
//!
//! Each token is looked up every few seconds, however many streams it has: a thousand streams of one token cost as much
//! as one, and all of them end together. A stream sends the reason; `net::slow_reader` cuts a client that does not read a
//! moment later.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use everturn::core::ids::Timestamp;
use everturn::stores::{Token, TokenHash};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::app::SharedApp;

/// The checks of all tokens that have streams.
#[derive(Default)]
pub struct TokenWatches(Mutex<HashMap<TokenHash, Weak<TokenWatch>>>);

/// The repeated check of one token; stops when the last stream drops it.
pub struct TokenWatch {
    over: CancellationToken,
    _asks: AbortOnDropHandle<()>,
}

impl TokenWatches {
    /// The check of a token that was valid a moment ago.
    pub fn of(&self, app: &SharedApp, token: &Token) -> Arc<TokenWatch> {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner); // Every change is made whole.
        if let Some(check) = checks.get(&token.hash).and_then(Weak::upgrade).filter(|check| !check.over.is_cancelled())
        {
            return check;
        }
        if checks.len() >= 64 && checks.len().is_power_of_two() {
            checks.retain(|_, check| check.strong_count() > 0);
        }
        let over = app.shutdown.child_token();
        // If the task panics, the guard ends the streams: the token may be invalid.
        let guard = over.clone().drop_guard();
        let asks = tokio::spawn(ask(app.clone(), token.clone(), guard));
        let check = Arc::new(TokenWatch { over, _asks: AbortOnDropHandle::new(asks) });
        checks.insert(token.hash, Arc::downgrade(&check));
        check
    }
}

impl TokenWatch {
    /// Cancelled when the token is not valid any more, and when the server shuts down.
    pub const fn over(&self) -> &CancellationToken {
        &self.over
    }
}

/// Checks the token until it is not valid any more.
async fn ask(app: SharedApp, token: Token, _over: DropGuard) {
    tokio::select! {
        biased;
        () = expired(&app, token.expires) => {}
        () = revoked(&app, &token.hash) => {}
    }
}

/// Waits until the token expires. Uses no store, so it works while the store is unavailable.
async fn expired(app: &SharedApp, expires: Option<Timestamp>) {
    let Some(expires) = expires else { return pending().await };
    while app.now() < expires {
        sleep(expires.since(app.now()).min(app.limits.recheck)).await; // The wall clock may be set meanwhile.
    }
}

/// Waits until the token is revoked. An unavailable store does not end the streams.
async fn revoked(app: &SharedApp, token: &TokenHash) {
    loop {
        sleep(app.limits.recheck).await;
        if matches!(app.token(token).await, Ok(None)) {
            return;
        }
    }
}
