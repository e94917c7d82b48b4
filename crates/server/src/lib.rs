//! Everturn over HTTP.
//!
//! One process that owns a store, drives its chats and serves any number of clients: a JSON API under `/v1`, and a stream
//! of events per chat that can be cut anywhere and resumed. `docs/http-api.md` describes both. Nothing but `/healthz` and
//! `/readyz` answers without a token, on loopback too, and a chat is reached only through `access::Own`, which needs its
//! owner.

#![warn(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads")]

mod access;
mod address;
mod answers;
mod app;
mod audit;
mod body;
mod bounds;
mod checks;
mod data;
mod entropy;
mod exposition;
mod failures;
mod gather;
mod guard;
mod instance;
mod listen;
pub mod markdown;
mod meter;
mod models;
mod network;
mod offer;
mod places;
mod problem;
mod process;
mod routes;
mod serve;
mod sites;
mod stall;
mod starting;
mod stream;
mod taking;
mod tls;
pub mod wire;
mod work;

pub use address::{Address, Announced, Stay};
pub use app::Parts;
pub use body::in_plain_words;
pub use bounds::Bounds;
pub use data::{DataDir, DataError, FirstToken};
pub use instance::Instance;
pub use listen::{Entrance, Listen, NoListen};
pub use models::{BadProvider, Brought, Company, Named, bring, usual_model};
pub use network::{Network, NoNetwork};
pub use offer::Offered;
pub use problem::{Kind, Problem};
pub use routes::openapi;
pub use serve::{Reach, Server, StartError};
pub use sites::{BadSite, Site};
pub use tls::{Tls, TlsError};
