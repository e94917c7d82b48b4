//! Everything together: what is read, mended, prepared and sent is what the providers take.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod corpus;
mod sampling;
