//! How full the window is, and what to do before it is too full.
//!
//! A request that is too long is refused, and with it the turn. The usage of the previous request does not tell: one
//! large tool result can lie between. So the *next* request is measured before it is sent, with a ratio of bytes to
//! tokens learnt from what the provider last counted, against a limit that the provider told or the model's facts do;
//! and when it comes too near, the transcript is compacted first, in stages, until it fits or cannot.

mod compaction;
mod discover;
mod earlier;
mod gauge;
pub mod summary;
#[cfg(test)]
mod tests;

pub use compaction::{
    Compaction, CompactionFallback, CompactionInput, CompactionThreshold, CompactionTrigger, PromptTooLong, compaction,
};
pub use discover::{limit_in, limit_in_meta};
pub use earlier::{cut_earlier, spare_bytes};
pub use gauge::{PromptSize, TokenGauge, size_of_body, size_of_output, size_of_parts};
