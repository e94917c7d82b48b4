//! Nobody who installs the program gets the places at which it dies on purpose.

use super::Violation;

/// The feature that makes them. It may be passed on under its own name and asked for by tests, and nothing else.
const FEATURE: &str = "failpoints";

pub fn check(path: &str, text: &str) -> Vec<Violation> {
    if !path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let is_harmless = |line: &str| {
        let line = line.trim_start();
        line.starts_with('#') || line.starts_with("failpoints = [") || line.starts_with("required-features = [")
    };
    let lines = text.lines().zip(1..).filter(|(line, _)| line.contains(FEATURE) && !is_harmless(line));
    let what = "failpoints outside tests: a release must not know how to die on purpose";
    lines.map(|(_, number)| Violation::new(path, number, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn only_tests_ask_for_deaths() {
        for (line, count) in [
            ("failpoints = [\"everturn-stores/failpoints\"]", 0),
            ("required-features = [\"failpoints\"]", 0),
            ("# failpoints are for tests", 0),
            ("default = [\"failpoints\"]", 1),
            ("everturn-stores = { workspace = true, features = [\"failpoints\"] }", 1),
            ("sqlite = [\"everturn-stores/failpoints\"]", 1),
        ] {
            assert_eq!(found("crates/cli/Cargo.toml", line).len(), count, "{line}");
        }
    }
}
