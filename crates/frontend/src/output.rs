//! What commands say.
//!
//! Whoever reads may have heard enough, as `head` has, or may be gone, as a window that was closed. That is no failure
//! of the command, and no reason to end in the middle of something.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use crate::terminal::visible;

/// Prints a line, as the standard macro does, and goes on if nobody reads it.
#[macro_export]
macro_rules! println {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}
pub use crate::println;

/// Prints a line.
///
/// # Panics
/// It cannot be written, as on a disk that is full.
pub fn line(words: Arguments<'_>) {
    match writeln!(io::stdout(), "{words}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("nothing can be printed: {error}"),
        _ => {}
    }
}

/// Whether a command says on standard error what happens beside its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asides {
    /// It does.
    On,
    /// It does not.
    Off,
}

impl Asides {
    /// Says something, if that is wanted.
    pub fn say(self, words: impl Display) {
        if self == Self::On {
            aside(words);
        }
    }
}

/// Says something beside what a command prints, which may be the words of others. Who has closed standard error does not
/// want to hear it.
pub fn aside(words: impl Display) {
    let _ = writeln!(io::stderr(), "everturn: {}", visible(&words.to_string()));
}

/// What went wrong, the causes behind it, each once: a cause whose words stand in the message before it says nothing new.
pub fn causes(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told.push_str(": ");
            told.push_str(&cause);
        }
    }
    told
}

/// Prints something as one line of JSON, with nothing in it that a terminal would obey.
pub fn json(what: &impl serde::Serialize) -> serde_json::Result<()> {
    let text = serde_json::to_string(what)?;
    match io::stdout().is_terminal() {
        true => line(format_args!("{}", visible::json(&text))),
        false => line(format_args!("{text}")),
    }
    Ok(())
}

/// Asks whoever sits at the terminal, and says whether the answer is yes.
pub fn is_sure(question: Arguments<'_>) -> io::Result<bool> {
    sign(question);
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Shows a sign of life, as it is written. A terminal that is gone needs none.
pub fn sign(words: Arguments<'_>) {
    let _ = write!(io::stderr(), "{words}");
}

/// Whether whoever reads has heard enough.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    /// C9: an error that repeats its cause in its own words is told once.
    #[test]
    fn causes_are_told_once() {
        let root = || anyhow!("no such file");
        let repeated = root().context("a.toml: no such file").context("the configuration");
        assert_eq!(causes(&repeated), "the configuration: a.toml: no such file");
        let plain: anyhow::Result<()> = Err(root()).context("b.toml cannot be read");
        assert_eq!(causes(&plain.unwrap_err()), "b.toml cannot be read: no such file");
    }
}
