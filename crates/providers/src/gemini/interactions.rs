//! The Interactions API: answers that outlive their stream.
//!
//! An answer of `generateContent` is lost with its connection. An interaction is not: in the background it
//! goes on at Google, each event has an id, and a request with the last id gets the rest. The price is that
//! Google stores the conversation. So this is used only where the program allows it, and only for background
//! requests.
//!
//! What is known of this wire is what Google's reference and its own clients (`@google/genai` 2.32) say. Not confirmed by
//! either, and therefore held to be as in `generateContent`: which word stands for the signature of a foreign call, and
//! what a withheld answer looks like.

mod cursor;
mod decode;
mod event;
mod request;

pub use decode::Interaction;

pub(super) use cursor::InteractionCursor;
pub(super) use request::body;

/// Where interactions begin.
pub(super) const PATH: &str = "interactions";

/// Where an interaction is read on. None if that is no id of an interaction.
pub(super) fn path(id: &str, cursor: &InteractionCursor) -> Option<String> {
    let after = match cursor.event.as_str() {
        "" => String::new(),
        event => format!("&last_event_id={}", escaped(event)),
    };
    is_plain(id).then(|| format!("{PATH}/{id}?stream=true{after}"))
}

/// Where an interaction is put to an end. None if that is no id of an interaction.
pub(super) fn cancel_path(id: &str) -> Option<String> {
    is_plain(id).then(|| format!("{PATH}/{id}/cancel"))
}

fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// A text as the value of a query.
fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids come from outside, and must not lead anywhere else.
    #[test]
    fn a_path_holds_an_id_and_nothing_else() {
        let at = |id: &str, event: &str| {
            path(id, &InteractionCursor { event: event.into(), ..InteractionCursor::default() })
        };
        assert_eq!(at("v1_a-B", ""), Some("interactions/v1_a-B?stream=true".into()));
        assert_eq!(cancel_path("v1_a-B"), Some("interactions/v1_a-B/cancel".into()));
        let after = "interactions/v1_a?stream=true&last_event_id=e%2F1%3D%3D%26x";
        assert_eq!(at("v1_a", "e/1==&x"), Some(after.into()));
        for id in ["", "..", "../x", "a/b", "a?b", "a#b", "a b", "ä"] {
            assert_eq!((at(id, ""), cancel_path(id)), (None, None), "{id}");
        }
    }
}
