//! Text on its way to a terminal.
//!
//! Output of models, tools and people is never written as it is: it could move the cursor, forge colours or change the
//! reading direction. All text for the screen is made of [`style::Span`]s, and making one makes such characters visible.

pub mod style;
pub mod visible;
pub mod wrap;

pub use style::{Ink, Line, Look};
pub use visible::visible;
