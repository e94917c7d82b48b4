//! Answers one request to the stand-in provider.

use std::sync::Arc;

use everturn_core::error::{Cause, ProviderError, Retry};
use everturn_core::prompt::WireFormat;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, Response};
use serde_json::{Value, json};

use super::act::{self, Act, AnswerHeader, Break, perform};
use super::background::{self, Generation};
use super::connection::ConnectionHandle;
use super::dialect::{BackgroundApi, Dialect};
use super::fault::Says;
use super::log::{self, AnswerLog, Logged};
use super::play::{self, HttpBody, Outgoing};
use super::route::{Want, WireRoute, query};
use super::state::{ServerState, StoredResponse};
use super::whole;
use super::wire::{self, WireRefusal};
use crate::cue::{Cue, Script, script};
use crate::fault::{Fault, FaultKind};

/// Answers one request, whatever it is.
pub(super) async fn answer(
    state: Arc<ServerState>,
    line: ConnectionHandle,
    request: Request<Incoming>,
) -> Response<HttpBody> {
    let (head, incoming) = request.into_parts();
    if head.uri.path() == log::PATH {
        return account(&state, &head.headers);
    }
    let Some(route) = WireRoute::of(&head.method, &head.uri, &head.headers) else {
        let message = format!("Invalid URL ({} {})", head.method, head.uri.path());
        let body = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}});
        return respond(404, "application/json", play::whole(body.to_string()));
    };
    let bytes = Limited::new(incoming, state.options.request_bytes_max).collect().await.map(|body| body.to_bytes());
    let body: Option<Value> = bytes.as_ref().ok().and_then(|bytes| serde_json::from_slice(bytes).ok());
    let logged = Logged {
        wire: route.wire,
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        model: named(&route.want, body.as_ref()),
        headers: log::headers(&head.headers),
        body: body.clone().unwrap_or_default(),
        refused: None,
        said: log::SentAnswer::default(),
    };
    let number = state.log().push(logged, state.options.log_len_max);
    let admitted = route.admit(&state.options.key, &head.uri, &head.headers);
    let too_large = || WireRefusal::new(413, "Request exceeds the maximum size");
    let answered = match admitted.and_then(|()| bytes.map_err(|_| too_large())) {
        Err(refusal) => Err(refusal),
        Ok(_) => {
            let alt = query(&head.uri, "alt");
            let scribe = state.scribe(number);
            Asked { state: state.clone(), line, wire: route.wire, body, scribe }.fulfil(route.want, alt).await
        }
    };
    answered.unwrap_or_else(|refusal| {
        state.log().refused(number, refusal.status, &refusal.message);
        refused(&state, route.wire, &refusal)
    })
}

/// The model that a request names, in its path or in its body.
fn named(want: &Want, body: Option<&Value>) -> String {
    let in_path = match want {
        Want::Answer { model, .. } => model.clone(),
        _ => None,
    };
    in_path.unwrap_or_else(|| body.and_then(|body| body["model"].as_str()).unwrap_or_default().into())
}

/// A request that was let in.
struct Asked {
    state: Arc<ServerState>,
    line: ConnectionHandle,
    wire: WireFormat,
    body: Option<Value>,
    scribe: AnswerLog,
}

impl Asked {
    async fn fulfil(self, want: Want, alt: Option<String>) -> Result<Response<HttpBody>, WireRefusal> {
        match want {
            Want::Models => Ok(json_response(&models(self.wire))),
            Want::Again { id, stream } => {
                background::again(&self.state, self.line, (BackgroundApi::of(self.wire), &id), stream)
            }
            Want::Cancel { id } => background::cancel(&self.state, BackgroundApi::of(self.wire), &id)
                .map(|response| json_response(&response)),
            Want::NoEvent { id } => Err(WireRefusal::new(400, format!("Invalid last_event_id '{id}'."))),
            Want::Interaction => self.answer(Dialect::Interactions, None, None).await,
            Want::Answer { model, streams } => {
                if streams == Some(true) && alt.as_deref() != Some("sse") {
                    return Err(WireRefusal::new(400, "the understudy streams this wire with alt=sse alone"));
                }
                let dialect = Dialect::Usual(self.wire);
                self.answer(dialect, model, streams).await
            }
        }
    }

    async fn answer(
        self,
        dialect: Dialect,
        model: Option<String>,
        streams: Option<bool>,
    ) -> Result<Response<HttpBody>, WireRefusal> {
        let Some(body @ Value::Object(fields)) = &self.body else { return Err(not_json(self.wire)) };
        let model = model.unwrap_or_else(|| body["model"].as_str().unwrap_or_default().into());
        let streams = streams.unwrap_or(body["stream"] == true);
        dialect.check(fields, &model, &|id| self.state.chainable(id))?;
        let faults = self.state.faults(&model).map_err(|unknown| WireRefusal::new(404, unknown.to_string()))?;
        if let Some(response) = self.before(&faults).await? {
            return Ok(response);
        }
        let heard = dialect.hear(body, &model);
        let script =
            self.state.understudy.script_for(&heard).ok_or_else(|| WireRefusal::new(404, "no script is left"))?;
        let script = self.enter(script).await?;
        let opening = AnswerHeader::of(&script, &model, dialect.response_id(self.state.number()));
        let id = opening.id.clone();
        let says = says(dialect, &opening, body);
        let mut encoder = dialect.encoder(opening, body);
        let mut acts = perform(script, encoder.as_mut());
        for fault in &faults {
            acts = fault.trouble.befall(acts, &says);
        }
        if let Some(keeps) = dialect.keeps(body) {
            let generation =
                Generation::start(&self.state, encoder, acts, (keeps, keeps.queued(&id, &model), self.scribe));
            self.state.keep(&id, StoredResponse::Background(generation.clone()));
            return match (streams, body["background"] == true) {
                (true, _) => Ok(respond(200, EVENTS, background::attach(&self.state, generation, self.line, None))),
                (false, true) => Ok(json_response(&generation.now())),
                (false, false) => {
                    let whole =
                        generation.whole().await.ok_or_else(|| WireRefusal::new(500, "Internal server error"))?;
                    Ok(json_response(&whole))
                }
            };
        }
        if !streams && dialect == Dialect::Interactions {
            return Err(WireRefusal::new(400, "the understudy streams what it does not store"));
        }
        if !streams {
            return whole::answer(self.wire, acts).await.map(|whole| json_response(&whole));
        }
        let witness = witness(&self.state, self.wire, &id, body["store"] != false, self.scribe);
        let open = self.state.understudy.opened();
        let hangs_up = faults.iter().any(|fault| fault.trouble == FaultKind::HangUp);
        let end = if hangs_up { play::AtEnd::HangUp(self.line.clone()) } else { play::AtEnd::Stay };
        Ok(respond(200, EVENTS, play::acting(acts, self.line, (open, end), witness)))
    }

    /// What happens before there is an answer at all.
    async fn before(&self, faults: &[Fault]) -> Result<Option<Response<HttpBody>>, WireRefusal> {
        for fault in faults {
            match fault.trouble {
                FaultKind::Refuse { status, after } => {
                    return Err(WireRefusal {
                        retry_after: after,
                        ..WireRefusal::new(status, wire::words(self.wire, status))
                    });
                }
                FaultKind::Late(time) => tokio::time::sleep(time).await,
                FaultKind::Silent => std::future::pending().await,
                FaultKind::Html => {
                    let page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
                    return Ok(Some(respond(200, "text/html", play::whole(page))));
                }
                FaultKind::Empty => return Ok(Some(respond(200, EVENTS, play::whole("")))),
                FaultKind::Redirect => {
                    let mut response = respond(307, "text/plain", play::whole(""));
                    response.headers_mut().insert("location", HeaderValue::from_static("http://127.0.0.1:9/elsewhere"));
                    return Ok(Some(response));
                }
                FaultKind::Ends { .. } | FaultKind::Slow(_) | FaultKind::Drip | FaultKind::Odd | FaultKind::HangUp => {}
            }
        }
        Ok(None)
    }

    /// Plays what the script does before its answer (a delay, a refusal, a lost connection) and returns the rest of it.
    async fn enter(&self, cues: Script) -> Result<Script, WireRefusal> {
        let mut cues = cues.into_iter().peekable();
        while let Some(Cue::Slow(time)) = cues.next_if(|cue| matches!(cue, Cue::Slow(_))) {
            tokio::time::sleep(time).await;
        }
        let Some(Cue::Fail(error)) = cues.peek() else { return Ok(script(cues)) };
        match error.cause {
            Cause::Reset => self.line.lose(Break::Reset),
            Cause::GoAway => self.line.lose(Break::GoAway),
            Cause::Truncated | Cause::Resumed => self.line.lose(Break::Closed),
            Cause::IdleStall => {}
            Cause::Refused | Cause::ServerError | Cause::ErrorFinish | Cause::Malformed => {
                return Err(refusal(self.wire, error));
            }
        }
        std::future::pending().await
    }
}

const EVENTS: &str = "text/event-stream; charset=utf-8";

/// An error of a script as a refusal.
fn refusal(wire: WireFormat, error: &ProviderError) -> WireRefusal {
    let status = act::status(error);
    let words = if error.detail.is_empty() { wire::words(wire, status).into() } else { error.detail.clone() };
    let retry_after = match error.retry {
        Retry::After(time) => Some(time.as_secs()),
        Retry::Never | Retry::Once | Retry::Now | Retry::Backoff => None,
    };
    WireRefusal { retry_after, ..wire::kinded(wire, error.kind, WireRefusal::new(status, words)) }
}

fn not_json(wire: WireFormat) -> WireRefusal {
    WireRefusal::new(
        400,
        match wire {
            WireFormat::Anthropic => "The request body is not valid JSON: expected value at line 1 column 1",
            WireFormat::OpenAiResponses | WireFormat::OpenAiChat => {
                "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP \
             library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
            }
            WireFormat::Gemini => "Invalid JSON payload received. Expected a value.",
        },
    )
}

/// Writes down what is said, and keeps a stored response once its last event is out.
fn witness(
    state: &Arc<ServerState>,
    wire: WireFormat,
    id: &str,
    is_stored: bool,
    scribe: AnswerLog,
) -> play::OutgoingHook {
    let is_kept = wire == WireFormat::OpenAiResponses && is_stored;
    let (state, id) = (state.clone(), id.to_string());
    Box::new(move |seen: Outgoing<'_>| match seen {
        Outgoing::Said(delta) => scribe.said(delta),
        Outgoing::Event(frame) if is_kept => {
            if let Some(response) = background::ended(frame) {
                state.keep(&id, StoredResponse::Done(Arc::new(response)));
            }
        }
        Outgoing::Event(_) => {}
    })
}

/// The log of requests and answers, for clients with the key.
fn account(state: &ServerState, headers: &HeaderMap) -> Response<HttpBody> {
    let key = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if key != Some(state.options.key.as_str()) {
        return respond(401, "application/json", play::whole(json!({"error": "the key is missing"}).to_string()));
    }
    json_response(&state.log().account())
}

/// What a wire says for a sign of life and for an error.
fn says(dialect: Dialect, opening: &AnswerHeader, body: &Value) -> Says {
    let mut encoder = dialect.encoder(opening.clone(), body);
    let (mut ping, mut error) = (Vec::new(), Vec::new());
    encoder.ping(&mut ping);
    let overloaded = ProviderError::new("understudy", everturn_core::error::ErrorKind::Overloaded);
    encoder.error(&overloaded.with_cause(Cause::ServerError), &mut error);
    let acts = |frames: Vec<String>| frames.into_iter().map(|frame| Act::Frame(frame.into())).collect();
    Says { ping: acts(ping), error: acts(error) }
}

fn models(wire: WireFormat) -> Value {
    const NAMES: [&str; 3] = ["persona", "numbered", "drill"];
    match wire {
        WireFormat::Anthropic => {
            let one = |id: &&str| json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"});
            let data: Vec<Value> = NAMES.iter().map(one).collect();
            json!({"data": data, "has_more": false, "first_id": NAMES[0], "last_id": NAMES[NAMES.len() - 1]})
        }
        WireFormat::OpenAiResponses | WireFormat::OpenAiChat => {
            let one =
                |id: &&str| json!({"id": id, "object": "model", "created": wire::CREATED, "owned_by": "everturn"});
            json!({"object": "list", "data": NAMES.iter().map(one).collect::<Vec<_>>()})
        }
        WireFormat::Gemini => {
            let methods = ["generateContent", "streamGenerateContent"];
            let one = |id: &&str| json!({"name": format!("models/{id}"), "displayName": id, "supportedGenerationMethods": methods});
            json!({"models": NAMES.iter().map(one).collect::<Vec<_>>()})
        }
    }
}

pub(super) fn json_response(body: &Value) -> Response<HttpBody> {
    respond(200, "application/json", play::whole(body.to_string()))
}

pub(super) fn events_response(body: HttpBody) -> Response<HttpBody> {
    respond(200, EVENTS, body)
}

fn respond(status: u16, content_type: &'static str, body: HttpBody) -> Response<HttpBody> {
    let mut response = Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
    response
}

fn refused(state: &ServerState, wire: WireFormat, refusal: &WireRefusal) -> Response<HttpBody> {
    let request_id = format!("req_understudy{:04}", state.number());
    let body = wire::error_body(wire, refusal, &request_id).to_string();
    let mut response = respond(refusal.status, "application/json", play::whole(body));
    let headers = response.headers_mut();
    if let Some(seconds) = refusal.retry_after {
        headers.insert("retry-after", HeaderValue::from(seconds));
    }
    let name = match wire {
        WireFormat::Anthropic => "request-id",
        WireFormat::OpenAiResponses | WireFormat::OpenAiChat => "x-request-id",
        WireFormat::Gemini => return response,
    };
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        headers.insert(name, id);
    }
    response
}
