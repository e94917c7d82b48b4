//! The installed program has no place at which it dies on purpose, and no daemon that lies on purpose.

use super::Violation;

/// The features that make them. They may be passed on under their own names and asked for by tests, and nothing else.
const FEATURES: [&str; 2] = ["failpoints", "sabotage"];

pub fn check(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let is_harmless = |line: &str, feature: &str| {
        let line = line.trim_start();
        let is_its_own = line.strip_prefix(feature).is_some_and(|rest| rest.starts_with(" = ["));
        line.starts_with('#') || is_its_own || line.starts_with("required-features = [")
    };
    let found = |feature: &'static str| {
        let lines = text.lines().zip(1..);
        let lines = lines.filter(move |(line, _)| line.contains(feature) && !is_harmless(line, feature));
        let what = format!("{feature} outside tests: a release must not know how to fail on purpose");
        lines.map(move |(_, number)| Violation::new(path, number, &what)).collect::<Vec<_>>()
    };
    FEATURES.into_iter().flat_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn only_tests_ask_for_deaths_and_lies() {
        for (line, count) in [
            ("failpoints = [\"everturn-stores/failpoints\"]", 0),
            ("sabotage = []", 0),
            ("required-features = [\"failpoints\"]", 0),
            ("# failpoints are for tests", 0),
            ("default = [\"failpoints\"]", 1),
            ("default = [\"sabotage\"]", 1),
            ("everturn-stores = { workspace = true, features = [\"failpoints\"] }", 1),
            ("sqlite = [\"everturn-stores/failpoints\"]", 1),
            ("sabotage = [\"everturn/failpoints\"]", 1),
        ] {
            assert_eq!(found("crates/cli/Cargo.toml", line).len(), count, "{line}");
        }
    }
}
