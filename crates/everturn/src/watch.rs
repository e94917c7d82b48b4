//! How readers learn that something changed: signals between tasks, subscriptions to one chat, feeds of an owner's chats.

pub(crate) mod feed;
pub(crate) mod hub;
pub(crate) mod poll;
pub(crate) mod signal;
pub(crate) mod subscription;
