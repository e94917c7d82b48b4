//! Words for things that are one of a few.
//!
//! Each is stored by its name in the core, as it was when version 1 was made. Renaming one there leaves its word here.

use everturn_core::chat::{Effect, TranscriptTail};
use everturn_core::command::Delivery;
use everturn_core::delta::Rung;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::message::{CallVerdict, RunBy, SummarySource};
use everturn_core::prompt::Effort;
use everturn_core::status::{Status, Verb};
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($($shape:ident of $core:ident { $($variant:ident),+ })+) => {$(
        #[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(super) enum $shape { $($variant),+ }

        impl From<$core> for $shape {
            fn from(core: $core) -> Self {
                match core { $($core::$variant => Self::$variant),+ }
            }
        }

        impl From<$shape> for $core {
            fn from(shape: $shape) -> Self {
                match shape { $($shape::$variant => Self::$variant),+ }
            }
        }
    )+};
}

words! {
    StatusWord of Status { Idle, Running, Interrupting, Awaiting, Failed }
    VerbWord of Verb {
        Send, Steer, SendNow, Promote, Unqueue, Interrupt, Answer, Edit, Compact, Archive, Unarchive, Rename, Begin, Commit, Ask,
        Resume, Settle, Finish, Fail
    }
    KindWord of ErrorKind {
        Overloaded, RateLimit, Timeout, Silence, Truncated, Auth, MissingKey, UsageLimit, Config, ContextFull,
        ContentFilter, ProviderDisabled, ChainBroken, Malformed, Generic, Budget, Quarantine
    }
    CauseWord of Cause {
        Refused, Reset, GoAway, IdleStall, ServerError, Truncated, ErrorFinish, Malformed, Resumed
    }
    TailWord of TranscriptTail { Nothing, Input, Reply, CutReply, FilteredReply, EmptyReply, StoppedReply }
    EffectWord of Effect { Read, Idempotent, Once }
    WhenWord of Delivery { Queue, Steer, Now }
    RungWord of Rung { First, Reattach, Continue, Restart, FallBack }
    RunByWord of RunBy { Us, Provider }
    VerdictWord of CallVerdict { Done, Error, Denied, Interrupted, Unknown }
    EffortWord of Effort { None, Minimal, Low, Medium, High, XHigh, Max }
    SourceWord of SummarySource { Automatic, Asked, Overflow }
}
