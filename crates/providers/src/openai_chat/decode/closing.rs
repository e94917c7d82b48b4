//! Where a JSON object ends.
//!
//! This wire does not say when a call's input is complete, but JSON does: an object is over with the brace that closes
//! the first one. So the braces are counted as the pieces come, in one pass, without parsing anything twice.

/// A JSON text, as far as it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::openai_chat) enum Closing {
    /// Nothing but white space.
    #[default]
    Before,
    /// Within an object.
    Within { depth: u32, string: InString },
    /// The object is over.
    Over,
    /// Something that is no object, and does not tell by itself where it ends.
    Other,
}

/// Whether a string is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::openai_chat) enum InString {
    No,
    Yes,
    /// Behind a backslash.
    Escaped,
}

impl Closing {
    /// Takes the next piece, and says how many of its bytes belong to the text: all, unless the object ends in it.
    pub fn push(&mut self, piece: &str) -> usize {
        for (at, byte) in piece.bytes().enumerate() {
            *self = self.step(byte);
            if *self == Self::Over {
                return at + 1;
            }
        }
        piece.len()
    }

    const fn step(self, byte: u8) -> Self {
        use InString::{Escaped, No, Yes};
        match (self, byte) {
            (Self::Before, b' ' | b'\t' | b'\r' | b'\n') => Self::Before,
            (Self::Before, b'{') => Self::Within { depth: 1, string: No },
            (Self::Before | Self::Other, _) => Self::Other,
            (Self::Within { depth, string: Escaped }, _) => Self::Within { depth, string: Yes },
            (Self::Within { depth, string: Yes }, b'\\') => Self::Within { depth, string: Escaped },
            (Self::Within { depth, string: Yes }, b'"') => Self::Within { depth, string: No },
            (Self::Within { depth, string: No }, b'"') => Self::Within { depth, string: Yes },
            (Self::Within { depth, string: No }, b'{' | b'[') => {
                Self::Within { depth: depth.saturating_add(1), string: No }
            }
            (Self::Within { depth: 1, string: No }, b'}' | b']') => Self::Over,
            (Self::Within { depth, string: No }, b'}' | b']') => Self::Within { depth: depth - 1, string: No },
            (Self::Within { .. } | Self::Over, _) => self,
        }
    }
}
