//! Licences and sources of what we depend on, from `cargo metadata` and the lists in `deny.toml`.
//!
//! cargo-deny does this and more, but takes minutes to build. Where it is not installed, this check still refuses a
//! dependency that we may not ship: it needs no tool, no network and a second.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::workspace;

/// Refuses licences that `deny.toml` does not list, and packages from anywhere but one registry.
pub fn check(root: &Path) -> Result<()> {
    let rules = std::fs::read_to_string(root.join("deny.toml")).context("deny.toml could not be read")?;
    let rules: toml::Table = rules.parse().context("deny.toml is not TOML")?;
    let listed = rules.get("licenses").and_then(|licences| licences.get("allow")).and_then(toml::Value::as_array);
    let listed: BTreeSet<&str> = listed.into_iter().flatten().filter_map(toml::Value::as_str).collect();
    let metadata = workspace::metadata(root, &["--all-features"])?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let complaints = complaints(packages, &listed);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    ensure!(complaints.is_empty(), "{} dependencies are not allowed by deny.toml, listed above", complaints.len());
    Ok(())
}

fn complaints(packages: &[Value], listed: &BTreeSet<&str>) -> Vec<String> {
    let foreign = || packages.iter().filter(|package| !package["source"].is_null());
    let registry = foreign().filter_map(|package| package["source"].as_str()).find(|source| is_registry(source));
    let mut complaints = Vec::new();
    for package in foreign() {
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        let source = text(package, "source");
        if !is_registry(source) || Some(source) != registry {
            complaints.push(format!("{name} comes from {source}: take it from the default registry"));
        }
        let licence = text(package, "license");
        if !is_allowed(licence, listed) {
            complaints
                .push(format!("{name} is licensed as `{licence}`: choose another crate, or list it in deny.toml"));
        }
    }
    complaints
}

fn is_registry(source: &str) -> bool {
    source.starts_with("registry+") || source.starts_with("sparse+")
}

/// Whether one of the ways to read the expression needs nothing but listed licences.
fn is_allowed(licence: &str, listed: &BTreeSet<&str>) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else { return false };
    expression.evaluate(|wanted| wanted.addition.is_none() && listed.contains(wanted.license.to_string().as_str()))
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn licences_are_read_as_expressions() {
        let listed = BTreeSet::from(["MIT", "ISC"]);
        for good in ["MIT", "MIT OR GPL-3.0-only", "Apache-2.0/MIT", "MIT AND ISC", "(GPL-2.0-only OR MIT) AND ISC"] {
            assert!(is_allowed(good, &listed), "{good}");
        }
        for bad in ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "MIT WITH LLVM-exception", "whatever"] {
            assert!(!is_allowed(bad, &listed), "{bad}");
        }
    }

    #[test]
    fn packages_come_from_one_registry() {
        let package = |name: &str, source: Option<&str>| json!({"name": name, "version": "1.0.0", "license": "MIT", "source": source});
        let packages = [
            package("ours", None),
            package("theirs", Some("registry+index")),
            package("elsewhere", Some("registry+another")),
            package("branch", Some("git+repository")),
        ];
        let complaints = complaints(&packages, &BTreeSet::from(["MIT"]));
        assert_eq!(
            complaints,
            [
                "elsewhere 1.0.0 comes from registry+another: take it from the default registry",
                "branch 1.0.0 comes from git+repository: take it from the default registry",
            ]
        );
    }
}
