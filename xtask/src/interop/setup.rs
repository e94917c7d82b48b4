//! What the checks need, fetched once and kept under `target/interop`.
//!
//! Versions are pinned beside the checks. As long as those files stay as they are, nothing is fetched again, so a second
//! run needs no network.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::child::shown;

const OFFLINE: &str = "what it needs could not be installed, see above. This takes a network once; after that \
                       everything is in target/interop and no network is needed";
const NO_PYTHON: &str = "install Python 3.10 or later with venv and pip (Debian: apt install python3 python3-venv)";
const NO_PROMTOOL: &str = "install promtool, which is part of Prometheus (Debian: apt install prometheus)";
const NO_NODE: &str = "install Node.js 20 or later with npm";

/// A Python with what `requirements.txt` asks for.
pub fn python(checks: &Path, made: &Path) -> Result<PathBuf> {
    let pins = std::fs::read_to_string(checks.join("requirements.txt"))?;
    let python = made.join("bin").join("python");
    if is_made(made, &pins) && python.is_file() {
        return Ok(python);
    }
    eprintln!("== fetching what the Python checks need into {}", made.display());
    forget(made)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(made), NO_PYTHON)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    run(pip.arg(checks.join("requirements.txt")), OFFLINE)?;
    made_with(made, &pins)?;
    Ok(python)
}

/// A directory with the checks and what `package-lock.json` asks for: modules are looked for beside the checks.
pub fn node(checks: &Path, made: &Path) -> Result<PathBuf> {
    let pins = std::fs::read_to_string(checks.join("package-lock.json"))?;
    let fresh = is_made(made, &pins);
    if !fresh {
        forget(made)?;
    }
    std::fs::create_dir_all(made)?;
    for file in std::fs::read_dir(checks)? {
        let file = file?;
        if file.file_type()?.is_file() {
            std::fs::copy(file.path(), made.join(file.file_name()))?;
        }
    }
    if !fresh {
        eprintln!("== fetching the Node SDKs and aimock into {}", made.display());
        run(Command::new("node").arg("--version"), NO_NODE)?;
        run(
            Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(made),
            OFFLINE,
        )?;
        made_with(made, &pins)?;
    }
    Ok(made.to_owned())
}

/// promtool: the machine's, or that of Debian's package, which is unpacked and not installed.
pub fn promtool(made: &Path) -> Result<PathBuf> {
    if Command::new("promtool").arg("--version").output().is_ok() {
        return Ok("promtool".into());
    }
    let promtool = made.join("usr/bin/promtool");
    if !promtool.is_file() {
        eprintln!("== fetching promtool into {}", made.display());
        forget(made)?;
        std::fs::create_dir_all(made)?;
        run(Command::new("apt-get").args(["download", "prometheus"]).current_dir(made), NO_PROMTOOL)?;
        let package = std::fs::read_dir(made)?.next().context("apt-get downloaded nothing")??;
        run(Command::new("dpkg-deb").arg("--extract").arg(package.path()).arg(made), NO_PROMTOOL)?;
    }
    Ok(promtool)
}

/// The version of an installed Node package.
pub fn version(package: &Path) -> Result<String> {
    let text = std::fs::read_to_string(package.join("package.json"))?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    json["version"].as_str().map(str::to_owned).context("a package without a version")
}

/// Where it is written down with which pins a directory was made.
fn stamp(made: &Path) -> PathBuf {
    made.join("made-with")
}

fn is_made(made: &Path, pins: &str) -> bool {
    std::fs::read_to_string(stamp(made)).is_ok_and(|with| with == pins)
}

fn made_with(made: &Path, pins: &str) -> Result<()> {
    Ok(std::fs::write(stamp(made), pins)?)
}

/// Removes a directory, if it is there.
pub fn forget(made: &Path) -> Result<()> {
    match std::fs::remove_dir_all(made) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Runs a step of the setup; `advice` is what helps if it fails.
fn run(command: &mut Command, advice: &str) -> Result<()> {
    let shown = shown(command);
    eprintln!("   {shown}");
    match command.stdout(std::io::stderr()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{shown} ended with {status}: {advice}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!("{shown} cannot be found: {advice}"),
        Err(error) => Err(error).with_context(|| format!("{shown} could not be started")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_helps() {
        let missing = run(&mut Command::new("no-such-program-of-anybody"), NO_NODE).expect_err("there is none");
        assert_eq!(
            missing.to_string(),
            "no-such-program-of-anybody cannot be found: install Node.js 20 or later with npm"
        );
        let failed = run(Command::new("git").arg("no-such-verb"), OFFLINE).expect_err("git has no such verb");
        assert!(failed.to_string().contains("This takes a network once"), "{failed}");
    }
}
