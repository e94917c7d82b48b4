//! Server-sent events, from bytes.
//!
//! All four wires arrive as an event stream, cut by the network wherever it likes: inside a line, between CR and LF,
//! inside a character. This is the parser of the HTML standard as a fold: feed it bytes in any pieces and the same events
//! come out. It waits for nothing and allocates for what is unfinished only. What a peer sends is bounded: a line, an
//! event, and the answer as a whole. What is not UTF-8 becomes U+FFFD, as the standard has it, and is for the JSON parser
//! to judge.

use everturn_core::limits::Limits;
use memchr::{memchr, memchr2};

#[cfg(test)]
mod tests;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Its name; empty if it has none.
    pub name: &'a str,
    /// Its data, lines joined with a line feed.
    pub data: &'a str,
    /// The newest id in the stream so far; empty if there was none.
    pub id: &'a str,
    /// Whether this event brought that id itself.
    pub has_id: bool,
}

/// How much a peer may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseBounds {
    /// One line.
    pub line_bytes_max: usize,
    /// The data of one event.
    pub frame_bytes_max: usize,
    /// Everything.
    pub response_bytes_max: usize,
}

impl From<&Limits> for SseBounds {
    fn from(limits: &Limits) -> Self {
        Self {
            line_bytes_max: limits.line_bytes_max,
            frame_bytes_max: limits.frame_bytes_max,
            response_bytes_max: limits.response_bytes_max,
        }
    }
}

/// A bound that the peer went beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Overlong {
    /// A line.
    #[error("a line of more than {0} bytes")]
    Line(usize),
    /// An event.
    #[error("an event of more than {0} bytes")]
    Frame(usize),
    /// The answer.
    #[error("an answer of more than {0} bytes")]
    Response(usize),
}

/// How much room is kept for the next line and the next event. One that was long does not take its room for the rest of
/// the stream.
const ROOM_BYTES_KEPT: usize = 64 * 1024;

/// What is not finished yet of an event stream.
#[derive(Debug)]
pub struct Decoder {
    bounds: SseBounds,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// The data so far, each line with a line feed behind it.
    data: String,
    name: String,
    id: String,
    has_id: bool,
    read: usize,
    at: Place,
}

/// Where in the stream the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the very first line, which may begin with a byte order mark.
    FirstLine,
    /// Right behind a CR, where an LF is part of the same line end.
    AfterCr,
    Elsewhere,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    #[must_use]
    pub fn new(bounds: SseBounds) -> Self {
        Self {
            bounds,
            line: Vec::new(),
            data: String::new(),
            name: String::new(),
            id: String::new(),
            has_id: false,
            read: 0,
            at: Place::FirstLine,
        }
    }

    /// Takes the next bytes and hands on every event they complete, until one is answered with an error. After an error
    /// the decoder is done for.
    ///
    /// An event that the end of the stream cuts short is none: nothing needs to be called there.
    pub fn push<E: From<Overlong>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // What is within the bound is read, whatever it comes in one piece with.
        let (within, beyond) = bytes.split_at(bytes.len().min(self.bounds.response_bytes_max - self.read));
        self.read += within.len();
        self.take(within, &mut each)?;
        if beyond.is_empty() { Ok(()) } else { Err(Overlong::Response(self.bounds.response_bytes_max).into()) }
    }

    fn take<E: From<Overlong>>(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.at == Place::AfterCr {
                self.at = Place::Elsewhere;
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
                continue;
            }
            let end = memchr2(b'\r', b'\n', bytes);
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > self.bounds.line_bytes_max {
                return Err(Overlong::Line(self.bounds.line_bytes_max).into());
            }
            let Some(end) = end else {
                self.line.extend_from_slice(piece);
                return Ok(());
            };
            if self.line.is_empty() {
                self.line(piece, each)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                self.line(&line, each)?;
                line.clear();
                line.shrink_to(ROOM_BYTES_KEPT);
                self.line = line; // For its room.
            }
            self.at = if bytes[end] == b'\r' { Place::AfterCr } else { Place::Elsewhere };
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Takes a whole line, without its end.
    fn line<E: From<Overlong>>(
        &mut self,
        mut line: &[u8],
        each: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at == Place::FirstLine {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(each);
        }
        let (field, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (line, &b""[..]),
        };
        match field {
            b"data" | b"error" => {
                if field == b"error" {
                    "error".clone_into(&mut self.name); // Not of the standard: how llama.cpp tells of an error.
                }
                let text = String::from_utf8_lossy(value);
                if self.data.len() + text.len() > self.bounds.frame_bytes_max {
                    return Err(Overlong::Frame(self.bounds.frame_bytes_max).into());
                }
                self.data.push_str(&text);
                self.data.push('\n');
            }
            b"event" => {
                self.name.clear();
                self.name.push_str(&String::from_utf8_lossy(value));
            }
            b"id" if memchr(0, value).is_none() => {
                self.id.clear();
                self.id.push_str(&String::from_utf8_lossy(value));
                self.has_id = true;
            }
            _ => {} // A comment, `retry`, or something newer than the standard.
        }
        Ok(())
    }

    /// An empty line ends an event; one without data is none.
    fn dispatch<E>(&mut self, each: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>) -> Result<(), E> {
        let handled = match self.data.strip_suffix('\n') {
            Some(data) => each(SseEvent { name: &self.name, data, id: &self.id, has_id: self.has_id }),
            None => Ok(()),
        };
        self.data.clear();
        self.data.shrink_to(ROOM_BYTES_KEPT);
        self.name.clear();
        self.name.shrink_to(ROOM_BYTES_KEPT);
        self.has_id = false;
        handled
    }
}
