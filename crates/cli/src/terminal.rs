//! Terminal output.
//!
//! Text of models, tools and users is never written as it is: it could move the cursor, fake colours or
//! reverse the reading direction. All text for the screen is a [`style::Span`], whose constructor makes such
//! characters visible.

pub mod editor;
pub mod markdown;
pub mod screen;

pub use everturn_frontend::terminal::{Ink, Line, Look, style, visible, wrap};
