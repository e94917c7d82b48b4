//! What is written to a terminal.
//!
//! Words of models, tools and people are never passed on as they are: they could move the cursor, colour a lie or turn
//! the reading direction. Every word on its way to the screen is a [`style::Span`], and making one makes such characters visible.

pub mod editor;
pub mod markdown;
pub mod screen;

pub use everturn_frontend::terminal::{Ink, Line, Look, style, visible, wrap};
