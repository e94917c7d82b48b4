//! The routes, and the document that describes them. A route is in both or in neither.

mod changes;
mod chats;
pub(crate) mod commands;
mod document;
mod drill;
mod events;
mod export;
mod files;
mod jobs;
mod mcp;
mod messages;
mod permissions;
mod service;
pub(crate) mod sessions;
mod tokens;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::problem::{Problem, ProblemKind};
use crate::app::SharedApp;
use crate::auth::guard::{guard, is_json};
use crate::fronts::{self, Front};
use crate::page;

/// Retry-After of a rejected connection, in seconds.
const FULL_AFTER_S: u16 = 5;

/// The router, with the guard before every route.
pub fn router(app: SharedApp) -> Router {
    let (router, document) = complete();
    let document = document.to_json().unwrap_or_default();
    fronts::add_to(router)
        .route_layer(from_fn(is_json))
        .route(
            "/openapi.json",
            axum::routing::get(move |_: service::MetricsReader| service::document(document.clone())),
        )
        .fallback(elsewhere)
        .method_not_allowed_fallback(|| async {
            Problem::new(ProblemKind::Method, "Method not allowed for this path; see the Allow header.")
        })
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Answers requests without a route: files of the page, or nothing.
async fn elsewhere(State(app): State<SharedApp>, request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    if !page::is_for_page(method, path) {
        return Problem::not_found().into_response();
    }
    page::answer(app.page, method, path, request.headers(), app.transport(&request))
}

/// The router of connections above the limit: every request is answered with 503.
pub fn full() -> Router {
    Router::new().fallback(|uri: Uri| async move {
        let problem = Problem::new(ProblemKind::Unavailable, "The server has too many connections; try again later.");
        let response = ([(header::CONNECTION, "close")], problem.after(FULL_AFTER_S)).into_response();
        match Front::of(uri.path()) {
            Some(front) => front.tell(response),
            None => response,
        }
    })
}

/// The API, described in OpenAPI 3.1.
#[must_use]
pub fn openapi() -> OpenApi {
    complete().1
}

/// The router, and its complete document.
fn complete() -> (Router<SharedApp>, OpenApi) {
    let (router, mut document) = described().split_for_parts();
    document::complete(&mut document);
    events::describe(&mut document);
    document::name_alternatives(&mut document); // Last: it changes all descriptions before it.
    (router, document)
}

fn described() -> OpenApiRouter<SharedApp> {
    let info = InfoBuilder::new()
        .title("Everturn")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("The agent loop that never loses a token, a tool result or a turn."));
    let mut document = OpenApiBuilder::new().info(info).build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    OpenApiRouter::with_openapi(document)
        .routes(routes!(service::healthz))
        .routes(routes!(service::readyz))
        .routes(routes!(service::metrics))
        .routes(routes!(service::models))
        .routes(routes!(service::agents))
        .routes(routes!(service::usage))
        .routes(routes!(chats::list, chats::create))
        .routes(routes!(chats::get, chats::patch, chats::delete))
        .routes(routes!(chats::fork))
        .routes(routes!(export::export))
        .routes(routes!(chats::usage))
        .routes(routes!(messages::page, messages::send))
        .routes(routes!(messages::edit))
        .routes(routes!(files::file))
        .routes(routes!(commands::queue))
        .routes(routes!(commands::unqueue))
        .routes(routes!(commands::promote))
        .routes(routes!(commands::interrupt))
        .routes(routes!(commands::answers))
        .routes(routes!(commands::compact))
        .routes(routes!(permissions::asks))
        .routes(routes!(permissions::grants))
        .routes(routes!(permissions::revoke))
        .routes(routes!(changes::list))
        .routes(routes!(changes::undo))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::stop))
        .routes(routes!(events::stream))
        .routes(routes!(events::all))
        .routes(routes!(tokens::list, tokens::make))
        .routes(routes!(tokens::revoke))
        .routes(routes!(mcp::list))
        .routes(routes!(sessions::code))
        .routes(routes!(sessions::open, sessions::get, sessions::close))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::revoke))
        .routes(routes!(drill::order))
}
