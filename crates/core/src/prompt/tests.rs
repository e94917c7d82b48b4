//! What is promised about prompts, by topic.

pub(crate) mod build;
pub(crate) mod generate;
mod growth;
mod hosted;
mod lean;
mod pairing;
mod people;
mod properties;
mod replies;
mod requests;
