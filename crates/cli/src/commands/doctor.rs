//! What is wrong with what is kept, and what can be done about it.

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

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn doctor
  everturn doctor 9n2x4c --fix
  everturn doctor ~/.claude/projects/-work/0f3c.jsonl
  everturn doctor messages.json --fix --out mended.json";

/// How many findings of one chat are told in full.
const TOLD_LEN_MAX: usize = 50;

/// Whom to look at, and whether to mend.
#[derive(clap::Args)]
pub struct Doctor {
    /// A chat, by its id or as much of its beginning or end as is unique, or a file with a session of another program;
    /// everything that is kept if left out.
    #[arg(value_name = "CHAT | FILE")]
    patient: Option<String>,
    /// Mend what can be mended. Of a file, a mended copy becomes a new chat. No server may run on the data directory then.
    #[arg(long)]
    fix: bool,
    /// With --fix: write the mended session of a file to this new file, and make no chat.
    #[arg(long, value_name = "FILE", requires = "fix")]
    out: Option<PathBuf>,
    /// With --fix: the agent of the new chat.
    #[arg(long, value_name = "NAME", default_value = crate::config::AGENT)]
    agent: String,
    #[command(flatten)]
    place: Where,
}

/// How somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    /// Nothing is wrong, or nothing is any more.
    Good,
    /// Something is wrong.
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
            Patient::All => store::check(self, &mut out).await?,
            Patient::File(file) => session::check(self, file, &mut out).await?,
            Patient::Chat(piece) => chat::check(self, piece, &mut out).await?,
        };
        Ok(match health {
            Health::Good => ExitCode::SUCCESS,
            Health::Bad => ExitCode::from(1),
        })
    }

    /// Whom to look at; or what is wrong with asking so.
    fn patient(&self) -> anyhow::Result<Patient<'_>> {
        let Some(name) = &self.patient else {
            ensure!(self.out.is_none(), "--out is for a file: name one");
            return Ok(Patient::All);
        };
        if Path::new(name).is_file() {
            if self.fix && self.out.is_none() {
                let agents = self.place.agents()?;
                let names = agents.join(", ");
                ensure!(agents.contains(&self.agent), "there is no agent `{}`; there are {names}", self.agent);
            }
            return Ok(Patient::File(Path::new(name)));
        }
        ensure!(piece(name).is_ok(), "{} is neither a file nor a chat", visible::line(name, 100));
        ensure!(self.out.is_none(), "--out is for a file: {name} is a chat");
        Ok(Patient::Chat(name))
    }
}

/// Whom to look at.
enum Patient<'a> {
    All,
    File(&'a Path),
    /// By a piece of its id.
    Chat(&'a str),
}

/// Tells what was found, each with why it matters and what mending does.
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

/// Tells what requests do not show of a transcript.
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

/// So many of something.
fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}
