//! providers

pub mod classify;
