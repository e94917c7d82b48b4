//! The command itself, as its users run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod chat;
mod config;
mod config_page;
mod crowd;
mod daemon;
mod demo;
mod deploy;
mod doctor;
mod first_look;
mod gateway;
mod http_api;
mod leaving;
mod line;
mod looking;
mod mcp;
mod memory;
#[path = "../../../mcp/tests/it/oauth_site.rs"]
#[allow(dead_code, reason = "the tests of the library use more of it")]
mod oauth_site;
mod operations;
mod outage;
mod pipes;
mod process;
mod providers;
mod pty;
mod reach;
#[path = "../../../server/tests/it/reader.rs"]
#[allow(dead_code, reason = "the server's own tests use all of it")]
mod reader;
mod recordings;
mod replicas;
mod run;
mod secrets;
mod serve;
mod sessions;
mod settings;
mod shortage;
mod slashes;
mod stage;
mod stopping;
mod storms;
mod table;
mod traces;
mod walk;
mod weather;
mod workspaces;
