//! `cargo xtask …`: test, tidy, acceptance, bench, dist, interop, picture.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::gate::Step;
use xtask::interop::Peer;
use xtask::{acceptance, bench, dist, gate, interop, picture, tidy, workspace};

/// Everturn's chores.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run everything a change must pass, in order, up to the first failure
    Test {
        /// Run these steps alone (repeat it, or separate with commas)
        #[arg(long, value_name = "STEP", value_delimiter = ',')]
        only: Vec<Step>,
        /// Run what a developer runs before each commit: format, house rules, lints and the tests that take milliseconds
        #[arg(long, conflicts_with = "only")]
        quick: bool,
        /// Print the steps and what each runs
        #[arg(long)]
        list: bool,
    },
    /// Check sizes, words, dependency direction and the other house rules
    Tidy,
    /// Show which behaviour of docs/acceptance.md is held by which test
    Acceptance {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// Use the results of the last run, if there are any, instead of running the tests
        #[arg(long)]
        no_run: bool,
    },
    /// Run one benchmark
    Bench {
        /// The benchmark: the file name in some crate's `benches/`, without `.rs`
        #[arg(required_unless_present = "list")]
        name: Option<String>,
        /// One JSON object a line, checked against the contract
        #[arg(long)]
        json: bool,
        /// Print the benchmarks there are
        #[arg(long)]
        list: bool,
    },
    /// Build a release: a stripped binary, its SBOM and their SHA-256 sums
    ///
    /// Writes everturn-VERSION-TARGET, everturn-VERSION-TARGET.cdx.json (CycloneDX 1.5) and SHA256SUMS. The sums are those of
    /// all targets of the version in the directory: run it once for each target.
    Dist(dist::Dist),
    /// Try other people's clients on the understudy, and our adapters on other people's servers
    Interop {
        /// Try these alone (repeat it, or separate with commas)
        #[arg(long, value_name = "PEER", value_delimiter = ',')]
        only: Vec<Peer>,
    },
    /// Run the demo and draw its screen for the README
    Picture {
        /// What the demo's chance begins with
        #[arg(long, default_value_t = 7)]
        seed: u64,
        /// What `everturn demo --columns 100` wrote before, instead of a new run
        #[arg(long, value_name = "FILE")]
        from: Option<std::path::PathBuf>,
    },
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
        Chore::Test { list: true, .. } => Ok(gate::list()),
        Chore::Test { quick: true, .. } => gate::run(&root, Step::QUICK),
        Chore::Test { only, .. } => gate::run(&root, &only),
        Chore::Tidy => tidy::report(&root),
        Chore::Acceptance { json, no_run } => {
            let source = if no_run { acceptance::Source::LastRun } else { acceptance::Source::FreshRun };
            let form = if json { acceptance::Form::Json } else { acceptance::Form::Table };
            acceptance::run(&root, source, form)
        }
        Chore::Dist(dist) => dist::run(&root, &dist),
        Chore::Picture { seed, from } => picture::run(&root, seed, from.as_deref()),
        Chore::Interop { only } => interop::run(&root, &only),
        Chore::Bench { list: true, .. } => bench::list(&root),
        Chore::Bench { name, json, list: false } => {
            let name = name.expect("clap asks for a name unless --list is given");
            bench::run(&root, &name, if json { bench::Form::Json } else { bench::Form::Text })
        }
    }
}
