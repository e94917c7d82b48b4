//! `everturn doctor`: find flaws in stored chats and in session files, and repair them.

mod chat;
mod lines;
mod session;
mod store;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use everturn::core::doctor::Finding;
use everturn::core::doctor::changes::PromptChanges;
use everturn::core::ids::MessageId;
use everturn::core::message::Message;
use everturn::core::prompt::WireFormat;

use crate::find_chat::piece;
use crate::offline_store::Where;
use crate::output;
use crate::terminal::visible;
use crate::workspaces::Confinement;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn doctor
  everturn doctor 9n2x4c --fix
  everturn doctor ~/.claude/projects/-work/0f3c.jsonl
  everturn doctor messages.json --fix --out mended.json";

/// Findings per chat that are printed in full.
const TOLD_LEN_MAX: usize = 50;

/// Arguments of `everturn doctor`.
#[derive(clap::Args)]
pub struct Doctor {
    /// What to check: a chat (its id, or a unique beginning or end of it) or a file with a session of another
    /// program. Checks the whole store if left out.
    #[arg(value_name = "CHAT | FILE")]
    patient: Option<String>,
    /// Repair. The repaired copy of a file becomes a new chat. No server may be running on the data
    /// directory.
    #[arg(long)]
    fix: bool,
    /// With --fix: write the repaired session to this new file instead of a chat.
    #[arg(long, value_name = "FILE", requires = "fix")]
    out: Option<PathBuf>,
    /// With --fix: the agent of the new chat.
    #[arg(long, value_name = "NAME", default_value = crate::config::AGENT)]
    agent: String,
    #[command(flatten)]
    place: Where,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    /// No flaw, or none left.
    Good,
    /// Flaws are left.
    Bad,
}

impl Health {
    const fn of(is_good: bool) -> Self {
        if is_good { Self::Good } else { Self::Bad }
    }

    fn and(self, other: Self) -> Self {
        Self::of(self == Self::Good && other == Self::Good)
    }
}

impl Doctor {
    pub async fn run(&self) -> anyhow::Result<ExitCode> {
        let patient = match self.patient() {
            Ok(patient) => patient,
            Err(why) => {
                output::aside(why);
                return Ok(ExitCode::from(2));
            }
        };
        let mut out = io::stdout().lock();
        let health = match patient {
            Patient::All => {
                let health = store::check(self, &mut out).await?;
                let confinement = Confinement::find(self.place.sandbox()?).await;
                match &confinement {
                    Ok(confinement) => writeln!(out, "tool confinement {}", confinement.told())?,
                    Err(error) => writeln!(out, "tool confinement: {error}")?,
                }
                health.and(Health::of(confinement.is_ok()))
            }
            Patient::File(file) => session::check(self, file, &mut out).await?,
            Patient::Chat(piece) => chat::check(self, piece, &mut out).await?,
        };
        Ok(match health {
            Health::Good => ExitCode::SUCCESS,
            Health::Bad => ExitCode::from(1),
        })
    }

    /// What to check; or why the arguments are wrong.
    fn patient(&self) -> anyhow::Result<Patient<'_>> {
        let Some(name) = &self.patient else {
            ensure!(self.out.is_none(), "--out needs a session file to repair: name one");
            return Ok(Patient::All);
        };
        if Path::new(name).is_file() {
            if self.fix && self.out.is_none() {
                let agents = self.place.agents()?;
                let names = agents.join(", ");
                ensure!(
                    agents.contains(&self.agent),
                    "no agent `{}` is configured; configured are {names}",
                    self.agent
                );
            }
            return Ok(Patient::File(Path::new(name)));
        }
        ensure!(piece(name).is_ok(), "{} is neither a file nor a chat", visible::line(name, 100));
        ensure!(self.out.is_none(), "--out needs a session file to repair, but {name} is a chat");
        Ok(Patient::Chat(name))
    }
}

/// What to check.
enum Patient<'a> {
    All,
    File(&'a Path),
    /// A chat, by a piece of its id.
    Chat(&'a str),
}

/// Prints the findings, each with why it matters and what a repair does.
fn tell(out: &mut impl Write, findings: &[Finding], place: impl Fn(MessageId) -> String) -> io::Result<()> {
    for finding in findings.iter().take(TOLD_LEN_MAX) {
        let Finding { message, flaw } = finding;
        writeln!(out, "  {}: {}", place(*message), visible::line(&flaw.to_string(), 200))?;
        writeln!(out, "      {}; --fix: {}", flaw.why(), flaw.repair())?;
    }
    let more = findings.len().saturating_sub(TOLD_LEN_MAX);
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    Ok(())
}

/// Prints how a request differs from the transcript.
fn tell_changes<'a>(out: &mut impl Write, transcript: impl IntoIterator<Item = &'a Message> + Clone) -> io::Result<()> {
    writeln!(out, "What a request changes:")?;
    for (wire, changes) in PromptChanges::on_all_wires(transcript) {
        let name = match wire {
            WireFormat::Anthropic => "Anthropic Messages",
            WireFormat::OpenAiResponses => "OpenAI Responses",
            WireFormat::OpenAiChat => "OpenAI Chat",
            WireFormat::Gemini => "Gemini",
        };
        writeln!(out, "  {name:<18}  {changes}")?;
    }
    Ok(())
}

/// A number with its noun.
fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}
