//! Putting commands into the inbox.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everturn_core::change::admit_behind;
use everturn_core::command::{Command, InboxCommand};
use everturn_core::ids::{ChatId, InboxSeq, MessageId, StepId};
use everturn_core::limits::Limits;
use tokio_postgres::types::Type;

use crate::postgres::Inner;
use crate::postgres::Turn;
use crate::postgres::connection::columns::{big, count, id_bytes, put_bytes, text};
use crate::postgres::connection::pool::{Conn, Mode, Param};
use crate::postgres::connection::retry::Fault;
use crate::postgres::notify::channel::Haste;
use crate::postgres::reads::chat::{chat_of, inbound};
use crate::shape::{Written, command};
use crate::store::{Hint, Receipt, StoreError, Submission, SubmitError};
use crate::tables::Fetch;

/// One submission on its way, however often it is tried.
struct Letter {
    chat: ChatId,
    id: [u8; 16],
    submission: Submission,
    limits: Limits,
    text: Written,
    /// Together with the sender: which submission this is, if its answer is lost.
    ticket: i64,
}

type Answer = Result<InboxSeq, SubmitError>;

impl Inner {
    pub(crate) async fn submit(
        self: Arc<Self>,
        _turn: Turn,
        chat: ChatId,
        submission: Submission,
        limits: Limits,
    ) -> Result<Receipt, SubmitError> {
        let text = command::write(&submission.command);
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let letter = Letter { chat, id: id_bytes(chat), submission, limits, text, ticket };
        let mut patience = self.patience();
        let mut is_again = false;
        loop {
            match self.try_submit(&letter, is_again).await {
                Ok((answer, is_new)) => {
                    if is_new {
                        self.tell(Hint::Inbox(chat), Haste::Now);
                    }
                    return answer.map(|seq| Receipt { chat, seq });
                }
                Err(fault) => patience.wait(fault).await?,
            }
            is_again = true;
        }
    }

    async fn try_submit(&self, letter: &Letter, is_again: bool) -> Result<(Answer, bool), Fault> {
        let conn = self.link.conn().await?;
        let sql = "SELECT body, submitted, obeyed FROM chats WHERE id = $1 FOR UPDATE";
        let params: [Param<'_>; 1] = [(&&letter.id[..], Type::BYTEA)];
        let (_, row) = tokio::try_join!(conn.begin(Mode::Write), conn.query_opt(sql, &params))?;
        let Some(row) = row else {
            conn.rollback().await?;
            return Ok((Err(StoreError::NoSuchChat.into()), false));
        };
        if let Some(answer) = self.earlier(&conn, letter, is_again).await? {
            conn.rollback().await?;
            return Ok((answer, false));
        }
        let pending = pending(&conn, letter.chat, count(&row, "obeyed"), Fetch::Lengths).await?;
        let chat = chat_of(&conn, letter.chat, text(&row, "body")?, Fetch::Lengths).await?;
        let wanted = &letter.submission.command;
        let users = users(&conn, letter.chat, pending.iter().map(|inbound| &inbound.command).chain([wanted])).await?;
        let at = letter.submission.at;
        let admitted = admit_behind(&chat, pending.iter(), wanted, &letter.limits, at, |id| users.contains(&id));
        match admitted {
            Err(refusal) => {
                conn.rollback().await?;
                Ok((Err(refusal.into()), false))
            }
            Ok(aimed) => {
                let seq = InboxSeq(count(&row, "submitted") + 1);
                self.insert(&conn, letter, seq, aimed).await?;
                Ok((Ok(seq), true))
            }
        }
    }

    /// What the same request got before: by its key, or because its answer was lost.
    async fn earlier(&self, conn: &Conn, letter: &Letter, is_again: bool) -> Result<Option<Answer>, Fault> {
        let id: &[u8] = &letter.id;
        if is_again {
            let sql = "SELECT seq FROM inbox WHERE chat = $1 AND sender = $2 AND ticket = $3 ORDER BY seq DESC LIMIT 1";
            let params: [Param<'_>; 3] = [(&id, Type::BYTEA), (&self.sender, Type::INT8), (&letter.ticket, Type::INT8)];
            if let Some(row) = conn.query_opt(sql, &params).await? {
                return Ok(Some(Ok(InboxSeq(count(&row, "seq")))));
            }
        }
        let Some(key) = &letter.submission.key else { return Ok(None) };
        let sql = "SELECT seq, aimed, at, key, body FROM inbox WHERE chat = $1 AND sha256(key) = sha256($2)";
        let params: [Param<'_>; 2] = [(&id, Type::BYTEA), (&key.as_bytes(), Type::BYTEA)];
        let Some(row) = conn.query_opt(sql, &params).await? else { return Ok(None) };
        let seq = InboxSeq(count(&row, "seq"));
        let earlier = inbound(conn, letter.chat, &[row], Fetch::Bytes).await?.pop();
        let is_same = earlier.is_some_and(|earlier| earlier.command == letter.submission.command);
        Ok(Some(if is_same { Ok(seq) } else { Err(SubmitError::Conflict) }))
    }

    async fn insert(&self, conn: &Conn, letter: &Letter, seq: InboxSeq, aimed: StepId) -> Result<(), Fault> {
        let (id, seq, aimed): (&[u8], i64, i64) = (&letter.id, big(seq.0), big(aimed.0));
        let key = letter.submission.key.as_ref().map(|key| key.as_bytes());
        let insert = "
            INSERT INTO inbox (chat, seq, aimed, key, body, at, sender, ticket)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let params: [Param<'_>; 8] = [
            (&id, Type::BYTEA),
            (&seq, Type::INT8),
            (&aimed, Type::INT8),
            (&key, Type::BYTEA),
            (&letter.text.json, Type::TEXT),
            (&letter.submission.at.0, Type::INT8),
            (&self.sender, Type::INT8),
            (&letter.ticket, Type::INT8),
        ];
        let note = "UPDATE chats SET submitted = $2 WHERE id = $1";
        let noted: [Param<'_>; 2] = [(&id, Type::BYTEA), (&seq, Type::INT8)];
        let blobs = [(letter.chat, &letter.text.blobs[..])];
        tokio::try_join!(
            put_bytes(conn, &blobs),
            conn.execute(insert, &params),
            conn.execute(note, &noted),
            conn.commit()
        )?;
        Ok(())
    }
}

/// Commands behind `obeyed`, oldest first.
pub(crate) async fn pending(conn: &Conn, chat: ChatId, obeyed: u64, fetch: Fetch) -> Result<Vec<InboxCommand>, Fault> {
    let (id, obeyed) = (id_bytes(chat), big(obeyed));
    let sql = "SELECT seq, aimed, at, key, body FROM inbox WHERE chat = $1 AND seq > $2 ORDER BY seq";
    let params: [Param<'_>; 2] = [(&&id[..], Type::BYTEA), (&obeyed, Type::INT8)];
    let rows = conn.query(sql, &params).await?;
    inbound(conn, chat, &rows, fetch).await
}

/// Which of the messages that commands want to edit are people's.
async fn users<'a>(
    conn: &Conn,
    chat: ChatId,
    commands: impl Iterator<Item = &'a Command>,
) -> Result<HashSet<MessageId>, Fault> {
    let edited = commands.filter_map(|command| match command {
        Command::Edit { message, .. } => Some(big(message.0)),
        _ => None,
    });
    let edited: Vec<i64> = edited.collect();
    if edited.is_empty() {
        return Ok(HashSet::new());
    }
    let id = id_bytes(chat);
    let sql = "SELECT id FROM messages WHERE chat = $1 AND id = ANY ($2) AND kind = 'user' AND gone IS NULL";
    let params: [Param<'_>; 2] = [(&&id[..], Type::BYTEA), (&edited, Type::INT8_ARRAY)];
    let rows = conn.query(sql, &params).await?;
    Ok(rows.iter().map(|row| MessageId(count(row, "id"))).collect())
}
