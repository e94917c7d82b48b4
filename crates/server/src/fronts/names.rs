//! The names that clients of fronts give to chats and messages.
//!
//! A front's name of a chat is the key the chat was created under; a front's name of a message is part of the key it was
//! sent with. Both are stored with what they name, so they are there after any restart and on every server. Each has a
//! space behind the front's label, which no `Idempotency-Key` header can carry: names of fronts and keys of native clients
//! never meet.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use everturn::core::chat::OpenCall;
use everturn::core::message::Message;

use super::Front;
use crate::api::problem::{Problem, ProblemKind};
use crate::app::SharedApp;

/// The parameters of a front's path. One that is not text names nothing.
pub(crate) struct FrontPath(Vec<(String, String)>);

impl FrontPath {
    /// The parameter with this name.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The client's name of a chat; what cannot be one is not found.
    pub(crate) fn chat(&self) -> Result<&str, Problem> {
        checked("chat", self.get("id")).map_err(|_| Problem::not_found())
    }
}

impl FromRequestParts<SharedApp> for FrontPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, app).await.map_err(|_| Problem::not_found())?;
        Ok(Self(params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }
}

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The name, if it can be one.
pub(crate) fn checked<'a>(what: &str, name: &'a str) -> Result<&'a str, Problem> {
    let is_visible = |letter: char| !letter.is_whitespace() && !letter.is_control();
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_visible) {
        return Ok(name);
    }
    let why = format!("The id of a {what} has 1 to {NAME_BYTES_MAX} bytes of visible characters without spaces.");
    Err(Problem::new(ProblemKind::Invalid, why).at("id"))
}

/// The key of the chat that clients of this front call `name`.
pub(crate) fn chat_key(front: Front, name: &str) -> String {
    format!("{} {name}", front.label())
}

/// The key of a request about the message that clients of this front call `name`. `act` tells requests about one message
/// apart; it is empty for the request that sends it.
pub(crate) fn message_key(front: Front, name: &str, act: &str) -> String {
    let key = format!("{} {name} {act}", front.label());
    key.trim_end().to_owned()
}

/// What the client that sent a message calls it: `m3` for the third one of a chat, if it has no name.
pub(crate) fn message_name(message: &Message) -> String {
    let key = message.sent.as_ref().and_then(|sent| sent.key.as_deref());
    named_in(key).map_or_else(|| format!("m{}", message.id), str::to_owned)
}

/// The name of an approval: it is for this call with this input only.
pub(crate) fn approval_name(ask: &OpenCall) -> String {
    format!("{}-{:016x}", ask.uid, ask.input_hash)
}

/// The client's name of a message in the key that it was sent with.
pub(crate) fn named_in(key: Option<&str>) -> Option<&str> {
    let mut words = key?.split(' ');
    words.next()?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_keys() {
        for act in ["", "e3.abc", "r7"] {
            let key = message_key(Front::AiSdk, "msg-1", act);
            assert_eq!(named_in(Some(&key)), Some("msg-1"), "{key}");
        }
        assert_eq!(named_in(Some("a-native-key")), None);
        assert_eq!(named_in(None), None);
        assert_ne!(chat_key(Front::AiSdk, "x"), chat_key(Front::AgUi, "x"));
        assert!(checked("chat", "Ünï-code_1").is_ok());
        for bad in ["", "a b", "a\nb", "a\u{0}", "a\u{2003}b", &"x".repeat(129)] {
            assert!(checked("chat", bad).is_err(), "{bad:?}");
        }
    }
}
