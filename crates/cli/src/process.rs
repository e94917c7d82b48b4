//! This process: signals, logs, limits of the system, and a monitor for blocked threads.

pub mod descriptors;
pub mod logs;
pub mod parent;
pub mod private;
pub mod signals;
pub mod stall_monitor;
