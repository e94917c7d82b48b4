//! What the system tells a command that runs.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that tell a command to end.
pub struct Ends {
    int: Signal,
    term: Signal,
    /// Only for whoever needs the window: `nohup` lets others outlive it.
    hup: Option<Signal>,
}

impl Ends {
    /// Those of Ctrl-C and of `kill`. From now on neither ends the process by itself.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())?, hup: None })
    }

    /// These, and that of a window that is closed.
    pub fn of_window() -> io::Result<Self> {
        Ok(Self { hup: Some(signal(SignalKind::hangup())?), ..Self::listen()? })
    }

    /// Waits for the next of them.
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
