//! Support for Everturn's tests. Nothing here is part of the product.

extern crate self as everturn_testkit; // Files here are compiled by the unit tests of other crates, too.

pub mod conformance;
mod layer;
pub mod rehearsal;

pub use layer::{Access, Layered, StoreLayer};
