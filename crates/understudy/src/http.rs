//! The stand-in as a server: the same scripts, over real sockets, in the providers' own formats.
//!
//! What an adapter makes of bytes can only be tested with bytes. So this speaks HTTP/1.1 and HTTP/2 on loopback, serves
//! all four wires from one [`Understudy`], refuses what the real provider would refuse in its own words, keeps every
//! request for tests to read, and breaks on cue: by script, by the model's name, or by chance and a seed.
//!
//! ```
//! use everturn_core::message::Stop;
//! use everturn_understudy::http::{UnderstudyOptions, UnderstudyServer};
//! use everturn_understudy::{Understudy, script, stop, text};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let understudy = Understudy::new([script([text("Hello."), stop(Stop::End)])]);
//! let server = UnderstudyServer::start(understudy, UnderstudyOptions::default()).await?;
//! println!("POST {}/v1/messages", server.url());
//! # Ok(())
//! # }
//! ```

mod act;
mod answer;
mod background;
mod connection;
mod dialect;
mod fault;
mod log;
mod play;
mod route;
mod sse;
mod state;
#[cfg(test)]
mod tests;
mod whole;
mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub use crate::fault::{Fault, UnknownFault};
pub use log::{Logged, SentAnswer};
use state::ServerState;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::play::Understudy;

/// The key it expects when no other is named.
pub const KEY: &str = "understudy";

/// How a server is run.
#[derive(Debug, Clone)]
pub struct UnderstudyOptions {
    /// Where it listens. Port 0 takes a free one.
    pub address: SocketAddr,
    /// The key every request must carry, the way its provider wants it.
    pub key: String,
    /// What goes wrong with every request.
    pub faults: Vec<Fault>,
    /// How probable it is that something goes wrong with a request besides.
    pub chaos: f64,
    /// What chance begins with.
    pub seed: u64,
    /// The most bytes of a request.
    pub request_bytes_max: usize,
    /// How many requests are kept for tests to read; the oldest go first.
    pub log_len_max: usize,
    /// The number of responses kept for later requests.
    pub kept_len_max: usize,
}

impl Default for UnderstudyOptions {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            key: KEY.into(),
            faults: Vec::new(),
            chaos: 0.0,
            seed: 0,
            request_bytes_max: 64 << 20,
            log_len_max: 10_000,
            kept_len_max: 1_000,
        }
    }
}

/// A server that runs until it is dropped.
pub struct UnderstudyServer {
    address: SocketAddr,
    state: Arc<ServerState>,
    stop: CancellationToken,
}

impl UnderstudyServer {
    /// Listens, and answers as `understudy` does.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn start(understudy: Understudy, options: UnderstudyOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let state = Arc::new(ServerState::new(understudy, options, stop.clone()));
        tokio::spawn(connection::accept(listener, state.clone(), stop.clone()));
        Ok(Self { address, state, stop })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a base URL, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, the refused ones too.
    #[must_use]
    pub fn requests(&self) -> Vec<Logged> {
        self.state.log().entries()
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections_open(&self) -> usize {
        self.state.connections_open()
    }
}

impl Drop for UnderstudyServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl std::fmt::Debug for UnderstudyServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}
