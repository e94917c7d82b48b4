//! Cursors that point past deltas lost in a power cut.
//!
//! A delta is shown as soon as it survives its process; to survive a power cut it needs a moment longer,
//! until the disk has it. Deltas lost in that moment were already shown, and the process that takes over
//! gives their numbers to other deltas. So before it adds any, it commits how many it found. A client with a
//! cursor past that point gets a new snapshot instead of the rest of a different answer.

use crate::ids::{Seq, Version};
use crate::view::Cursor;

/// Where the open draft's journal ended at each takeover by another process.
///
/// All takeovers but the last are merged into one, which at worst refuses a good cursor: a snapshot costs
/// little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftTakeovers {
    /// The last takeover.
    pub last: TakeoverPoint,
    /// The takeovers before that.
    pub before: TakeoverPoint,
}

/// Where a draft's journal ended at a takeover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakeoverPoint {
    /// The commit that recorded it; 0 if there was no takeover.
    pub version: Version,
    /// The newest delta found.
    pub seq: Seq,
}

impl DraftTakeovers {
    /// Adds a takeover.
    #[must_use]
    pub fn again(self, found: TakeoverPoint) -> Self {
        let before = match self.before.version {
            Version(0) => self.last,
            _ => TakeoverPoint { version: self.last.version, seq: self.last.seq.min(self.before.seq) },
        };
        Self { last: found, before }
    }

    /// Whether a reader at this cursor may have seen lost deltas.
    #[must_use]
    pub fn denies(&self, seen: Cursor) -> bool {
        let lost = |found: TakeoverPoint| seen.version < found.version && seen.seq > found.seq;
        lost(self.last) || lost(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StepId;

    fn seen(version: u64, seq: u64) -> Cursor {
        Cursor { version: Version(version), step: StepId(1), seq: Seq(seq) }
    }

    fn found(version: u64, seq: u64) -> TakeoverPoint {
        TakeoverPoint { version: Version(version), seq: Seq(seq) }
    }

    #[test]
    fn a_cursor_before_the_lost_deltas_stays_valid() {
        assert!(!DraftTakeovers::default().denies(seen(0, u64::MAX)));
        let once = DraftTakeovers::default().again(found(5, 9));
        assert!(!once.denies(seen(4, 9)) && !once.denies(seen(5, 100)) && !once.denies(seen(6, 10)));
        assert!(once.denies(seen(4, 10)) && once.denies(seen(1, 10)));
    }

    /// A cursor from between two takeovers is checked against the second; an older one against both.
    #[test]
    fn every_time_counts() {
        let twice = DraftTakeovers::default().again(found(5, 9)).again(found(8, 20));
        assert!(!twice.denies(seen(7, 20)) && twice.denies(seen(7, 21)));
        assert!(!twice.denies(seen(4, 9)) && twice.denies(seen(4, 10)), "its 10 was lost, and is another now");
        let often = twice.again(found(12, 30)).again(found(15, 40));
        assert!(!often.denies(seen(14, 40)) && often.denies(seen(14, 41)));
        for (version, lost) in [(4, 10), (7, 21), (11, 31)] {
            assert!(often.denies(seen(version, lost)), "of version {version}");
            assert!(!often.denies(seen(version, 9)), "what was there from the first is there");
        }
    }
}
