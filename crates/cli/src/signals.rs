//! What the system tells a command that runs.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that tell a command to end: of Ctrl-C, of `kill`, of a window that is closed.
pub struct Ends {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Ends {
    /// Listens to them. From now on none ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
            _ = self.hup.recv() => {}
        }
    }
}
