//! Signals that end a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command.
pub struct Ends {
    int: Signal,
    term: Signal,
    /// SIGHUP, only for commands that need the window: with `nohup` others survive it.
    hup: Option<Signal>,
}

impl Ends {
    /// Handles SIGINT and SIGTERM. From now on neither ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())?, hup: None })
    }

    /// Handles SIGINT, SIGTERM, and SIGHUP of a closed window.
    pub fn of_window() -> io::Result<Self> {
        Ok(Self { hup: Some(signal(SignalKind::hangup())?), ..Self::listen()? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        let hup = async {
            match &mut self.hup {
                Some(hup) => hup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
            _ = hup => {}
        }
    }
}
