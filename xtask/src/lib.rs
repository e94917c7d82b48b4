//! The chores of this repository, as a library, so that the command and the tests share them.
//!
//! Everything a contributor or a CI machine has to do is one subcommand here. There is no second script that does almost
//! the same: a rule is either a chore, a test of a chore, or not a rule.

pub mod acceptance;
pub mod bench;
pub mod clock;
pub mod dist;
pub mod gate;
pub mod interop;
pub mod picture;
pub mod rust;
pub mod tidy;
pub mod workspace;
