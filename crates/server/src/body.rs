//! What comes in, within bounds.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::app::Shared;
use crate::problem::{Kind, Problem};

/// What most bodies may measure.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// What a body may measure that carries words or files: 20 MiB of file, in base64.
pub const FILES_BYTES_MAX: usize = 28 * 1024 * 1024;
/// How deep JSON may be nested.
const DEPTH_MAX: usize = 64;
/// Under which a client names a request.
pub const KEY: &str = "idempotency-key";
/// The longest request id.
pub const KEY_LEN_MAX: usize = 255;

/// A JSON body of at most so many bytes. An empty one counts as `{}`.
pub struct Json<T, const BYTES_MAX: usize = BODY_BYTES_MAX>(pub T);

impl<T: DeserializeOwned, const BYTES_MAX: usize> FromRequest<Shared> for Json<T, BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let (whole, arrival_max) = (Limited::new(request.into_body(), BYTES_MAX).collect(), app.bounds.arrival_max);
        let late = || Problem::new(Kind::Slow, format!("The body did not arrive within {arrival_max:?}."));
        let whole = timeout(arrival_max, whole).await.map_err(|_| late())?;
        let bytes = whole.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => Problem::new(Kind::TooLong, format!("A body here may have {BYTES_MAX} bytes.")),
            None => Problem::new(Kind::Invalid, "The body could not be read to its end."),
        })?;
        parse(&bytes.to_bytes()).map(Self)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    if is_too_deep(bytes) {
        return Err(Problem::new(Kind::Invalid, format!("JSON may be nested {DEPTH_MAX} deep.")));
    }
    // Every body is an object; a list would be taken for the fields of one, in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::new(Kind::Invalid, "A body is a JSON object."));
    }
    // The message names a field and a place, and quotes nothing but names and single values.
    serde_json::from_slice(bytes).map_err(|error| Problem::new(Kind::Invalid, error.to_string()))
}

/// Whether JSON is nested too deep. Looks at brackets outside of strings, before anything is built.
fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => depth += 1,
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return true;
        }
    }
    false
}

/// The client's name for a request: the same one again has no second effect.
#[derive(Debug, Clone)]
pub struct Key(pub Option<String>);

impl FromRequestParts<Shared> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let mut keys = parts.headers.get_all(KEY).iter();
        let Some(key) = keys.next() else { return Ok(Self(None)) };
        let text = key.to_str().unwrap_or_default();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if keys.next().is_some() || text.is_empty() || text.len() > KEY_LEN_MAX || !is_plain {
            let detail = format!("An Idempotency-Key is 1 to {KEY_LEN_MAX} visible ASCII characters without spaces.");
            return Err(Problem::new(Kind::Invalid, detail));
        }
        Ok(Self(Some(text.into())))
    }
}

/// What stands behind the question mark.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::new(Kind::Invalid, error.body_text()))?;
        Ok(Self(query.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_an_object() {
        #[derive(serde::Deserialize, Debug)]
        struct Two {
            _a: Option<u8>,
        }
        for list in ["[null]", " [1]", "null", "7"] {
            assert!(parse::<Two>(list.as_bytes()).is_err(), "{list}");
        }
        assert!(parse::<Two>(b" {}").is_ok() && parse::<Two>(b"").is_ok());
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(nested(DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(DEPTH_MAX + 1).as_bytes()));
        let quoted = format!(r#"{{"a": "\"{}\\"}}"#, "[".repeat(100));
        assert!(!is_too_deep(quoted.as_bytes()));
        let behind = format!(r#"["\\", {}]"#, nested(DEPTH_MAX));
        assert!(is_too_deep(behind.as_bytes()));
    }
}
