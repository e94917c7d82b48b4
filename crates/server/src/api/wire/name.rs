//! Words for things that are one of a few.

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
    /// Where a chat stands.
    Status of status::Status {
        /// Nothing to do until somebody speaks.
        Idle,
        /// A turn is under way.
        Running,
        /// A turn is being stopped; what was shown is being kept.
        Interrupting,
        /// A turn waits for a client tool or an approval.
        Awaiting,
        /// The last turn ended with an error.
        Failed,
    }
    /// When a message is to be heard by a busy chat.
    When of command::Delivery {
        /// After the turn.
        Queue,
        /// At the next step boundary.
        Steer,
        /// Now: the turn is interrupted first.
        Now,
    }
    /// How a call went.
    Verdict of message::CallVerdict {
        /// The tool did its work.
        Done,
        /// It failed.
        Error,
        /// A person refused it.
        Denied,
        /// It was stopped, or never started, because the turn was interrupted.
        Interrupted,
        /// It was started and nobody knows how it ended.
        Unknown,
    }
    /// Who runs a tool.
    RunBy of message::RunBy {
        /// The application: this server, or the client that is asked for a result.
        #[serde(rename = "application", alias = "us")]
        Us,
        /// The provider, while it answers.
        Provider,
    }
    /// Why an attempt is made.
    Rung of delta::Rung {
        /// The step's first one.
        First,
        /// The same generation, taken up where it was lost.
        Reattach,
        /// A new generation that goes on from what was shown.
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
        /// Somebody asked.
        Asked,
        /// The provider refused a request as too long.
        Overflow,
    }
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// A client runs the tool and sends what came of it.
    Result,
    /// A person allows or denies the call.
    Approval,
}
