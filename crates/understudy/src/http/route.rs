//! Which provider a request is for, and what it wants.

use everturn_core::prompt::WireFormat;
use hyper::header::HeaderMap;
use hyper::{Method, Uri};

use super::wire::{WireRefusal, interactions};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WireRoute {
    pub wire: WireFormat,
    pub want: Want,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Want {
    /// An answer. Where the path names a model and whether to stream, these are it.
    Answer { model: Option<String>, streams: Option<bool> },
    /// A response again, as it stands, or as a stream from after a position.
    Again { id: String, stream: Option<Option<u64>> },
    /// An end to a response in the background.
    Cancel { id: String },
    /// An interaction with Gemini.
    Interaction,
    /// An interaction again, from after an event that no interaction has.
    NoEvent { id: String },
    /// The names of models.
    Models,
}

impl WireRoute {
    /// The route of a request, if there is one.
    pub(super) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Self> {
        let path = decoded(uri.path());
        let answer = Want::Answer { model: None, streams: None };
        let names = path.trim_matches('/').splitn(4, '/').collect::<Vec<_>>();
        let (wire, want) = match (method, names.as_slice()) {
            (&Method::POST, ["v1", "messages"]) => (WireFormat::Anthropic, answer),
            (&Method::POST, ["v1", "responses"]) => (WireFormat::OpenAiResponses, answer),
            (&Method::POST, ["v1", "responses", id, "cancel"]) => {
                (WireFormat::OpenAiResponses, Want::Cancel { id: (*id).into() })
            }
            (&Method::GET, ["v1", "responses", id]) => {
                (WireFormat::OpenAiResponses, Want::Again { id: (*id).into(), stream: stream(uri) })
            }
            (&Method::POST, ["v1", "chat", "completions"]) => (WireFormat::OpenAiChat, answer),
            (&Method::POST, ["v1beta" | "v1", "models", rest @ ..]) => (WireFormat::Gemini, generate(&rest.join("/"))?),
            (&Method::GET, ["v1beta", "models", ..]) => (WireFormat::Gemini, Want::Models),
            (&Method::POST, ["v1beta" | "v1", "interactions"]) => (WireFormat::Gemini, Want::Interaction),
            (&Method::POST, ["v1beta" | "v1", "interactions", id, "cancel"]) => {
                (WireFormat::Gemini, Want::Cancel { id: (*id).into() })
            }
            (&Method::GET, ["v1beta" | "v1", "interactions", id]) => (WireFormat::Gemini, interaction(id, uri)),
            (&Method::GET, ["v1", "models", ..]) if is_anthropic(headers) => (WireFormat::Anthropic, Want::Models),
            (&Method::GET, ["v1", "models", ..]) => (WireFormat::OpenAiResponses, Want::Models),
            _ => return None,
        };
        Some(Self { wire, want })
    }

    /// Whether the request carries the right key, the way its provider wants it.
    ///
    /// # Errors
    /// What the provider says if it does not.
    pub(super) fn admit(&self, key: &str, uri: &Uri, headers: &HeaderMap) -> Result<(), WireRefusal> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        match self.wire {
            WireFormat::Anthropic => match header("x-api-key").or(bearer) {
                Some(own) if own == key => version(headers),
                Some(_) => Err(WireRefusal::new(401, "invalid x-api-key")),
                None => Err(WireRefusal::new(401, "x-api-key header is required")),
            },
            WireFormat::OpenAiResponses | WireFormat::OpenAiChat => match bearer {
                Some(own) if own == key => Ok(()),
                Some(own) => Err(WireRefusal::new(401, format!("Incorrect API key provided: {}.", masked(own)))),
                None => Err(WireRefusal::new(
                    401,
                    "You didn't provide an API key. You need to provide your API key in an Authorization header using \
                     Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
                )),
            },
            WireFormat::Gemini => {
                match header("x-goog-api-key").map(Into::into).or_else(|| query(uri, "key")) {
                    Some(own) if own == key => Ok(()),
                    Some(_) => Err(WireRefusal::new(400, "API key not valid. Please pass a valid API key.")
                        .coded("API_KEY_INVALID")),
                    None => Err(WireRefusal::new(
                        403,
                        "Method doesn't allow unregistered callers (callers without established identity). Please use API \
                     Key or other form of API consumer identity to call this API.",
                    )),
                }
            }
        }
    }
}

fn is_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version") || headers.contains_key("x-api-key")
}

fn version(headers: &HeaderMap) -> Result<(), WireRefusal> {
    match headers.get("anthropic-version").map(|value| value.as_bytes()) {
        Some(date) if date.len() == 10 && date.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-') => Ok(()),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            Err(WireRefusal::new(400, format!("anthropic-version: \"{other}\" is not a valid version")))
        }
        None => Err(WireRefusal::new(400, "anthropic-version: header is required")),
    }
}

/// A key as OpenAI quotes it: enough to recognise, too little to use.
fn masked(key: &str) -> String {
    let tail = key.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
    if key.len() <= 8 { "*".repeat(key.len()) } else { format!("{}{}", "*".repeat(8), &key[tail..]) }
}

/// `{model}:{method}`; a model may have colons of its own.
fn generate(rest: &str) -> Option<Want> {
    let (model, method) = rest.rsplit_once(':')?;
    let streams = match method {
        "streamGenerateContent" => true,
        "generateContent" => false,
        _ => return None,
    };
    Some(Want::Answer { model: Some(model.into()), streams: Some(streams) })
}

fn stream(uri: &Uri) -> Option<Option<u64>> {
    let streams = query(uri, "stream").is_some_and(|value| value == "true");
    streams.then(|| query(uri, "starting_after").and_then(|after| after.parse().ok()))
}

fn interaction(id: &str, uri: &Uri) -> Want {
    let streams = query(uri, "stream").is_some_and(|value| value == "true");
    let after = query(uri, "last_event_id").filter(|event| streams && !event.is_empty());
    match after.map(|event| interactions::number(&event).ok_or(event)) {
        Some(Err(id)) => Want::NoEvent { id },
        after => Want::Again { id: id.into(), stream: streams.then(|| after.and_then(Result::ok)) },
    }
}

pub(super) fn query(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(own, _)| *own == name).map(|(_, value)| decoded(value))
}

/// Decodes `%xx` in a text.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| str::from_utf8(two).ok());
        match (first, hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
