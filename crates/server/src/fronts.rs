//! Fronts: the protocols of stock clients.
//!
//! A client that was written for another server keeps its code and changes its address. Each front has a folder and a
//! prefix, and its foreign words (chunk, item, thread, run) stay inside that folder. Access is that of the
//! native API: the same tokens, scopes and owners, checked by the same guard. Errors have the form of the front's protocol.
//!
//! **Law:** no front ends a stream cleanly before the protocol's own last event. Clients take a clean end for success and
//! never come back. [`stream`] breaks the connection instead.

mod ag_ui;
pub(crate) mod ai_sdk;
mod anthropic;
mod follow;
pub(crate) mod gateway;
pub(crate) mod names;
mod openai;
pub(crate) mod stream;
mod turn;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::MethodRouter;

use crate::api::problem::ToldProblem;
use crate::app::SharedApp;

/// A protocol of stock clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Front {
    /// The Vercel AI SDK's UI message stream.
    AiSdk,
    /// AG-UI.
    AgUi,
    /// OpenAI: Chat Completions and Responses.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
}

/// A route of a front.
pub(crate) struct FrontRoute {
    method: Method,
    path: &'static str,
    handler: MethodRouter<SharedApp>,
}

impl FrontRoute {
    /// A route; `handler` answers `method`.
    pub(crate) const fn new(method: Method, path: &'static str, handler: MethodRouter<SharedApp>) -> Self {
        Self { method, path, handler }
    }
}

fn routes() -> impl Iterator<Item = FrontRoute> {
    let all = [ai_sdk::routes(), ag_ui::routes(), openai::routes(), anthropic::routes()];
    all.into_iter().flatten()
}

/// The method and the path of every route of the fronts. They are not part of the OpenAPI document: the protocols are
/// defined elsewhere, and their pages in `docs/fronts` say what the server makes of them.
#[must_use]
pub fn front_routes() -> Vec<(Method, &'static str)> {
    routes().map(|route| (route.method, route.path)).collect()
}

/// The router with the routes of all fronts.
pub(crate) fn add_to(router: Router<SharedApp>) -> Router<SharedApp> {
    routes().fold(router, |router, route| router.route(route.path, route.handler))
}

impl Front {
    /// The front that a path belongs to.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let first = path.strip_prefix('/')?.split('/').next()?;
        match first {
            "ai" => Some(Self::AiSdk),
            "ag-ui" => Some(Self::AgUi),
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            _ => None,
        }
    }

    /// Its name in metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::AiSdk => "ai-sdk",
            Self::AgUi => "ag-ui",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// The header in which its clients send the token, beside `authorization`.
    pub(crate) const fn key_header(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("x-api-key"),
            Self::AiSdk | Self::AgUi | Self::OpenAi => None,
        }
    }

    /// The response in the form of the protocol: a problem gets the envelope that its clients read. Other responses stay.
    pub(crate) fn tell(self, mut response: Response) -> Response {
        let Some(told) = response.extensions_mut().remove::<ToldProblem>() else { return response };
        let (kind, body) = match self {
            Self::AiSdk => ("text/plain; charset=utf-8", told.detail),
            Self::AgUi => ("application/json", ag_ui::envelope(&told)),
            Self::OpenAi => ("application/json", openai::envelope(&told)),
            Self::Anthropic => ("application/json", anthropic::envelope(&told)),
        };
        if matches!(self, Self::OpenAi | Self::Anthropic) && response.status() == StatusCode::UNPROCESSABLE_ENTITY {
            *response.status_mut() = StatusCode::BAD_REQUEST; // What these protocols answer to a wrong field.
        }
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        *response.body_mut() = Body::from(body);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_is_known_by_the_first_word_of_a_path() {
        for (path, front) in [
            ("/ai/6/chat", Some("ai-sdk")),
            ("/ag-ui/default", Some("ag-ui")),
            ("/openai/v1/models", Some("openai")),
            ("/anthropic/v1/messages", Some("anthropic")),
            ("/anthropic", Some("anthropic")),
            ("/v1/models", None),
            ("/aim", None),
            ("", None),
        ] {
            assert_eq!(Front::of(path).map(Front::label), front, "{path}");
        }
    }
}
