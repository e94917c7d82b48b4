//! Over real sockets, with a client that sees every byte.

mod background;
mod client;
mod encode;
mod faults;
mod front;
mod interactions;
mod whole;
