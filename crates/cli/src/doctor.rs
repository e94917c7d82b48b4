//! What is wrong with what is kept, and what can be done about it.

mod chat;
mod house;
mod session;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use everturn::core::doctor::Finding;
use everturn::core::doctor::changes::Changes;
use everturn::core::ids::{ChatId, MessageId};
use everturn::core::message::Message;
use everturn::core::prompt::Wire;

use crate::kept::Where;
use crate::visible;

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn doctor
  everturn doctor 01kdg1qg7v3m8s1t1j0a9n2x4c --fix
  everturn doctor ~/.claude/projects/-work/0f3c.jsonl
  everturn doctor messages.json --fix --out mended.json";

/// How many findings of one chat are told in full.
const TOLD_LEN_MAX: usize = 50;

/// Whom to look at, and whether to mend.
#[derive(clap::Args)]
pub struct Doctor {
    /// A chat, or a file with a session of another program; everything that is kept if left out.
    #[arg(value_name = "CHAT | FILE")]
    patient: Option<String>,
    /// Mend what can be mended. Of a file, a mended copy becomes a new chat.
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
        let mut out = io::stdout().lock();
        let health = match &self.patient {
            None if self.out.is_some() => bail!("--out is for a file: name one"),
            None => house::check(self, &mut out).await,
            Some(name) => match (Path::new(name).is_file(), name.parse::<ChatId>()) {
                (true, _) => session::check(self, Path::new(name), &mut out).await,
                (false, Ok(_)) if self.out.is_some() => bail!("--out is for a file: {name} is a chat"),
                (false, Ok(chat)) => chat::check(self, chat, &mut out).await,
                (false, Err(_)) => {
                    eprintln!("everturn: {} is neither a file nor a chat", visible::line(name, 100));
                    return Ok(ExitCode::from(2));
                }
            },
        };
        match health {
            Ok(Health::Good) => Ok(ExitCode::SUCCESS),
            Ok(Health::Bad) => Ok(ExitCode::from(1)),
            Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error),
        }
    }
}

/// Whether whoever reads has heard enough.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
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
    for (wire, changes) in Changes::on_all_wires(transcript) {
        let name = match wire {
            Wire::Anthropic => "Anthropic Messages",
            Wire::OpenAiResponses => "OpenAI Responses",
            Wire::OpenAiChat => "OpenAI Chat",
            Wire::Gemini => "Gemini",
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
