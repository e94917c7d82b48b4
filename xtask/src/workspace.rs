//! What cargo knows about this workspace, and how a chore calls cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The repository's root, whatever directory the chore was started in.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run` and for tests; the constant serves a binary that is called by its path.
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// The cargo that started us, in the repository's root.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// What `cargo metadata` prints.
pub fn metadata(root: &Path, args: &[&str]) -> Result<Value> {
    let output = cargo(root)
        .args(["metadata", "--format-version", "1"])
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo metadata could not be started")?;
    if !output.status.success() {
        bail!("cargo metadata failed");
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")
}

/// The packages of the workspace.
#[derive(Debug)]
pub struct Workspace {
    /// All members, in cargo's order.
    pub packages: Vec<Package>,
}

/// One member.
#[derive(Debug, Default)]
pub struct Package {
    /// Its name, as in `cargo -p NAME`.
    pub name: String,
    /// Its directory, relative to the root, with forward slashes.
    pub dir: String,
    /// What its manifest asks for, ours and foreign.
    pub dependencies: Vec<Dependency>,
    /// The names of its bench targets.
    pub benches: Vec<String>,
    /// The features these need.
    pub bench_features: Vec<String>,
}

/// One line of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The package's real name, also when it is renamed.
    pub name: String,
    /// In which table it stands.
    pub kind: Kind,
}

/// The table a dependency stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `[dependencies]`
    Normal,
    /// `[dev-dependencies]`
    Dev,
    /// `[build-dependencies]`
    Build,
}

impl Workspace {
    /// Asks `cargo metadata`; needs no network and no build.
    pub fn load(root: &Path) -> Result<Self> {
        Self::parse(root, &metadata(root, &["--no-deps"])?)
    }

    fn parse(root: &Path, metadata: &Value) -> Result<Self> {
        let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
        Ok(Self { packages: packages.iter().map(|package| Package::parse(root, package)).collect::<Result<_>>()? })
    }

    /// The package that owns a file, if any.
    pub fn owner(&self, file: &str) -> Option<&Package> {
        self.packages.iter().find(|package| {
            file.strip_prefix(package.dir.as_str()).is_some_and(|rest| package.dir.is_empty() || rest.starts_with('/'))
        })
    }
}

impl Package {
    fn parse(root: &Path, package: &Value) -> Result<Self> {
        let name = package["name"].as_str().context("a package without a name")?;
        let manifest = Path::new(package["manifest_path"].as_str().context("a package without a manifest")?);
        let dir = manifest.parent().context("a manifest without a directory")?;
        // Cargo resolves links in paths, so the root must be resolved too before the two are compared.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let targets = package["targets"].as_array().into_iter().flatten();
        let benches: Vec<&Value> = targets.filter(|target| target["kind"][0] == "bench").collect();
        let named = |value: &Value| value.as_str().map(str::to_owned);
        let features = benches.iter().flat_map(|bench| bench["required-features"].as_array()).flatten();
        Ok(Self {
            name: name.to_owned(),
            dir: dir.strip_prefix(&root).unwrap_or(dir).to_string_lossy().replace('\\', "/"),
            dependencies: package["dependencies"].as_array().into_iter().flatten().filter_map(dependency).collect(),
            benches: benches.iter().filter_map(|bench| named(&bench["name"])).collect(),
            bench_features: features.filter_map(named).collect(),
        })
    }
}

fn dependency(value: &Value) -> Option<Dependency> {
    let kind = match value["kind"].as_str() {
        None => Kind::Normal,
        Some("dev") => Kind::Dev,
        Some(_) => Kind::Build,
    };
    Some(Dependency { name: value["name"].as_str()?.to_owned(), kind })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_becomes_packages() {
        let metadata = json!({
            "packages": [{
                "name": "everturn-core",
                "manifest_path": "/repo/crates/core/Cargo.toml",
                "dependencies": [{"name": "jiff", "kind": null}, {"name": "proptest", "kind": "dev"}],
                "targets": [{"name": "everturn_core", "kind": ["lib"]}, {
                    "name": "core", "kind": ["bench"], "required-features": ["sqlite"],
                }],
            }],
        });
        let workspace = Workspace::parse(Path::new("/repo"), &metadata).expect("a well-formed answer");
        let core = &workspace.packages[0];
        assert_eq!(core.dir, "crates/core");
        assert_eq!((&core.benches[..], &core.bench_features[..]), (&["core".into()][..], &["sqlite".into()][..]));
        assert_eq!(core.dependencies[0], Dependency { name: "jiff".into(), kind: Kind::Normal });
        assert_eq!(core.dependencies[1].kind, Kind::Dev);
        assert_eq!(workspace.owner("crates/core/src/lib.rs").map(|owner| owner.name.as_str()), Some("everturn-core"));
        assert!(workspace.owner("crates/core-two/src/lib.rs").is_none());
    }
}
