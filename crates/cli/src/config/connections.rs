//! How many connections to the database a server opens, as the file or the environment says it.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use everturn::stores::postgres;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// With fewer, a search could take all that is for whoever asks; more than that no database has for one of its clients.
const BOUNDS: RangeInclusive<usize> = 6..=1000;

/// So many, beside the four that have one purpose each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections(usize);

impl Connections {
    pub const fn len(self) -> usize {
        self.0
    }

    fn checked(len: usize) -> Result<Self, String> {
        match BOUNDS.contains(&len) {
            true => Ok(Self(len)),
            false => Err(format!(
                "{len} is no number of connections to a database: from {} to {}, and four more are opened",
                BOUNDS.start(),
                BOUNDS.end()
            )),
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self(postgres::PostgresOptions::default().connections_max)
    }
}

impl FromStr for Connections {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let len = text.trim().parse().map_err(|_| format!("`{}` is no number of connections", text.trim()))?;
        Self::checked(len)
    }
}

impl<'de> Deserialize<'de> for Connections {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::checked(usize::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;

    const NAME: &str = "EVERTURN_DATABASE_CONNECTIONS";

    #[test]
    fn connections_are_as_many_as_somebody_says() {
        let told = |variables: &[(&str, &str)], text| {
            read(Flags::default(), variables, text).unwrap().database_connections.value.len()
        };
        assert_eq!(told(&[], ""), 16);
        assert_eq!(told(&[], "database_connections = 6"), 6);
        assert_eq!(told(&[(NAME, "1000")], "database_connections = 6"), 1000);
    }

    #[test]
    fn too_few_or_too_many_connections_are_refused() {
        for value in ["0", "5", "1001"] {
            let filed = read(Flags::default(), &[], &format!("database_connections = {value}")).unwrap_err();
            let set = read(Flags::default(), &[(NAME, value)], "").unwrap_err();
            let said = format!("{value} is no number of connections to a database: from 6 to 1000");
            for (error, place) in [(filed, "database_connections"), (set, NAME)] {
                let error = format!("{error:#}");
                assert!(error.contains(&said) && error.contains(place), "{error}");
            }
        }
        let error = format!("{:#}", read(Flags::default(), &[(NAME, "many")], "").unwrap_err());
        assert!(error.contains("`many` is no number of connections"), "{error}");
    }
}
