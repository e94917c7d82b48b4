//! Amounts of money in the configuration file: US dollars, with fractions.

use std::fmt::{self, Display};

use everturn::core::cost::Micros;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// An amount of money. A negative amount is refused: it is a typing error, and read as 0 it would stop every
/// chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub Micros);

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(from)?;
        if !units.is_finite() || units < 0.0 {
            return Err(D::Error::custom(format_args!(
                "{units} is not an amount of money: write 0 or more, such as 2.5"
            )));
        }
        Ok(Self(Micros((units * 1e6).round() as u64)))
    }
}

/// The amount as the file writes it.
impl Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Micros(micros) = self.0;
        let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    #[test]
    fn money_is_shown_as_it_was_written() {
        for (micros, text) in [(0, "0"), (1, "0.000001"), (2_500_000, "2.5"), (50_000_000, "50"), (10_000, "0.01")] {
            assert_eq!(Money(Micros(micros)).to_string(), text);
        }
    }

    /// Every amount accepts fractions, and a negative one is an error.
    #[test]
    fn money_has_fractions_and_is_never_negative() {
        let places = [
            ("", "turn_cost_max"),
            ("[agents.a]\nmodel = \"a/b\"\n", "turn_cost_max"),
            ("[budget]\n", "chat_cost_max"),
            ("[budget]\n", "day_cost_max"),
            ("[owners.alice]\n", "month_cost_max"),
            ("[prices.\"a/b\"]\noutput = 1\n", "input"),
        ];
        for (table, name) in places {
            let with = |value: &str| read(Flags::default(), &[], &format!("{table}{name} = {value}\n"));
            for value in ["0.5", "2", "0"] {
                assert!(with(value).is_ok(), "{table}{name} = {value}: {:?}", with(value));
            }
            for value in ["-1", "-0.5", "nan", "inf"] {
                let error = format!("{:#}", with(value).unwrap_err());
                assert!(error.contains("is not an amount of money: write 0 or more"), "{error}");
            }
        }
        let config = read(Flags::default(), &[], "turn_cost_max = 0.25\n[budget]\nday_cost_max = 2.5").unwrap();
        assert_eq!(config.usual_agent("a/b".parse().unwrap()).unwrap().limits.turn_cost_max, Micros(250_000));
        let budget: everturn::core::budget::Budget = config.budget.into();
        assert_eq!(budget.day.cost_max, Some(Micros(2_500_000)));
    }
}
