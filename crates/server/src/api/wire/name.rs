//! Enumerations of the API.

use everturn::core::command;
use everturn::core::delta;
use everturn::core::message::{self, SummarySource};
use everturn::core::status;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
    ($($(#[$doc:meta])* $wire:ident of $core:path { $($(#[$each:meta])* $variant:ident),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $wire { $($(#[$each])* $variant),+ }

        impl From<$core> for $wire {
            fn from(core: $core) -> Self {
                use $core as Core;
                match core { $(Core::$variant => Self::$variant),+ }
            }
        }

        impl From<$wire> for $core {
            fn from(wire: $wire) -> Self {
                use $core as Core;
                match wire { $($wire::$variant => Core::$variant),+ }
            }
        }
    )+};
}

words! {
    /// The status of a chat.
    Status of status::Status {
        /// No turn; waits for a message.
        Idle,
        /// A turn is under way.
        Running,
        /// A turn is being stopped; the part of the answer that was shown is being stored.
        Interrupting,
        /// A turn waits for a client tool or an approval.
        Awaiting,
        /// The last turn ended with an error.
        Failed,
    }
    /// When a busy chat delivers a message to the model.
    When of command::Delivery {
        /// After the turn.
        Queue,
        /// At the next step boundary.
        Steer,
        /// Now: the turn is interrupted first.
        Now,
    }
    /// How a call ended.
    Verdict of message::CallVerdict {
        /// The tool succeeded.
        Done,
        /// It failed.
        Error,
        /// A user or a rule denied it.
        Denied,
        /// It was stopped, or never started, because the turn was interrupted.
        Interrupted,
        /// It was started, and its outcome is not known.
        Unknown,
    }
    /// Where a tool runs.
    RunBy of message::RunBy {
        /// In the application: this server, or a client that sends the result.
        #[serde(rename = "application", alias = "us")]
        Us,
        /// At the provider, during its answer.
        Provider,
    }
    /// Why an attempt is made.
    Rung of delta::Rung {
        /// The first attempt of the step.
        First,
        /// Resumes the same generation where its stream was lost.
        Reattach,
        /// A new generation that continues the shown part of the answer.
        Continue,
        /// A new generation from the beginning.
        Restart,
        /// Another model.
        FallBack,
    }
    /// Why a summary was made.
    SourceOfSummary of SummarySource {
        /// The next request would have come too near the limit.
        Automatic,
        /// A user requested it.
        Asked,
        /// The provider refused a request as too long.
        Overflow,
    }
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// A client runs the tool and sends the result.
    Result,
    /// A user approves or denies the call.
    Approval,
    /// A user answers a question of the tool, which is the `input`.
    Answer,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C10: a call that the server or a client runs says `application`; what earlier builds wrote is still read.
    #[test]
    fn calls_say_where_they_run() {
        let written = [RunBy::Us, RunBy::Provider].map(|run_by| serde_json::to_string(&run_by).unwrap());
        assert_eq!(written, [r#""application""#, r#""provider""#]);
        for (word, read) in [("application", RunBy::Us), ("us", RunBy::Us), ("provider", RunBy::Provider)] {
            assert_eq!(serde_json::from_str::<RunBy>(&format!("{word:?}")).unwrap(), read);
        }
    }
}
