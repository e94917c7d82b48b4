//! Which crate may know which.
//!
//! The core depends on no other crate, the binary on all, and only tests on the stand-ins. Cargo only refuses cycles;
//! a shortcut that is no cycle yet becomes one later.

use std::path::Path;

use super::Violation;
use crate::workspace::{Dependency, Kind, Package, Workspace};

/// A crate and the crates of ours it may use. A crate that is not listed may not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("everturn-core", &[]),
    ("everturn-props", &[]),
    ("everturn-providers", &["everturn-core"]),
    ("everturn-stores", &["everturn-core"]),
    ("everturn-testkit", &["everturn-core", "everturn-stores"]),
    ("everturn", &["everturn-core", "everturn-providers", "everturn-stores"]),
    ("everturn-tools", &["everturn"]),
    ("everturn-mcp", &["everturn", "everturn-tools"]),
    ("everturn-understudy", &["everturn-core", "everturn-providers"]),
    ("everturn-server", &["everturn", "everturn-core", "everturn-providers", "everturn-stores", "everturn-understudy"]),
    ("everturn-frontend", &["everturn", "everturn-server"]),
    ("everturn-page", &["everturn-server"]),
    ("everturn-demo", &["everturn", "everturn-frontend", "everturn-server", "everturn-understudy"]),
    (
        "everturn-cli",
        &[
            "everturn",
            "everturn-core",
            "everturn-demo",
            "everturn-frontend",
            "everturn-mcp",
            "everturn-page",
            "everturn-providers",
            "everturn-server",
            "everturn-stores",
            "everturn-tools",
            "everturn-understudy",
        ],
    ),
    ("xtask", &["everturn-props"]),
];
/// Crates that every crate's tests may use.
const STAND_INS: &[&str] = &["everturn-props", "everturn-testkit", "everturn-understudy"];
/// Foreign crates that would bring waiting, IO or chance into the core.
const NOT_IN_CORE: &[&str] =
    &["async-trait", "fastrand", "futures", "futures-util", "getrandom", "rand", "reqwest", "tokio", "uuid"];

pub fn check(root: &Path, workspace: &Workspace) -> Vec<Violation> {
    let manifest = |package: &Package| std::fs::read_to_string(root.join(&package.dir).join("Cargo.toml"));
    workspace.packages.iter().flat_map(|package| of(package, &manifest(package).unwrap_or_default())).collect()
}

fn of(package: &Package, manifest: &str) -> Vec<Violation> {
    let path = format!("{}/Cargo.toml", package.dir);
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
        let what =
            format!("{} has no place in the layers: add it to ALLOWED in xtask/src/tidy/direction.rs", package.name);
        return vec![Violation::new(&path, 1, what)];
    };
    let mut violations = Vec::new();
    for Dependency { name, kind } in &package.dependencies {
        let line = manifest.lines().position(|line| asks_for(line, name)).map_or(1, |at| at + 1);
        let is_ours = ALLOWED.iter().any(|(ours, _)| ours == name);
        let for_tests = *kind == Kind::Dev && STAND_INS.contains(&name.as_str());
        if is_ours && !for_tests && !allowed.contains(&name.as_str()) {
            let what = format!("{} may not use {name}: move what both need below them", package.name);
            violations.push(Violation::new(&path, line, what));
        }
        if package.name == "everturn-core" && *kind != Kind::Dev && NOT_IN_CORE.contains(&name.as_str()) {
            let what = format!("the core may not use {name}: it neither waits nor throws dice");
            violations.push(Violation::new(&path, line, what));
        }
    }
    violations
}

/// Whether a line of a manifest begins with this dependency, and not with one whose name is longer.
fn asks_for(line: &str, name: &str) -> bool {
    line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, dependencies: &[(&str, Kind)]) -> Vec<String> {
        let dependencies =
            dependencies.iter().map(|&(name, kind)| Dependency { name: name.to_owned(), kind }).collect::<Vec<_>>();
        let manifest: String = dependencies.iter().map(|dependency| format!("{} = \"1\"\n", dependency.name)).collect();
        let package = Package { name: name.into(), dir: "crates/x".into(), dependencies, ..Package::default() };
        of(&package, &manifest).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn shortcuts_are_found() {
        for (name, uses) in [
            ("everturn-core", "everturn-stores"),
            ("everturn-providers", "everturn-stores"),
            ("everturn-stores", "everturn"),
            ("everturn", "everturn-server"),
            ("everturn", "everturn-understudy"),
            ("everturn-server", "everturn-cli"),
            ("everturn-cli", "xtask"),
        ] {
            assert_eq!(
                found(name, &[("serde", Kind::Normal), (uses, Kind::Normal)]),
                [format!("crates/x/Cargo.toml:2: {name} may not use {uses}: move what both need below them")]
            );
        }
        assert_eq!(found("everturn-core", &[("everturn", Kind::Dev)]).len(), 1);
        assert_eq!(found("everturn-stores", &[("everturn-understudy", Kind::Build)]).len(), 1);
    }

    #[test]
    fn the_way_down_and_stand_ins_in_tests_are_fine() {
        assert!(found("everturn", &[("everturn-core", Kind::Normal), ("everturn-stores", Kind::Normal)]).is_empty());
        assert!(found("everturn-cli", &[("everturn-understudy", Kind::Normal), ("clap", Kind::Normal)]).is_empty());
        assert!(found("everturn", &[("everturn-understudy", Kind::Dev), ("everturn-props", Kind::Dev)]).is_empty());
    }

    #[test]
    fn the_core_brings_nothing_that_waits() {
        assert_eq!(found("everturn-core", &[("tokio", Kind::Normal)]).len(), 1);
        assert!(found("everturn-core", &[("tokio", Kind::Dev), ("jiff", Kind::Normal)]).is_empty());
    }

    #[test]
    fn strangers_are_asked_where_they_stand() {
        assert!(
            found("everturn-new", &[])[0].starts_with("crates/x/Cargo.toml:1: everturn-new has no place in the layers")
        );
    }
}
