//! What a server starts with: data directory, providers, offered models, limits, and the address file.

pub(crate) mod address;
pub(crate) mod data;
pub(crate) mod instance;
pub(crate) mod limits;
pub(crate) mod models;
pub(crate) mod offer;
