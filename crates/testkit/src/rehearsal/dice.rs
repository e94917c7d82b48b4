//! Chance, handed in.

/// A number that is used up choice by choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dice(u64);

impl Dice {
    /// The choices that `number` stands for.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// One of `0..sides`; always 0 once the number is used up.
    pub const fn below(&mut self, sides: u64) -> u64 {
        let rolled = self.0 % sides;
        self.0 /= sides;
        rolled
    }

    /// One of `things`, if there is any.
    pub fn pick<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        let sides = u64::try_from(things.len()).unwrap_or(u64::MAX).max(1);
        things.get(self.below(sides) as usize)
    }
}
