//! The subcommands, one module each.

pub mod archive;
pub mod asks;
pub mod backup;
pub mod chat;
pub mod chats;
pub mod completions;
pub mod config;
pub mod delete;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod mcp;
pub mod open;
pub mod replay;
pub mod run;
pub mod serve;
pub mod status;
pub mod tokens;
pub mod understudy;
