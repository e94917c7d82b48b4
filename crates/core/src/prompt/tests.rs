//! What is promised about prompts, by topic.

mod build;
mod generate;
mod growth;
mod hosted;
mod lean;
mod pairing;
mod people;
mod properties;
mod replies;
mod requests;
