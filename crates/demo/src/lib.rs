//! `everturn demo`: a proof that every user can run.
//!
//! It starts the real daemon and a stand-in for the models, lets four wires talk at once, and breaks
//! everything while they do: streams, requests, connections, the daemon itself. Then it closes the books:
//! what the models sent, what is stored, what each client was shown, what tools did. It ends with 0 only if
//! they balance.

pub mod backstage;
mod children;
mod count;
mod dice;
mod ledger;
mod page;
#[cfg(feature = "sabotage")]
mod sabotage;
mod spectator;
mod stage;
mod story;
mod style;
mod view;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use children::{Daemon, Place, Understudy};
use dice::Dice;
use everturn_frontend::entropy;
use everturn_frontend::output::{self, println};
use ledger::{Ledger, Played};
use stage::Stage;
use story::{Fault, Length, Story, Wanted, Wire};
use view::{Mode, Narrator};

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn demo
  everturn demo --seed 7
  everturn demo --wire anthropic --fault kill@137
  everturn demo --json | jq .balanced
  everturn demo --page

Faults: cut, input, stall, lose, 529, 429, kill, kill-tool, join, steer, stop. @number says at which word, as in cut@37; for input
at which call (1 to 3), for 429 how many seconds to wait (1 to 5); 529 and kill-tool take none.";

/// How often the bars are drawn.
const FRAME: Duration = Duration::from_millis(80);

/// Arguments of `everturn demo`.
#[derive(clap::Args)]
pub struct Demo {
    /// Seed of the run: the same number plays the same story.
    #[arg(long)]
    seed: Option<u64>,
    /// Play only on this wire format; repeatable.
    #[arg(long, value_name = "WIRE")]
    wire: Vec<Wire>,
    /// Play only this fault, as in kill@137; repeatable.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Print only the ledger, as JSON.
    #[arg(long)]
    json: bool,
    /// Use shorter answers.
    #[arg(long)]
    quick: bool,
    /// Keep the directory with the daemon's data and log, and print its path.
    #[arg(long)]
    keep: bool,
    /// Serve the web page instead, with buttons that cut the model's stream and kill the server; it comes back.
    #[arg(long, conflicts_with_all = ["seed", "wire", "fault", "json", "quick", "columns"])]
    page: bool,
    /// Show bars this wide even where there is no terminal.
    #[arg(long, hide = true)]
    columns: Option<usize>,
}

impl Demo {
    /// Plays the story. Exit codes: 0 the ledger balances, 1 it does not, 130 interrupted.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.page {
            return page::run(self.keep).await;
        }
        let mode = if self.json { Mode::Silent } else { Mode::detect(self.columns) };
        let narrator = Arc::new(Narrator::new(mode));
        let mut terminated = signal(SignalKind::terminate())?;
        let drawing = tokio::spawn(draw(narrator.clone()));
        let played = tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Ok(None),
            _ = terminated.recv() => Ok(None),
            ledger = self.play(&narrator) => ledger.map(Some),
        };
        drawing.abort();
        let Some(ledger) = played? else {
            return Ok(ExitCode::from(130));
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&ledger)?);
        } else {
            narrator.end(&ledger);
        }
        Ok(if ledger.balanced { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    async fn play(&self, narrator: &Narrator) -> anyhow::Result<Ledger> {
        let began = Instant::now();
        let seed = self.seed.map_or_else(entropy::seed, Ok)?;
        let length = if self.quick { Length::Quick } else { Length::Full };
        let story = Story::new(&Wanted { seed, wires: self.wire.clone(), faults: self.fault.clone(), length });
        anyhow::ensure!(
            !story.scenes.is_empty(),
            "none of these wires can play that fault: lose needs responses or gemini"
        );
        let dir = tempfile::Builder::new().prefix("everturn-demo-").tempdir().context("no directory for the demo")?;
        let pace = length.pace();
        let understudy = Understudy::start(dir.path(), seed, pace).await?;
        let place = Place::new(dir.path(), &understudy, &story.config())?;
        let mut daemon = Daemon::start(place).await?;
        let style = narrator.style();
        narrator.say(&[
            format!("{}: all of this is real but the models, which stand-ins play.", style.bold("everturn demo")),
            format!("  the understudy plays the models on {}", understudy.url),
            format!("  the daemon {} listens on http://{}", daemon.pid(), daemon.address()),
            format!("  seed {seed}"),
            String::new(),
        ]);
        let mut all: Vec<Played> = Vec::new();
        let mut stage = Stage { understudy: &understudy, daemon: &mut daemon, narrator, dice: Dice::new(seed) };
        for (number, scene) in story.scenes.iter().enumerate() {
            narrator.scene((number, story.scenes.len()), scene);
            let played = stage.play(scene).await.with_context(|| format!("in the scene {}", scene.kind.name()))?;
            narrator.closed(scene, &Ledger::close(seed, 0.0, &played).rows);
            all.extend(played);
        }
        let ledger = Ledger::close(seed, began.elapsed().as_secs_f64(), &all);
        if self.keep {
            output::aside(format_args!("the data and the log are in {}", dir.keep().display()));
        }
        Ok(ledger)
    }
}

async fn draw(narrator: Arc<Narrator>) {
    let mut frames = tokio::time::interval(FRAME);
    loop {
        frames.tick().await;
        narrator.tick();
    }
}
