//! The store in a data directory, held to the rules of stores and to its own.

use std::sync::Arc;

use async_trait::async_trait;
use everturn_stores::sqlite::{Options, Sqlite};

use crate::scratch::Scratch;

/// A store whose directory goes with it.
pub(crate) struct Housed {
    store: Sqlite,
    _dir: Scratch,
}

impl Housed {
    fn new() -> Self {
        let dir = Scratch::new();
        let store = Sqlite::open(dir.as_ref(), &Options::default()).expect("a new directory can be used");
        Self { store, _dir: dir }
    }
}
