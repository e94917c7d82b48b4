//! `cargo xtask picture`: what the README shows, taken from a real run.
//!
//! A drawn picture may show what the program does not do. This one is the screen of `everturn demo`, read the way a
//! terminal reads it and written down as SVG.

mod screen;
mod svg;

use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::workspace;
use screen::Screen;

/// Where the picture goes.
const FILE: &str = "docs/demo.svg";
/// How wide its screen is.
const COLUMNS: usize = 100;

/// Draws the last screen of a run of the demo with this seed: one that was recorded in a file, or a new one.
pub fn run(root: &Path, seed: u64, recorded: Option<&Path>) -> Result<ExitCode> {
    let said = match recorded {
        Some(file) => std::fs::read_to_string(file).with_context(|| file.display().to_string())?,
        None => play(root, seed)?,
    };
    let mut screen = Screen::default();
    screen.write(&said);
    let prompt = format!("$ everturn demo --seed {seed}");
    std::fs::write(root.join(FILE), svg::draw(&prompt, &screen, COLUMNS)).context(FILE)?;
    println!("{FILE}: {} lines", screen.lines().len());
    Ok(ExitCode::SUCCESS)
}

/// What the demo writes to a terminal of our width.
fn play(root: &Path, seed: u64) -> Result<String> {
    let (columns, seed) = (COLUMNS.to_string(), seed.to_string());
    let mut command = workspace::cargo(root);
    command.args(["run", "--quiet", "--release", "--package", "everturn-cli", "--", "demo", "--seed", &seed]);
    let output = command
        .args(["--columns", &columns])
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .stderr(Stdio::inherit())
        .output();
    let output = output.context("the demo could not be started")?;
    ensure!(output.status.success(), "the demo ended with {}", output.status);
    String::from_utf8(output.stdout).context("the demo wrote something that is no text")
}
