//! Errors of the database, and retries.

use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::entropy;
use crate::shape::BadShape;
use crate::store::StoreError;

/// Error of a database operation.
#[derive(Debug)]
pub(crate) enum DbFault {
    /// Temporary: a retry may work. Whether a write in flight was applied is unknown.
    Passing(String),
    /// Retrying does not help: an operator has to act.
    Lasting(StoreError),
}

impl From<StoreError> for DbFault {
    fn from(error: StoreError) -> Self {
        Self::Lasting(error)
    }
}

impl From<BadShape> for DbFault {
    fn from(shape: BadShape) -> Self {
        Self::Lasting(shape.into())
    }
}

impl From<Error> for DbFault {
    fn from(error: Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return Self::Passing(format!("no connection to the database: {}", with_sources(&error)));
        };
        Self::said(said.code(), said.message())
    }
}

impl DbFault {
    /// What the database means by that.
    fn said(code: &SqlState, what: &str) -> Self {
        let class = code.code().get(..2).unwrap_or_default();
        let unavailable = |why: String| Self::Lasting(StoreError::Unavailable(why));
        if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) {
            return Self::Passing(what.into());
        }
        if *code == SqlState::QUERY_CANCELED {
            return unavailable(format!("the database took too long: look for what keeps it busy ({what})"));
        }
        // The second is the error of a standby for writes: another server may be the primary in a moment.
        if [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::FEATURE_NOT_SUPPORTED].contains(code) {
            return Self::Passing(format!("the database only reads: connect to the primary ({what})"));
        }
        match class {
            // The server stops, starts, or has no room for another connection.
            "08" | "57" => Self::Passing(format!("the database is not there: {what}")),
            "53" if *code == SqlState::TOO_MANY_CONNECTIONS => Self::Passing(what.into()),
            "53" => unavailable(format!("the database is out of room: free some ({what})")),
            "28" => unavailable(format!("the database does not let us in: check user and password ({what})")),
            // Of one page or one index. What lies elsewhere can still be read.
            "XX" if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => Self::Lasting(
                StoreError::Damaged(format!("a page of the database cannot be read ({what}): restore a backup")),
            ),
            "42" => unavailable(format!("the database lacks what we need: check its schema and grants ({what})")),
            _ => unavailable(format!("{what} ({})", code.code())),
        }
    }
}

/// An error with all that it came from: what tokio-postgres says alone is the least of it.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Retries an operation with growing pauses until a deadline.
pub(crate) struct RetryWindow {
    until: Instant,
    pause: Duration,
}

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

impl RetryWindow {
    pub(crate) fn new(span: Duration) -> Self {
        Self { until: Instant::now() + span, pause: PAUSE_MIN }
    }

    /// Runs `attempt` until it succeeds, fails for good, or the time is over.
    pub(crate) async fn run<T, F>(mut self, mut attempt: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, DbFault>>,
    {
        loop {
            match attempt().await {
                Ok(done) => return Ok(done),
                Err(fault) => self.wait(fault).await?,
            }
        }
    }

    /// Waits before the next try, or returns the error if there is none.
    pub(crate) async fn wait(&mut self, fault: DbFault) -> Result<(), StoreError> {
        match fault {
            DbFault::Lasting(error) => Err(error),
            DbFault::Passing(why) if Instant::now() + self.pause > self.until => Err(StoreError::Unavailable(why)),
            DbFault::Passing(why) => {
                tracing::debug!(why, "database operation failed; retrying");
                // Random, so that callers that failed at the same moment do not retry at the same moment.
                let chance = 0.5 + (entropy::number() % 1_000) as f64 / 1_000.0;
                tokio::time::sleep(self.pause.mul_f64(chance)).await;
                self.pause = (self.pause * 2).min(PAUSE_MAX);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_faults_are_told_from_lasting_ones() {
        for (code, passes) in [
            ("40001", true), // Two wanted the same, and the other was first.
            ("40P01", true), // A deadlock.
            ("40002", false),
            ("57014", false), // Too slow.
            ("57P01", true),  // The server stops.
            ("57P03", true),  // The server starts.
            ("08006", true),
            ("25006", true), // A standby.
            ("0A000", true),
            ("53300", true), // No more connections.
            ("53100", false),
            ("28P01", false),
            ("42P01", false),
            ("23503", false),
            ("XX000", false),
            ("", false),
        ] {
            let fault = DbFault::said(&SqlState::from_code(code), "what");
            assert_eq!(matches!(fault, DbFault::Passing(_)), passes, "{code}: {fault:?}");
        }
    }
}
