//! What commands say.
//!
//! Whoever reads may have heard enough, as `head` has, or may be gone, as a window that was closed. That is no failure
//! of the command, and no reason to end in the middle of something.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write as _};

use crate::terminal::visible;

/// Prints a line, as the standard macro does, and goes on if nobody reads it.
macro_rules! println {
    ($($words:tt)*) => { $crate::out::line(format_args!($($words)*)) };
}
pub(crate) use println;

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

/// Says something beside what a command prints, which may be the words of others. Who has closed standard error does not
/// want to hear it.
pub fn aside(words: impl Display) {
    let _ = writeln!(io::stderr(), "everturn: {}", visible(&words.to_string()));
}

/// Shows a sign of life, as it is written. A terminal that is gone needs none.
pub fn sign(words: Arguments<'_>) {
    let _ = write!(io::stderr(), "{words}");
}

/// Whether whoever reads has heard enough.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
