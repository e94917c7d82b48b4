//! `cargo xtask dist`: the files of a release.
//!
//! A release is a stripped binary, the list of what is in it (an SBOM), and the SHA-256 of both. Everything is made from the
//! repository with cargo alone, and nothing in it depends on the time or the machine, so two builds can be compared.

mod sbom;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::workspace;
use sbom::Sbom;

/// The package whose binary is released.
const PACKAGE: &str = "everturn-cli";
/// The binary, as cargo calls it.
const BINARY: &str = "everturn";
/// The profile of `Cargo.toml` that strips it.
const PROFILE: &str = "dist";
/// Where the sums of all files are.
const SUMS: &str = "SHA256SUMS";

/// What to release, and where to put it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Dist {
    /// The target to build for, such as aarch64-unknown-linux-gnu; this machine's if left out
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
    /// Use this binary, which was built and stripped before, and build nothing
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// The directory to write to; `target/artifacts` if left out
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
}

/// Builds the binary unless one is given, and writes it with its SBOM and the sums.
pub fn run(root: &Path, dist: &Dist) -> Result<ExitCode> {
    let target = match &dist.target {
        Some(target) => target.clone(),
        None => host()?,
    };
    let metadata = metadata(root, &target)?;
    let binary = match &dist.binary {
        Some(binary) => binary.clone(),
        None => build(root, &target, &metadata)?,
    };
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let sbom = Sbom { metadata: &metadata, built: &built(root, &target)?, lock: &lock, package: PACKAGE };
    let (sbom, version) = (sbom.document()?, sbom.version()?);
    let components = sbom["components"].as_array().map_or(0, Vec::len);

    let out = dist.out.clone().unwrap_or_else(|| root.join("target/artifacts"));
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let begin = format!("{BINARY}-{version}-");
    let file = out.join(format!("{begin}{target}"));
    let size = std::fs::copy(&binary, &file).with_context(|| binary.display().to_string())?;
    let list = out.join(format!("{begin}{target}.cdx.json"));
    std::fs::write(&list, format!("{sbom:#}\n")).with_context(|| list.display().to_string())?;
    let sums = out.join(SUMS);
    std::fs::write(&sums, self::sums(&out, &begin)?).with_context(|| sums.display().to_string())?;

    println!("{}: {size} bytes", file.display());
    println!("{}: {components} components", list.display());
    println!("{}: check it with `sha256sum --check {SUMS}`", sums.display());
    Ok(ExitCode::SUCCESS)
}

/// Cargo as a release uses it. A machine may be told to build every package with the features of the whole workspace, which
/// makes for fewer builds and for other binaries.
fn cargo(root: &Path) -> Command {
    let mut command = workspace::cargo(root);
    command.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION");
    command
}

/// The target this machine is.
fn host() -> Result<String> {
    let said = output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

/// What cargo knows of every package that may be in the binary.
fn metadata(root: &Path, target: &str) -> Result<Value> {
    let mut command = cargo(root);
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    serde_json::from_str(&output(&mut command)?).context("cargo metadata is not JSON")
}

/// The packages that are built for the binary, one a line. The metadata has more: packages that only features of other
/// binaries and of tests ask for.
fn built(root: &Path, target: &str) -> Result<String> {
    let mut command = cargo(root);
    command.args(["tree", "--locked", "--package", PACKAGE, "--edges", "normal,build", "--target", target]);
    output(command.args(["--prefix", "none", "--format", "{p}"]))
}

/// Builds the binary and says where it is.
fn build(root: &Path, target: &str, metadata: &Value) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--locked", "--profile", PROFILE, "--package", PACKAGE, "--target", target]);
    let status = command.status().context("cargo build could not be started")?;
    ensure!(status.success(), "cargo build ended with {status}");
    let dir = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok([dir, target, PROFILE, BINARY].iter().collect())
}

/// A line for each file of this version, of all targets, as `sha256sum --check` reads it.
fn sums(dir: &Path, begin: &str) -> Result<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        names.extend(entry?.file_name().into_string().ok().filter(|name| name.starts_with(begin)));
    }
    names.sort();
    let line = |name: String| Ok(format!("{}  {name}\n", sha256(&std::fs::read(dir.join(&name))?)));
    names.into_iter().map(line).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a command writes, if it does what it should.
fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("{command:?} could not be started"))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_that_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    /// What a release has, made with a stand-in for the binary, since building one takes minutes.
    #[test]
    fn a_release_has_the_binary_its_parts_and_sums_that_fit() {
        let root = workspace::root();
        let out = tempfile::tempdir().expect("a directory");
        let binary = out.path().join("stand-in");
        std::fs::write(&binary, b"abc").expect("a file");
        std::fs::write(out.path().join("everturn-0.0.0-old"), b"of a version before").expect("a file");
        let target = Some("x86_64-unknown-linux-gnu".to_owned());
        let dist = Dist { target, binary: Some(binary), out: Some(out.path().to_owned()) };
        for _ in ["made", "made again"] {
            run(&root, &dist).expect("a release");
        }
        let name = format!("everturn-{}-x86_64-unknown-linux-gnu", env!("CARGO_PKG_VERSION"));
        let read = |name: &str| std::fs::read(out.path().join(name)).expect(name);
        assert_eq!(read(&name), b"abc");
        let sbom = read(&format!("{name}.cdx.json"));
        let sums = format!("{}  {name}\n{}  {name}.cdx.json\n", sha256(b"abc"), sha256(&sbom));
        assert_eq!(String::from_utf8(read(SUMS)).expect("text"), sums);
        let sbom: Value = serde_json::from_slice(&sbom).expect("JSON");
        let parts = sbom["components"].as_array().expect("a list");
        let has = |name: &str| parts.iter().any(|part| part["name"] == name);
        assert!(has("tokio") && has("everturn-core"), "what is in the binary is listed");
        assert!(!has("xtask") && !has("proptest") && !has("everturn-props"), "what only tests and chores use is not");
    }
}
