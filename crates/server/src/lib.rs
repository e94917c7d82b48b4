//! Everturn over HTTP.
//!
//! One process that owns a store, drives its chats and serves any number of clients: a JSON API under `/v1`, and a stream
//! of events per chat that can be cut anywhere and resumed. `docs/http-api.md` describes both. Nothing but `/healthz`,
//! `/readyz` and the files of the web page answers without a token, on loopback too, and a chat is reached only through
//! `access::OwnedChat`, which needs its owner.

#![warn(clippy::print_stdout, clippy::print_stderr, reason = "they panic when the pipe is closed")]

mod api;
mod app;
mod auth;
mod entropy;
mod fronts;
mod metrics;
mod net;
mod page;
mod setup;

pub use api::problem::{Problem, ProblemKind};
pub use api::request::in_plain_words;
pub use api::routes::openapi;
pub use api::{markdown, wire};
pub use app::{Drill, McpStates, ServerParts, WorkspaceService};
pub use auth::cors::{BadSite, Site};
pub use auth::proxies::{BadNetwork, Network};
pub use fronts::front_routes;
pub use fronts::gateway::GATEWAY_AGENT;
pub use net::listen::{BadListenAddress, ListenAddress, ListenerConfig};
pub use net::serve::{Reach, Server, StartError};
pub use net::tls::{Tls, TlsError};
pub use page::PageFile;
pub use setup::address::{AnnouncedAddress, ServerAddress, ServerLifetime};
pub use setup::data::{DataDir, DataError, FirstToken};
pub use setup::instance::Instance;
pub use setup::limits::ServerLimits;
pub use setup::models::{
    BadProvider, ConnectedProviders, NamedProvider, ProviderSetup, connect_providers, default_model,
};
pub use setup::offer::ModelOffer;
