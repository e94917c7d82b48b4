//! Nothing of the machine it was written on.
//!
//! A path of someone's home or the name of the registry someone's company mirrors works for one person. Both creep in
//! through lock files and pasted logs, so every text file is looked at, not only sources.

use super::Violation;

/// Directories that exist on one machine only.
const HOMES: &[&str] = &["work", "root", "home"];
/// Parts of host names that only package registries and their mirrors have.
const REGISTRY_LABELS: &[&str] =
    &["registry", "artifactory", "goproxy", "jfrog", "mirror", "mirrors", "nexus", "npmjs", "pypi", "pythonhosted"];
/// Cargo's own registry, as every lock file names it.
const DEFAULT_SOURCE: &str = "\"registry+https://github.com/rust-lang/crates.io-index\"";

pub fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for home in HOMES.iter().map(|home| format!("/{home}/")).filter(|home| names_path(line, home)) {
            let what = format!("{home}… exists on one machine: use a relative path or an invented one");
            violations.push(Violation::excusable(path, index + 1, &home, what));
        }
        for host in hosts(line).filter(|host| is_registry(host)) {
            let what = format!("{host} is a package registry: leave the choice of registry to the machine");
            violations.push(Violation::excusable(path, index + 1, host, what));
        }
        if chooses_source(path, line.trim()) {
            let what = "this pins a package source: leave the choice of registry to the machine";
            violations.push(Violation::new(path, index + 1, what));
        }
    }
    violations
}

/// Whether an absolute path begins so; `docs/home/` and `https://a.example/home/` do not.
fn names_path(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"_-.~$})*>".contains(c))
    })
}

/// The hosts of the URLs in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").map(|(at, scheme)| {
        let rest = &line[at + scheme.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !".-@".contains(c)).unwrap_or(rest.len());
        rest[..end].rsplit('@').next().unwrap_or_default()
    })
}

fn is_registry(host: &str) -> bool {
    let index_of_crates = host.strip_suffix(".crates.io").is_some();
    index_of_crates || host.contains('.') && host.split('.').any(|label| REGISTRY_LABELS.contains(&label))
}

fn chooses_source(path: &str, line: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name {
        "Cargo.lock" => line.strip_prefix("source = ").is_some_and(|source| source != DEFAULT_SOURCE),
        "config.toml" if path.contains(".cargo/") => {
            ["[source", "[registries", "[registry", "replace-with"].iter().any(|start| line.starts_with(start))
        }
        ".npmrc" => line.starts_with("registry"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn paths_of_one_machine_are_found() {
        for home in ["work", "root", "home"] {
            for line in [format!("see /{home}/notes.md"), format!("\"/{home}/x\""), format!("file:///{home}/x")] {
                let found = found("docs/a.md", &line);
                assert_eq!(found.len(), 1, "{line}");
                assert!(found[0].contains("exists on one machine"));
            }
        }
    }

    #[test]
    fn relative_and_foreign_paths_are_not() {
        for line in ["docs/home/a", "https://a.example/root/b", "../work/x", "$DIR/work/y", "~/work/z", "workers"] {
            assert!(found("docs/a.md", line).is_empty(), "{line}");
        }
    }

    #[test]
    fn registries_are_found() {
        for host in
            ["registry.corp.example", "mirror-of.crates.io", "corp.example.artifactory.example", "u@pypi.example"]
        {
            let found = found("web/package-lock.json", &format!("\"resolved\": \"https://{host}/a.tgz\""));
            assert_eq!(found.len(), 1, "{host}");
            assert!(found[0].contains("is a package registry"));
        }
    }

    #[test]
    fn other_hosts_are_not() {
        for line in
            ["https://docs.rs/registry", "http://registry:80", "self.registry.register()", "https://github.com/a"]
        {
            assert!(found("README.md", line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_pinned_source_is_found() {
        let pinned = "[[package]]\nsource = \"registry+https://packages.corp.example/index\"\n";
        assert_eq!(found("Cargo.lock", pinned).len(), 1);
        assert_eq!(found(".cargo/config.toml", "[source.crates-io]\nreplace-with = \"corp\"\n").len(), 2);
        let default = "[[package]]\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        assert!(found("Cargo.lock", default).is_empty());
        assert!(found(".cargo/config.toml", "[alias]\nxtask = \"run\"\n").is_empty());
    }
}
