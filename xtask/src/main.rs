//! `cargo xtask …`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{tidy, workspace};

/// Everturn's chores.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check sizes, words, dependency direction and the other house rules
    Tidy,
}

fn main() -> ExitCode {
    match run(Args::parse().chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<ExitCode> {
    let root = workspace::root();
    match chore {
        Chore::Tidy => tidy::report(&root),
    }
}
