//! Size of the Postgres connection pool, from the file or the environment.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use everturn::stores::postgres;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// With fewer than 6, one search could occupy all connections for reads; no database has more than 1000 for
/// one client.
const BOUNDS: RangeInclusive<usize> = 6..=1000;

/// Connections in the pool, besides the four that have one purpose each.
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
                "{len} is not a valid number of database connections: use {} to {} (four more are opened)",
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
        let len = text.trim().parse().map_err(|_| format!("`{}` is not a number of connections", text.trim()))?;
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
    fn the_number_of_connections_is_configured() {
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
            let said = format!("{value} is not a valid number of database connections: use 6 to 1000");
            for (error, place) in [(filed, "database_connections"), (set, NAME)] {
                let error = format!("{error:#}");
                assert!(error.contains(&said) && error.contains(place), "{error}");
            }
        }
        let error = format!("{:#}", read(Flags::default(), &[(NAME, "many")], "").unwrap_err());
        assert!(error.contains("`many` is not a number of connections"), "{error}");
    }
}
