//! The server, over HTTP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accepted;
mod all;
mod audited;
mod auth;
mod chats;
mod choosing;
mod connections;
mod cuts;
mod data;
mod deleting;
mod documented;
mod drill;
mod ends;
mod entrances;
mod exporting;
mod families;
mod folds;
mod forking;
mod frames;
mod fronts;
mod gateway;
mod guards;
mod keys;
mod logged;
mod orphans;
mod permissions;
mod races;
mod reader;
mod sessions;
mod sluggish;
mod stage;
mod steering;
mod tokens;
mod typescript;
