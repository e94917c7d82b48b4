//! Errors of requests to a daemon.

use std::path::PathBuf;

use everturn_server::DataError;
use everturn_server::wire::ProblemBody;
use reqwest::StatusCode;

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon is running on the data directory.
    #[error("no daemon runs on {}", .0.display())]
    NoDaemon(PathBuf),
    /// No server listens at the configured address.
    #[error("no server answers at {at}: {why}; start one there with `everturn serve`, or check the address")]
    Away {
        /// The address.
        at: String,
        /// The system's error.
        why: String,
    },
    /// The connection failed.
    #[error("the daemon does not answer: {}", cause(.0))]
    Connection(reqwest::Error),
    /// The answer took too long.
    #[error("{0} does not answer in time")]
    Late(String),
    /// The daemon refused the request, with the reason.
    #[error("{}", .0.detail)]
    Problem(Box<ProblemBody>),
    /// The answer is not from an everturn daemon.
    #[error("the server answered {0}, but is not an everturn daemon: check the address")]
    Strange(StatusCode),
    /// The answer cannot be parsed.
    #[error("the daemon's answer cannot be read: check that it has the same version")]
    Malformed(#[source] serde_json::Error),
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The system's random number generator failed.
    #[error("could not generate an idempotency key: no randomness")]
    Chance(#[source] std::io::Error),
}

/// The root cause of an error, without the layers of the HTTP client.
pub(super) fn cause(error: &reqwest::Error) -> String {
    if error.is_connect() && error.is_timeout() {
        return "no connection in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let cause = cause.to_string();
    cause.split(" (os error").next().unwrap_or_default().to_lowercase()
}

impl ClientError {
    /// Whether a retry may succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoDaemon(_) | Self::Connection(_) | Self::Late(_) => true,
            Self::Problem(problem) => matches!(problem.status, 408 | 503),
            // A proxy whose server is away.
            Self::Strange(status) => matches!(status.as_u16(), 502..=504),
            Self::Away { .. } | Self::Malformed(_) | Self::Data(_) | Self::Chance(_) => false,
        }
    }

    /// Whether the request cannot have reached the daemon.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::NoDaemon(_) => true,
            Self::Connection(error) => error.is_connect(),
            _ => false,
        }
    }

    /// The problem's name, after `urn:everturn:problem:`.
    pub fn kind(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => problem.kind.strip_prefix("urn:everturn:problem:"),
            _ => None,
        }
    }
}
