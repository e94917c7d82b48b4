//! Support for Everturn's tests. Nothing here is part of the product.

mod layer;

pub use layer::{Access, Layered, StoreLayer};
