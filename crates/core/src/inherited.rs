//! What a power cut takes along.
//!
//! A delta is shown as soon as it outlives its process; to outlive a power cut takes the disk a moment longer. Whatever is
//! lost in that moment was seen by somebody, and the process that goes on gives its numbers to other deltas. So before it
//! adds any, it writes down how many it found. Whoever had seen more by then is told everything anew, and not the rest of
//! something else.

use crate::ids::{Seq, Version};
use crate::view::Cursor;

/// How far the open draft went whenever somebody took it up who had not written it.
///
/// All times but the last are kept as one, which at worst has a cursor refused that was good: a snapshot costs little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftTakeovers {
    /// The last time.
    pub last: TakeoverPoint,
    /// The times before that.
    pub before: TakeoverPoint,
}

/// How far a draft went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakeoverPoint {
    /// The commit that says so; none if it never happened.
    pub version: Version,
    /// The newest delta there was.
    pub seq: Seq,
}

impl DraftTakeovers {
    /// It is taken up once more.
    #[must_use]
    pub fn again(self, found: TakeoverPoint) -> Self {
        let before = match self.before.version {
            Version(0) => self.last,
            _ => TakeoverPoint { version: self.last.version, seq: self.last.seq.min(self.before.seq) },
        };
        Self { last: found, before }
    }

    /// Whether somebody who got this far in the draft may have seen what was lost.
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
    fn nobody_is_denied_who_lost_nothing() {
        assert!(!DraftTakeovers::default().denies(seen(0, u64::MAX)));
        let once = DraftTakeovers::default().again(found(5, 9));
        assert!(!once.denies(seen(4, 9)) && !once.denies(seen(5, 100)) && !once.denies(seen(6, 10)));
        assert!(once.denies(seen(4, 10)) && once.denies(seen(1, 10)));
    }

    /// Whoever read on between two cuts is judged by the second; whoever did not, by both.
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
