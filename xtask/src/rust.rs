//! Reading Rust sources without compiling them.
//!
//! The rules ask about identifiers, paths and doc comments, and never about types. Tokens answer that, and unlike a
//! syntax tree they also answer it inside macro calls, where half of the tests live.

pub mod lex;
pub mod paths;
