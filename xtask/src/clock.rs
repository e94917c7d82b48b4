//! How long a step took: the only place in the chores that reads a clock.

use std::fmt;
use std::time::{Duration, Instant};

/// Started when made, read as often as one likes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts counting now.
    #[expect(clippy::disallowed_methods, reason = "a chore measures real compilers and real tests")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn read(self) -> Elapsed {
        Elapsed(self.0.elapsed())
    }
}

/// A duration that prints the way a person says it: `4.2 s`, `3 min 07 s`.
#[derive(Debug, Clone, Copy)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.as_secs();
        if whole < 60 {
            return write!(f, "{:.1} s", self.0.as_secs_f64());
        }
        write!(f, "{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_speech() {
        assert_eq!(Elapsed(Duration::from_millis(4_230)).to_string(), "4.2 s");
        assert_eq!(Elapsed(Duration::from_secs(187)).to_string(), "3 min 07 s");
    }
}
