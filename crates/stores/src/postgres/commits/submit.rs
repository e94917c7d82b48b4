//! Putting commands into the inbox.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everturn_core::change::admit_behind;
use everturn_core::command::{Command, InboxCommand};
use everturn_core::ids::{ChatId, InboxSeq, MessageId, StepId};
use everturn_core::limits::Limits;
use tokio_postgres::types::Type;

use crate::postgres::ChatLock;
use crate::postgres::Inner;
use crate::postgres::connection::columns::{big, count, id_bytes, put_bytes, text};
use crate::postgres::connection::pool::{Conn, Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::notify::channel::Urgency;
use crate::postgres::reads::chat::{chat_of, inbound};
use crate::shape::{Written, command};
use crate::store::{Hint, Receipt, StoreError, Submission, SubmitError};
use crate::tables::Fetch;

/// One submission on its way, however often it is tried.
struct PendingSubmit {
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
        _turn: ChatLock,
        chat: ChatId,
        submission: Submission,
        limits: Limits,
    ) -> Result<Receipt, SubmitError> {
        let text = command::write(&submission.command);
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let pending_submit = PendingSubmit { chat, id: id_bytes(chat), submission, limits, text, ticket };
        let mut retry = self.reads.retry();
        let mut is_again = false;
        loop {
            match self.try_submit(&pending_submit, is_again).await {
                Ok((answer, is_new)) => {
                    if is_new {
                        self.tell(Hint::Inbox(chat), Urgency::Now);
                    }
                    return answer.map(|seq| Receipt { chat, seq });
                }
                Err(fault) => retry.wait(fault).await?,
            }
            is_again = true;
        }
    }

    async fn try_submit(&self, pending_submit: &PendingSubmit, is_again: bool) -> Result<(Answer, bool), DbFault> {
        let conn = self.reads.pool.conn().await?;
        let sql = "SELECT body, submitted, obeyed FROM chats WHERE id = $1 FOR UPDATE";
        let params: [Param<'_>; 1] = [(&&pending_submit.id[..], Type::BYTEA)];
        let (_, row) = tokio::try_join!(conn.begin(TxMode::Write), conn.query_opt(sql, &params))?;
        let Some(row) = row else {
            conn.rollback().await?;
            return Ok((Err(StoreError::NoSuchChat.into()), false));
        };
        if let Some(answer) = self.earlier(&conn, pending_submit, is_again).await? {
            conn.rollback().await?;
            return Ok((answer, false));
        }
        let pending = pending(&conn, pending_submit.chat, count(&row, "obeyed"), Fetch::Lengths).await?;
        let chat = chat_of(&conn, pending_submit.chat, text(&row, "body")?, Fetch::Lengths).await?;
        let wanted = &pending_submit.submission.command;
        let users =
            users(&conn, pending_submit.chat, pending.iter().map(|inbound| &inbound.command).chain([wanted])).await?;
        let at = pending_submit.submission.at;
        let admitted =
            admit_behind(&chat, pending.iter(), wanted, &pending_submit.limits, at, |id| users.contains(&id));
        match admitted {
            Err(refusal) => {
                conn.rollback().await?;
                Ok((Err(refusal.into()), false))
            }
            Ok(aimed) => {
                let seq = InboxSeq(count(&row, "submitted") + 1);
                self.insert(&conn, pending_submit, seq, aimed).await?;
                Ok((Ok(seq), true))
            }
        }
    }

    /// What the same request got before: by its key, or because its answer was lost.
    async fn earlier(
        &self,
        conn: &Conn,
        pending_submit: &PendingSubmit,
        is_again: bool,
    ) -> Result<Option<Answer>, DbFault> {
        let id: &[u8] = &pending_submit.id;
        if is_again {
            let sql = "SELECT seq FROM inbox WHERE chat = $1 AND sender = $2 AND ticket = $3 ORDER BY seq DESC LIMIT 1";
            let params: [Param<'_>; 3] =
                [(&id, Type::BYTEA), (&self.sender, Type::INT8), (&pending_submit.ticket, Type::INT8)];
            if let Some(row) = conn.query_opt(sql, &params).await? {
                return Ok(Some(Ok(InboxSeq(count(&row, "seq")))));
            }
        }
        let Some(key) = &pending_submit.submission.key else { return Ok(None) };
        let sql = "SELECT seq, aimed, at, key, body FROM inbox WHERE chat = $1 AND sha256(key) = sha256($2)";
        let params: [Param<'_>; 2] = [(&id, Type::BYTEA), (&key.as_bytes(), Type::BYTEA)];
        let Some(row) = conn.query_opt(sql, &params).await? else { return Ok(None) };
        let seq = InboxSeq(count(&row, "seq"));
        let earlier = inbound(conn, pending_submit.chat, &[row], Fetch::Bytes).await?.pop();
        let is_same = earlier.is_some_and(|earlier| earlier.command == pending_submit.submission.command);
        Ok(Some(if is_same { Ok(seq) } else { Err(SubmitError::Conflict) }))
    }

    async fn insert(
        &self,
        conn: &Conn,
        pending_submit: &PendingSubmit,
        seq: InboxSeq,
        aimed: StepId,
    ) -> Result<(), DbFault> {
        let (id, seq, aimed): (&[u8], i64, i64) = (&pending_submit.id, big(seq.0), big(aimed.0));
        let key = pending_submit.submission.key.as_ref().map(|key| key.as_bytes());
        let insert = "
            INSERT INTO inbox (chat, seq, aimed, key, body, at, sender, ticket)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let params: [Param<'_>; 8] = [
            (&id, Type::BYTEA),
            (&seq, Type::INT8),
            (&aimed, Type::INT8),
            (&key, Type::BYTEA),
            (&pending_submit.text.json, Type::TEXT),
            (&pending_submit.submission.at.0, Type::INT8),
            (&self.sender, Type::INT8),
            (&pending_submit.ticket, Type::INT8),
        ];
        let note = "UPDATE chats SET submitted = $2 WHERE id = $1";
        let noted: [Param<'_>; 2] = [(&id, Type::BYTEA), (&seq, Type::INT8)];
        let blobs = [(pending_submit.chat, &pending_submit.text.blobs[..])];
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
pub(crate) async fn pending(
    conn: &Conn,
    chat: ChatId,
    obeyed: u64,
    fetch: Fetch,
) -> Result<Vec<InboxCommand>, DbFault> {
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
) -> Result<HashSet<MessageId>, DbFault> {
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
