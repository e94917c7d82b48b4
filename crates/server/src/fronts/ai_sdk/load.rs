//! Loading a chat as `UIMessage[]`.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn::core::ids::MessageId;
use everturn::core::message::Message;
use everturn::core::view::Standing;
use serde_json::{Value, json};

use super::{before_of, is_user, parts};
use crate::api::problem::Problem;
use crate::app::{OpenedChat, SharedApp};
use crate::fronts::follow::{self, WhichTurn, lacks_bytes, no_such_turn};
use crate::fronts::names;
use crate::fronts::turn::TurnView;

/// Stored messages that are read at once.
const PAGE_LEN: usize = 200;
/// Turns that are loaded if the request does not say how many, and at most.
const TURNS: usize = 50;
const TURNS_MAX: usize = 200;
/// Reads of the rows while turns end and begin.
const READS_MAX: usize = 5;
/// Bytes of files in one answer; those of earlier messages are left out.
const FILES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The newest turns before a message, as messages of the client.
pub(super) async fn messages(
    app: &SharedApp,
    chat: &OpenedChat,
    clients: &BTreeSet<String>,
    before: Option<&str>,
    limit: Option<usize>,
) -> Result<Vec<Value>, Problem> {
    let end = match before {
        Some(id) => {
            let found = follow::find(app, chat, None, |message| before_of(message, id)).await?;
            Some(found.ok_or_else(no_such_turn)?.id)
        }
        None => None,
    };
    let turns = limit.unwrap_or(TURNS).clamp(1, TURNS_MAX);
    let mut under_way = follow::turn_under_way(app, chat).await?;
    let mut rows = newest_turns(app, chat, end, turns).await?;
    let mut standing = chat.handle.standing().await?;
    for _ in 0..READS_MAX {
        let now = follow::turn_under_way(app, chat).await?;
        if now == under_way {
            break;
        }
        // Another turn runs than when the rows were read: whichever is left out, resuming would bring the other.
        under_way = now;
        rows = newest_turns(app, chat, end, turns).await?;
        standing = chat.handle.standing().await?;
    }
    let mut told = Vec::new();
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        let mut view = TurnView::new(&first);
        if is_user(&first) {
            let user = whole(app, chat, &first).await?;
            told.push(of_user(&user));
        } else {
            view = TurnView::headless();
            view.message(&whole(app, chat, &first).await?);
        }
        while let Some(row) = rows.next_if(|row| !is_user(row)) {
            view.message(&whole(app, chat, &row).await?);
        }
        if !is_under_way(&first, under_way) {
            told.extend(of_reply(&view, &standing, clients));
        }
    }
    if end.is_none() {
        app.left_out.note(chat.heading.id, under_way);
        told.extend(about_to_begin(&standing, under_way));
    }
    bound_files(&mut told);
    Ok(told)
}

/// The stored messages of the newest turns before `end`, oldest first.
async fn newest_turns(
    app: &SharedApp,
    chat: &OpenedChat,
    end: Option<MessageId>,
    turns: usize,
) -> Result<Vec<Arc<Message>>, Problem> {
    let (mut rows, mut before, mut seen) = (Vec::new(), end, 0);
    loop {
        let page = app.page(chat, before, PAGE_LEN).await?;
        let Some(first) = page.first().map(|message| message.id) else { break };
        for message in page.iter().rev() {
            rows.push(message.clone());
            seen += usize::from(is_user(message));
            if seen == turns {
                rows.reverse();
                return Ok(rows);
            }
        }
        before = Some(first);
    }
    rows.reverse();
    Ok(rows)
}

async fn whole(app: &SharedApp, chat: &OpenedChat, message: &Arc<Message>) -> Result<Arc<Message>, Problem> {
    if lacks_bytes(message) { app.message(chat, message.id).await } else { Ok(message.clone()) }
}

fn is_under_way(user: &Message, under_way: Option<WhichTurn>) -> bool {
    match under_way {
        Some(WhichTurn::Receipt(receipt)) => user.sent.as_ref().is_some_and(|sent| sent.receipt == receipt),
        Some(WhichTurn::Message(id)) => user.id == id,
        None => false,
    }
}

fn of_user(message: &Message) -> Value {
    let parts = match &message.body {
        everturn::core::message::Body::User(parts) => parts::of_user(parts),
        _ => Vec::new(),
    };
    json!({"id": names::message_name(message), "role": "user", "parts": parts})
}

fn of_reply(view: &TurnView, standing: &Standing, clients: &BTreeSet<String>) -> Option<Value> {
    let parts = parts::of_turn(view, &standing.asks, clients);
    (!parts.is_empty()).then(|| json!({"id": parts::reply_id(view.user()), "role": "assistant", "parts": parts}))
}

/// The message whose turn is about to begin: it was accepted and is not in the transcript yet.
fn about_to_begin(standing: &Standing, under_way: Option<WhichTurn>) -> Option<Value> {
    let Some(WhichTurn::Receipt(receipt)) = under_way else { return None };
    let queued = standing.queue.iter().find(|queued| queued.id == receipt)?;
    let name = names::named_in(queued.key.as_deref()).map_or_else(|| format!("q{receipt}"), str::to_owned);
    Some(json!({"id": name, "role": "user", "parts": parts::of_user(&queued.parts)}))
}

/// Leaves out the bytes of files beyond the limit, those of the oldest messages first.
fn bound_files(messages: &mut [Value]) {
    let mut left = FILES_BYTES_MAX;
    let parts = messages.iter_mut().rev().filter_map(|message| message["parts"].as_array_mut()).flatten();
    for part in parts.filter(|part| part["type"] == "file") {
        let len = part["url"].as_str().map_or(0, str::len);
        match left.checked_sub(len) {
            Some(rest) => left = rest,
            None => part["url"] = json!("data:,"),
        }
    }
}
