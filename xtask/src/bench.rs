//! `cargo xtask bench NAME`: one benchmark, for people or for machines.
//!
//! A figure means little on a strange machine. So each benchmark measures a floor in the same run and reports the ratio;
//! with `--json` every line is one object with the keys of [`KEYS`], and a line that is not ends the chore with an error.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::workspace::{self, Package, Workspace};

/// What every line of JSON has: which benchmark, which figure of it, at what size, the figure and its unit, the floor in
/// the same unit, and the figure divided by the floor.
pub const KEYS: [&str; 7] = ["bench", "metric", "n", "value", "unit", "floor", "ratio"];

/// How the figures are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the benchmark likes, for people.
    Text,
    /// One object a line.
    Json,
}

/// Prints the benchmarks of the workspace and the package of each.
pub fn list(root: &Path) -> Result<ExitCode> {
    let workspace = Workspace::load(root)?;
    for (package, bench) in benches(&workspace) {
        println!("{bench:<12} {package}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one benchmark.
pub fn run(root: &Path, name: &str, form: Form) -> Result<ExitCode> {
    let workspace = Workspace::load(root)?;
    let package = package_of(&workspace, name)?;
    let mut command = workspace::cargo(root);
    command.args(["bench", "--quiet", "--package", &package.name, "--bench", name]);
    command.args(["--features", &package.bench_features.join(",")]);
    if form == Form::Text {
        let status = command.status().context("cargo bench could not be started")?;
        ensure!(status.success(), "cargo bench ended with {status}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut child =
        command.args(["--", "--json"]).stdout(Stdio::piped()).spawn().context("cargo bench could not be started")?;
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut wrong = None;
    for line in lines {
        let line = line?;
        // The reader may leave early; the benchmark is allowed to finish.
        let _ = writeln!(std::io::stdout(), "{line}");
        wrong = wrong.or(check_line(&line).err());
    }
    let status = child.wait()?;
    ensure!(status.success(), "cargo bench ended with {status}");
    wrong.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn benches(workspace: &Workspace) -> impl Iterator<Item = (&str, &str)> {
    workspace
        .packages
        .iter()
        .flat_map(|package| package.benches.iter().map(|bench| (package.name.as_str(), bench.as_str())))
}

fn package_of<'a>(workspace: &'a Workspace, name: &str) -> Result<&'a Package> {
    let mut found = workspace.packages.iter().filter(|package| package.benches.iter().any(|bench| bench == name));
    let Some(package) = found.next() else {
        let known: Vec<_> = benches(workspace).map(|(_, bench)| bench).collect();
        bail!(
            "no benchmark is called {name}; there are: {}",
            if known.is_empty() { "none yet".into() } else { known.join(", ") }
        );
    };
    if let Some(other) = found.next() {
        bail!("{} and {} both have a benchmark called {name}: rename one", package.name, other.name);
    }
    Ok(package)
}

fn check_line(line: &str) -> Result<()> {
    let value: Value = serde_json::from_str(line).with_context(|| format!("not a JSON line: {line}"))?;
    let object = value.as_object().with_context(|| format!("not a JSON object: {line}"))?;
    for key in KEYS {
        let value = object.get(key).with_context(|| format!("no key {key:?} in {line}"))?;
        let fits = match key {
            "bench" | "metric" | "unit" => value.is_string(),
            // A figure that has no floor says so with null.
            "floor" | "ratio" => value.is_number() || value.is_null(),
            _ => value.is_number(),
        };
        ensure!(fits, "{key:?} is {value} in {line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(benches: &[(&str, &[&str])]) -> Workspace {
        let package = |&(name, benches): &(&str, &[&str])| Package {
            name: name.to_owned(),
            benches: benches.iter().map(|&bench| bench.to_owned()).collect(),
            ..Package::default()
        };
        Workspace { packages: benches.iter().map(package).collect() }
    }

    #[test]
    fn a_name_finds_its_package() {
        let workspace = workspace(&[("everturn-core", &["seam"]), ("everturn", &["core", "seam"])]);
        assert_eq!(package_of(&workspace, "core").expect("there is one").name, "everturn");
        let twice = package_of(&workspace, "seam").expect_err("there are two").to_string();
        assert_eq!(twice, "everturn-core and everturn both have a benchmark called seam: rename one");
        let none = package_of(&workspace, "soup").expect_err("there is none").to_string();
        assert_eq!(none, "no benchmark is called soup; there are: seam, core, seam");
    }

    #[test]
    fn lines_are_held_to_the_contract() {
        let good = r#"{"bench":"core","metric":"fold","n":1000,"value":41.5,"unit":"ns","floor":12.0,"ratio":3.46}"#;
        check_line(good).expect("this is the contract");
        check_line(&good.replace("12.0", "null").replace("3.46", "null")).expect("a figure may lack a floor");
        for bad in [&good.replace("\"n\":1000,", ""), &good.replace("41.5", "\"41.5\""), "fold: 41.5 ns", "[]"] {
            assert!(check_line(bad).is_err(), "{bad}");
        }
    }
}
