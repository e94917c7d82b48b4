//! What can come of asking a daemon.

use std::path::PathBuf;

use everturn_server::DataError;
use everturn_server::wire::ProblemBody;
use reqwest::StatusCode;

/// A request was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing runs on the data directory.
    #[error("no daemon runs on {}", .0.display())]
    NoDaemon(PathBuf),
    /// Nothing listens where one was said to be.
    #[error("no server answers at {at}: {why}; start one there with `everturn serve`, or check the address")]
    Away {
        /// The address.
        at: String,
        /// What the system says.
        why: String,
    },
    /// The way there is broken.
    #[error("the daemon does not answer: {}", cause(.0))]
    Connection(reqwest::Error),
    /// It took too long.
    #[error("{0} does not answer in time")]
    Late(String),
    /// The daemon says why not.
    #[error("{}", .0.detail)]
    Problem(Box<ProblemBody>),
    /// Something that is no daemon of ours answers.
    #[error("{0} was answered, and not by an everturn daemon: is the address right?")]
    Strange(StatusCode),
    /// An answer of ours that cannot be read.
    #[error("the answer cannot be read: is the daemon of another version?")]
    Malformed(#[source] serde_json::Error),
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The system has no chance to give.
    #[error("no name can be made for a command")]
    Chance(#[source] std::io::Error),
}

/// The first cause of an error, without what lies between: those are layers of ours.
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
    /// Whether the same may work later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoDaemon(_) | Self::Connection(_) | Self::Late(_) => true,
            Self::Problem(problem) => matches!(problem.status, 408 | 503),
            // A proxy whose server is away.
            Self::Strange(status) => matches!(status.as_u16(), 502..=504),
            Self::Away { .. } | Self::Malformed(_) | Self::Data(_) | Self::Chance(_) => false,
        }
    }

    /// Whether nobody can have heard the request.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::NoDaemon(_) => true,
            Self::Connection(error) => error.is_connect(),
            _ => false,
        }
    }

    /// The problem's name, behind `urn:everturn:problem:`.
    pub fn kind(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => problem.kind.strip_prefix("urn:everturn:problem:"),
            _ => None,
        }
    }
}
