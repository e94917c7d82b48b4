//! Exports of a whole chat.
//!
//! The chat is read page by page while it is sent, so its length does not matter. If the export fails in the middle, the
//! connection is cut. A proxy may pass that on as a clean end, so the content has an end marker too: the last brace of
//! JSON, the last line of Markdown. So a client can always detect an incomplete export.

use std::io::Error;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, IntoResponseParts, Response};
use bytes::Bytes;
use everturn::core::ids::MessageId;
use everturn::core::message::Message;
use everturn::stores::TokenHash;
use futures_util::stream;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use crate::api::markdown;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::QueryParams;
use crate::api::wire::{self, text};
use crate::app::per_key_limit;
use crate::app::{OpenedChat, SharedApp};
use crate::auth::access::{Caller, OwnedChat, Reading};
use crate::auth::token_watch::TokenWatch;
use crate::net::slow_reader::CutSignal;
use crate::net::slow_reader::budget::ResponsePermit;

/// Messages per read. Each may have the maximal size of a message.
const PAGE_LEN: usize = 20;
/// Approximate size of such a page; one message alone may be larger.
const PAGE_BYTES: usize = 4 << 20;
/// Attempts per piece of the response.
const ATTEMPTS_LEN: usize = 500;
/// The longest part of a title in the file name.
const NAME_LEN_MAX: usize = 40;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// For programs: everything but the bytes of files.
    #[default]
    Json,
    /// For people.
    Markdown,
}

/// Options of an export.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportOptions {
    /// The format; JSON if left out.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

/// Exports a whole chat: its messages, and in JSON every provider call.
#[utoipa::path(get, path = "/v1/chats/{id}/export", operation_id = "exportChat", tag = "chats", params(("id" = String, Path), ExportOptions), security(("token" = [])), responses(
    (status = 200, description = "The chat", content((wire::Export = "application/json"), (String = "text/markdown"))),
    (status = 404, description = "Not found, or it belongs to another owner", body = wire::ProblemBody),
    (status = 422, description = "There is no such format", body = wire::ProblemBody),
    (status = 429, description = "The token has too many open streams", body = wire::ProblemBody),
))]
pub async fn export(
    chat: OwnedChat<Reading>,
    State(app): State<SharedApp>,
    QueryParams(how): QueryParams<ExportOptions>,
) -> Result<Response, Problem> {
    let pass = ExportSlot::of(&app, &chat.caller)?;
    let now = chat.now().await?;
    let newest = app.page(&chat, None, 1).await?.first().map_or(MessageId(0), |message| message.id);
    let (kind, ending) = match how.format {
        ExportFormat::Json => ("application/json", "json"),
        ExportFormat::Markdown => ("text/markdown; charset=utf-8", "md"),
    };
    let name = format!("attachment; filename=\"{}.{ending}\"", file_name(&now));
    let place = ExportStage::Head(Box::new(now));
    let export = Export {
        app,
        chat: chat.into_chat(),
        format: how.format,
        newest,
        place,
        pass,
        room: ResponsePermit::default(),
    };
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, name)];
    let sandbox = [(header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'")];
    Ok(export.into_response((headers, sandbox)))
}

/// The chat's usage with each provider call, as a streamed response.
pub fn usage(app: SharedApp, chat: OwnedChat<Reading>, usage: &wire::Usage) -> Result<Response, Problem> {
    let pass = ExportSlot::of(&app, &chat.caller)?;
    let whole = text(usage);
    let place = ExportStage::Usage(format!("{},\"each\":[", whole.strip_suffix('}').unwrap_or_default()));
    let (format, newest) = (ExportFormat::Json, MessageId(0));
    let export = Export { app, chat: chat.into_chat(), format, newest, place, pass, room: ResponsePermit::default() };
    Ok(export.into_response([(header::CONTENT_TYPE, "application/json")]))
}

/// A file name that is safe in every file system and header.
fn file_name(chat: &wire::Chat) -> String {
    let mut name = String::new();
    for letter in chat.standing.title.chars().take(NAME_LEN_MAX * 4) {
        match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => name.push(letter),
            _ if !name.ends_with('-') && !name.is_empty() => name.push('-'),
            _ => {}
        }
    }
    name.truncate(NAME_LEN_MAX);
    let name = name.trim_matches('-');
    if name.is_empty() { chat.id.clone() } else { format!("{name}-{}", chat.id) }
}

/// An export that is being sent.
struct Export {
    app: SharedApp,
    chat: OpenedChat,
    format: ExportFormat,
    /// The newest message at the beginning; later ones are not exported.
    newest: MessageId,
    place: ExportStage,
    pass: ExportSlot,
    /// The byte budget of the piece that is being sent.
    room: ResponsePermit,
}

/// The export's token and when to check it again.
struct ExportSlot {
    token: TokenHash,
    recheck: Instant,
    check: Arc<TokenWatch>,
    _place: per_key_limit::PerKeyPermit<TokenHash>,
}

impl ExportSlot {
    fn of(app: &SharedApp, caller: &Caller) -> Result<Self, Problem> {
        let token = caller.token().hash;
        let place = app.streams.enter(token, app.limits.streams_max);
        let place = place.ok_or_else(|| {
            Problem::new(
                ProblemKind::TooMany,
                "This token has too many open streams; close one, or wait until one ends.",
            )
        })?;
        let check = app.checks.of(app, caller.token());
        Ok(Self { token, recheck: Instant::now() + app.limits.recheck, check, _place: place })
    }
}

enum ExportStage {
    Head(Box<wire::Chat>),
    Usage(String),
    Behind(MessageId),
    Attempts(usize),
    End,
}

impl Export {
    /// The response. It is cut if the token is revoked while the client does not read.
    fn into_response(self, headers: impl IntoResponseParts) -> Response {
        let ends = CutSignal::new(self.pass.check.over().clone(), self.app.shutdown.clone());
        let body = Body::from_stream(stream::try_unfold(self, |mut export| async move {
            let piece = export.next().await.map_err(|_| Error::other("the chat could not be read to its end"))?;
            Ok::<_, Error>(piece.map(|piece| (Bytes::from(piece), export)))
        }));
        let mut response = (headers, body).into_response();
        response.extensions_mut().insert(ends);
        response
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<String>, Problem> {
        self.room = ResponsePermit::default(); // The previous piece is sent.
        self.check_token().await?;
        self.room = self.app.answers.wait(PAGE_BYTES).await;
        loop {
            let (piece, place) = match std::mem::replace(&mut self.place, ExportStage::End) {
                ExportStage::Head(chat) => (Some(self.head(&chat)), ExportStage::Behind(MessageId(0))),
                ExportStage::Usage(head) => (Some(head), ExportStage::Attempts(0)),
                ExportStage::Behind(after) if after >= self.newest => match self.format {
                    ExportFormat::Markdown => {
                        (Some(markdown::end(&self.chat.heading.id.to_string())), ExportStage::End)
                    }
                    ExportFormat::Json => (Some("],\"attempts\":[".into()), ExportStage::Attempts(0)),
                },
                ExportStage::Behind(after) => self.page(after).await?,
                ExportStage::Attempts(seen) => self.attempts(seen).await?,
                ExportStage::End => return Ok(None),
            };
            self.place = place;
            if let Some(piece) = piece {
                self.room.shrink(piece.len());
                return Ok(Some(piece));
            }
        }
    }

    /// Checks the token again: a slow client may take hours over a long chat, and the token may be revoked meanwhile.
    async fn check_token(&mut self) -> Result<(), Problem> {
        if Instant::now() < self.pass.recheck {
            return Ok(());
        }
        self.pass.recheck = Instant::now() + self.app.limits.recheck;
        match self.app.token(&self.pass.token).await? {
            Some(_) => Ok(()),
            None => Err(Problem::new(ProblemKind::Unauthorized, "The token is not good any more.")),
        }
    }

    fn head(&self, chat: &wire::Chat) -> String {
        match self.format {
            ExportFormat::Markdown => markdown::head(chat),
            ExportFormat::Json => {
                format!("{{\"format\":{},\"chat\":{},\"messages\":[", wire::Export::FORMAT, text(chat))
            }
        }
    }

    async fn page(&self, after: MessageId) -> Result<(Option<String>, ExportStage), Problem> {
        let mut page = self.app.after(&self.chat, after, PAGE_LEN).await?;
        page.retain(|message| message.id <= self.newest);
        // No page: the chat was edited meanwhile, and the part sent so far belongs to another transcript.
        let last = page.last().ok_or_else(Problem::not_found)?.id;
        let shown = |message: &Arc<Message>| match self.format {
            ExportFormat::Markdown => markdown::message(&(&**message).into()),
            ExportFormat::Json => text(&wire::Message::from(&**message)),
        };
        let pieces: Vec<String> = page.iter().map(shown).collect();
        let piece = match self.format {
            ExportFormat::Markdown => pieces.concat(),
            ExportFormat::Json if after == MessageId(0) => pieces.join(",\n"),
            ExportFormat::Json => format!(",\n{}", pieces.join(",\n")),
        };
        Ok((Some(piece), ExportStage::Behind(last)))
    }

    async fn attempts(&self, seen: usize) -> Result<(Option<String>, ExportStage), Problem> {
        let some = self.app.attempts(&self.chat, seen, ATTEMPTS_LEN).await?;
        let texts: Vec<String> = some.iter().map(|attempt| text(&wire::Attempt::from(attempt))).collect();
        let before = if seen == 0 || some.is_empty() { "" } else { "," };
        let (end, place) = match some.len() < ATTEMPTS_LEN {
            true => ("]}\n", ExportStage::End),
            false => ("", ExportStage::Attempts(seen + some.len())),
        };
        Ok((Some(format!("{before}{}{end}", texts.join(","))), place))
    }
}
