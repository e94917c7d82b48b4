//! The server, over HTTP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod auth;
mod chats;
mod cuts;
mod data;
mod ends;
mod folds;
mod guards;
mod keys;
mod reader;
mod stage;
mod steering;
mod tokens;
