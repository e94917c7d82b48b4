//! Budgets of an owner: per chat, per day and per month.
//!
//! A turn has bounds of its own, and a thousand turns have a thousand times those. So an operator can bound
//! each chat and each owner too. Usage is counted with every attempt and result, on the day it began, and
//! with every reply, on the day it came, in UTC. The budget is checked before each attempt, so only work that
//! is already under way can overrun it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::alive::AliveSpans;
use crate::chat::Chat;
use crate::cost::Micros;
use crate::fact::Fact;
use crate::ids::Timestamp;
use crate::message::Body;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// A day, counted from the first of 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Day(pub i64);

impl Day {
    /// The day of a moment.
    #[must_use]
    pub const fn of(at: Timestamp) -> Self {
        Self(at.0.div_euclid(DAY_MILLIS))
    }

    /// The first day of its month.
    #[must_use]
    pub fn first_of_month(self) -> Self {
        const CYCLE: i64 = 146_097; // The calendar repeats after four hundred years.
        let (mut left, mut year) = (self.0.rem_euclid(CYCLE), 1970);
        while left >= 365 + i64::from(is_leap(year)) {
            left -= 365 + i64::from(is_leap(year));
            year += 1;
        }
        for month in [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if left < month {
                break;
            }
            left -= month;
        }
        Self(self.0 - left)
    }
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// What was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetUse {
    /// Replies.
    pub steps: u64,
    /// How long provider calls took, and tools that came back, each for itself. Between them nothing counts.
    pub time: Duration,
    /// How long turns were at work: provider calls, waits between their attempts and tools, together.
    pub alive: Duration,
    /// Prompt and output, reported and estimated.
    pub tokens: u64,
    /// What they cost, where the price is known.
    pub cost: Micros,
}

impl BudgetUse {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            time: self.time.saturating_add(other.time),
            alive: self.alive.saturating_add(other.alive),
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost.plus(other.cost),
        }
    }
}

/// What is used by a commit to a chat, by the day it counts on. Only a turn makes steps and runs tools: what is said to a
/// chat that rests was said before, in it or elsewhere.
#[must_use]
pub fn used(before: &Chat, facts: &[Fact]) -> BTreeMap<Day, BudgetUse> {
    let mut sums = BTreeMap::<Day, BudgetUse>::new();
    for fact in facts {
        let used = match fact {
            Fact::Attempted(row, _) => {
                let (tokens, cost) = (row.tally.total(), row.spend.total());
                Some((row.began, BudgetUse { time: row.took, tokens, cost, ..BudgetUse::default() }))
            }
            Fact::Said(message, _) if before.turn.is_some() => match &message.body {
                Body::Reply(_) => Some((message.at, BudgetUse { steps: 1, ..BudgetUse::default() })),
                Body::Result(result) => {
                    before.ran_here(result).map(|(began, time)| (began, BudgetUse { time, ..BudgetUse::default() }))
                }
                Body::User(_) | Body::Context(_) | Body::Summary(_) => None,
            },
            _ => None,
        };
        if let Some((began, used)) = used {
            let sum = sums.entry(Day::of(began)).or_default();
            *sum = sum.plus(used);
        }
    }
    for (began, alive) in AliveSpans::by(before, facts).spans {
        let sum = sums.entry(Day::of(began)).or_default();
        *sum = sum.plus(BudgetUse { alive, ..BudgetUse::default() });
    }
    sums
}

/// What may be used in one window. What is left out is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Steps.
    pub steps_max: Option<u64>,
    /// Time.
    pub time_max: Option<Duration>,
    /// Tokens.
    pub tokens_max: Option<u64>,
    /// Money.
    pub cost_max: Option<Micros>,
}

/// What an owner may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// In each chat, as long as it lives.
    pub chat: Allowance,
    /// From midnight to midnight.
    pub day: Allowance,
    /// From the first of a month to the first of the next.
    pub month: Allowance,
}

/// What an owner may use, and has used by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetAccount {
    /// What they may.
    pub budget: Budget,
    /// What all their chats have used since midnight.
    pub day: BudgetUse,
    /// And since the first of the month.
    pub month: BudgetUse,
}

/// How long a budget lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetWindow {
    /// As long as the chat.
    Chat,
    /// Until midnight.
    Day,
    /// Until the first of the next month.
    Month,
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetExhausted {
    /// So many steps were made, of so many.
    Steps(BudgetWindow, u64, u64),
    /// It worked so long, of so long.
    Time(BudgetWindow, Duration, Duration),
    /// So many tokens were used, of so many.
    Tokens(BudgetWindow, u64, u64),
    /// So much money was.
    Cost(BudgetWindow, Micros, Micros),
}

impl Budget {
    /// Whether anything is bounded at all.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        *self != Self::default()
    }

    /// Which part of it is used up by now, if any.
    #[must_use]
    pub fn exhausted(&self, chat: BudgetUse, day: BudgetUse, month: BudgetUse) -> Option<BudgetExhausted> {
        let windows = [
            (self.chat, BudgetWindow::Chat, chat),
            (self.day, BudgetWindow::Day, day),
            (self.month, BudgetWindow::Month, month),
        ];
        windows.into_iter().find_map(|(allowance, window, used)| allowance.exhausted(window, used))
    }
}

impl Allowance {
    fn exhausted(&self, window: BudgetWindow, used: BudgetUse) -> Option<BudgetExhausted> {
        let BudgetUse { steps, time, tokens, cost, alive: _ } = used;
        let of_steps = self.steps_max.filter(|max| steps >= *max).map(|max| BudgetExhausted::Steps(window, steps, max));
        let of_time = self.time_max.filter(|max| time >= *max).map(|max| BudgetExhausted::Time(window, time, max));
        let of_tokens =
            self.tokens_max.filter(|max| tokens >= *max).map(|max| BudgetExhausted::Tokens(window, tokens, max));
        let of_cost = self.cost_max.filter(|max| cost >= *max).map(|max| BudgetExhausted::Cost(window, cost, max));
        of_steps.or(of_time).or(of_tokens).or(of_cost)
    }
}

impl fmt::Display for BudgetExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = match self {
            Self::Steps(window, used, max) => {
                write!(f, "{used} of {max} steps made")?;
                window
            }
            Self::Time(window, used, max) => {
                let minutes = |time: &Duration| time.as_secs() / 60;
                write!(f, "{} of {} minutes worked", minutes(used), minutes(max))?;
                window
            }
            Self::Tokens(window, used, max) => {
                write!(f, "{used} of {max} tokens used")?;
                window
            }
            Self::Cost(window, used, max) => {
                write!(f, "{used} of {max} spent")?;
                window
            }
        };
        match window {
            BudgetWindow::Chat => write!(f, " in this chat; a new one begins at nothing"),
            BudgetWindow::Day => write!(f, " today; renewed at midnight UTC"),
            BudgetWindow::Month => write!(f, " this month; renewed on the first of the next, UTC"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Months begin when they do, in leap years and at turns of centuries too.
    #[test]
    fn months_begin_on_their_first_day() {
        for (day, first) in [
            (0, 0),                                        // 1 January 1970
            (30, 0),                                       // 31 January
            (31, 31),                                      // 1 February
            (-1, -31),                                     // 31 December 1969
            (11_016, 10_988),                              // 29 February 2000, a leap year
            (11_017, 11_017),                              // 1 March 2000
            (20_773, 20_758),                              // 16 November 2026
            (47_540, 47_513),                              // 28 February 2100, not a leap year
            (47_541, 47_541),                              // 1 March 2100
            (146_097, 146_097),                            // 1 January 2370
            (i64::MAX / DAY_MILLIS, 106_751_991_167 - 16), // 17 August of a distant year
        ] {
            assert_eq!(Day(day).first_of_month(), Day(first), "day {day}");
        }
        assert_eq!((Day::of(Timestamp(-1)), Day::of(Timestamp(DAY_MILLIS))), (Day(-1), Day(1)));
    }

    /// Reaching a bound is using it up, the closest is named first, and what is not bounded is not.
    #[test]
    fn a_bound_that_is_reached_is_used_up() {
        let used = |tokens, cost| BudgetUse { tokens, cost: Micros(cost), ..BudgetUse::default() };
        let day = Allowance { tokens_max: Some(10), cost_max: Some(Micros(5)), ..Allowance::default() };
        let chat = Allowance { cost_max: Some(Micros(3)), ..Allowance::default() };
        let month = Allowance { tokens_max: Some(100), ..Allowance::default() };
        let budget = Budget { chat, day, month };
        let none = used(0, 0);
        for (chat, day, month, exhausted) in [
            (used(1_000, 2), used(9, 4), used(99, 1_000), None),
            (used(1_000, 3), used(10, 4), none, Some(BudgetExhausted::Cost(BudgetWindow::Chat, Micros(3), Micros(3)))),
            (none, used(10, 4), none, Some(BudgetExhausted::Tokens(BudgetWindow::Day, 10, 10))),
            (none, used(9, 5), none, Some(BudgetExhausted::Cost(BudgetWindow::Day, Micros(5), Micros(5)))),
            (none, used(11, 0), used(100, 0), Some(BudgetExhausted::Tokens(BudgetWindow::Day, 11, 10))),
            (none, none, used(100, 0), Some(BudgetExhausted::Tokens(BudgetWindow::Month, 100, 100))),
        ] {
            assert_eq!(budget.exhausted(chat, day, month), exhausted);
        }
        assert!(budget.is_bounded() && !Budget::default().is_bounded());
        let all = used(u64::MAX, u64::MAX);
        assert_eq!(Budget::default().exhausted(all, all, all), None);
        let told = |chat, day| budget.exhausted(chat, day, none).map(|exhausted| exhausted.to_string());
        assert_eq!(told(none, used(11, 0)).as_deref(), Some("11 of 10 tokens used today; renewed at midnight UTC"));
        let of_chat = "$0.000004 of $0.000003 spent in this chat; a new one begins at nothing";
        assert_eq!(told(used(0, 4), none).as_deref(), Some(of_chat));
    }

    /// Steps and time have bounds like the rest, and each window its own.
    #[test]
    fn steps_and_time_are_used_up_too() {
        let minutes = |minutes| Duration::from_secs(60) * minutes;
        let bounds = Allowance { steps_max: Some(3), time_max: Some(minutes(2)), ..Allowance::default() };
        let of_chat = Budget { chat: bounds, ..Budget::default() };
        let of_day = Budget { day: bounds, ..Budget::default() };
        let of_month = Budget { month: bounds, ..Budget::default() };
        let used = |steps, seconds| BudgetUse { steps, time: Duration::from_secs(seconds), ..BudgetUse::default() };
        let none = BudgetUse::default();
        for (budget, chat, day, month, told) in [
            (of_chat, used(2, 119), used(9, 999), used(9, 999), None),
            (of_chat, used(4, 0), none, none, Some("4 of 3 steps made in this chat")),
            (of_day, used(9, 999), used(3, 999), none, Some("3 of 3 steps made today")),
            (of_day, none, used(2, 120), none, Some("2 of 2 minutes worked today")),
            (of_month, none, none, used(0, 3_659), Some("60 of 2 minutes worked this month")),
        ] {
            let found = budget.exhausted(chat, day, month).map(|exhausted| exhausted.to_string());
            assert_eq!(found.as_deref().and_then(|found| found.split(';').next()), told);
        }
    }
}
