//! Stored and sent shapes stand apart.
//!
//! Domain types change freely because nothing outside the process sees them. What is stored or sent has versions and
//! fixtures, and lives in `shape` and `wire` files; `Serialize` anywhere else would freeze a domain type by accident.

use super::{Source, Violation};

pub fn check(source: &Source<'_>) -> Vec<Violation> {
    let prints = ["xtask/", "crates/cli/", "crates/demo/", "crates/frontend/"]
        .iter()
        .any(|printer| source.path.starts_with(printer));
    if prints || source.names().any(|name| matches!(name, "shape" | "wire")) {
        return Vec::new();
    }
    let mut lines: Vec<_> = source.tokens.iter().filter(|token| token.is_word("Serialize")).map(|at| at.line).collect();
    lines.dedup();
    let what = "Serialize outside shape/ and wire.rs: give the stored or sent shape its own type there";
    lines.into_iter().map(|line| Violation::excusable(source.path, line, "Serialize", what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;

    const SOURCES: [&str; 3] = [
        "#[derive(Debug, Serialize)] struct A;",
        "use serde::{Deserialize, Serialize};",
        "impl serde::Serialize for A {}",
    ];

    #[test]
    fn domain_types_do_not_serialize() {
        for source in SOURCES {
            let found = found("crates/core/src/message.rs", source);
            assert_eq!(found.len(), 1, "{source}: {found:?}");
            assert!(found[0].contains("outside shape/ and wire.rs"));
        }
    }

    #[test]
    fn shapes_wires_and_printers_do() {
        for path in [
            "crates/stores/src/shape/chat.rs",
            "crates/server/src/api/wire/v1.rs",
            "xtask/src/bench.rs",
            "crates/cli/src/run.rs",
        ] {
            for source in SOURCES {
                assert!(found(path, source).is_empty(), "{path}: {source}");
            }
        }
    }

    #[test]
    fn reading_is_free() {
        let source = "#[derive(serde::Deserialize, schemars::JsonSchema)] struct Input { q: String }";
        assert!(found("crates/everturn/examples/embed.rs", source).is_empty());
    }
}
