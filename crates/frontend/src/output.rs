//! Output of commands.
//!
//! The reader may close the pipe early, as `head` does, or the window may be closed. That is no failure of
//! the command, and no reason to stop in the middle of something.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use crate::terminal::visible;

/// Prints a line, as the standard macro does, and ignores a closed pipe.
#[macro_export]
macro_rules! println {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}
pub use crate::println;

/// Prints a line.
///
/// # Panics
/// Writing fails for another reason, such as a full disk.
pub fn line(words: Arguments<'_>) {
    match writeln!(io::stdout(), "{words}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => panic!("nothing can be printed: {error}"),
        _ => {}
    }
}

/// Whether a command prints notes on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asides {
    /// Notes are printed.
    On,
    /// Notes are dropped.
    Off,
}

impl Asides {
    /// Prints a note, if notes are on.
    pub fn say(self, words: impl Display) {
        if self == Self::On {
            aside(words);
        }
    }
}

/// Prints a note on standard error, with control characters made visible. A closed standard error is ignored.
pub fn aside(words: impl Display) {
    let _ = writeln!(io::stderr(), "everturn: {}", visible(&words.to_string()));
}

/// An error with its causes, each once: a cause that the message before it already contains is left out.
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

/// Prints a value as one line of JSON, with control characters escaped.
pub fn json(what: &impl serde::Serialize) -> serde_json::Result<()> {
    let text = serde_json::to_string(what)?;
    match io::stdout().is_terminal() {
        true => line(format_args!("{}", visible::json(&text))),
        false => line(format_args!("{text}")),
    }
    Ok(())
}

/// Asks a question on the terminal; returns whether the answer is yes.
pub fn is_sure(question: Arguments<'_>) -> io::Result<bool> {
    sign(question);
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Prints a progress sign on standard error; a closed terminal is ignored.
pub fn sign(words: Arguments<'_>) {
    let _ = write!(io::stderr(), "{words}");
}

/// Whether the reader has closed the pipe.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    /// A cause that is part of the error's message is printed once.
    #[test]
    fn causes_are_printed_once() {
        let root = || anyhow!("no such file");
        let repeated = root().context("a.toml: no such file").context("the configuration");
        assert_eq!(causes(&repeated), "the configuration: a.toml: no such file");
        let plain: anyhow::Result<()> = Err(root()).context("b.toml cannot be read");
        assert_eq!(causes(&plain.unwrap_err()), "b.toml cannot be read: no such file");
    }
}
