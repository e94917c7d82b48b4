//! The engine, seen from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod after_crash;
mod asks;
mod away;
mod bounds;
mod budgets;
mod call_hooks;
mod chaining;
mod choosing;
mod clock;
mod commands;
mod compaction;
mod cost;
mod crash;
mod crashes;
mod draining;
#[path = "../../examples/embed.rs"]
mod embed;
mod endings;
#[path = "../../examples/approvals.rs"]
mod example_approvals;
#[path = "../../examples/cursors.rs"]
mod example_cursors;
#[path = "../../examples/hooks.rs"]
mod example_hooks;
#[path = "../../examples/metrics.rs"]
mod example_metrics;
#[path = "../../examples/providers.rs"]
mod example_providers;
#[cfg(feature = "sqlite")]
#[path = "../../examples/resume.rs"]
mod example_resume;
#[path = "../../examples/tools.rs"]
mod example_tools;
mod fallback;
mod families;
mod governor;
mod handles;
#[path = "../../examples/hosted.rs"]
mod hosted;
mod interrupts;
mod kept;
mod ladder;
mod long;
mod looks;
mod metrics;
mod orphans;
mod outcomes;
mod overflow;
mod panics;
mod pauses;
mod permissions;
mod places;
#[cfg(feature = "sqlite")]
mod power;
mod progress;
mod quarantine;
mod read;
mod rests;
mod retries;
mod seams;
mod sharing;
mod silence;
mod stage;
mod steers;
mod stepwise;
mod sub_agents;
mod tools;
mod trouble;
mod turns;
mod unseen;
mod unsummarised;
mod wires;
mod wishes;

#[test]
fn the_examples_run() {
    embed::main().unwrap();
    hosted::main().unwrap();
    example_approvals::main().unwrap();
    example_cursors::main().unwrap();
    example_hooks::main().unwrap();
    example_metrics::main().unwrap();
    example_providers::main().unwrap();
    #[cfg(feature = "sqlite")]
    example_resume::main().unwrap();
    example_tools::main().unwrap();
}
