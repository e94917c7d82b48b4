//! A chat, and nothing left of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_postgres::types::Type;

use crate::postgres::ChatLock;
use crate::postgres::Inner;
use crate::postgres::connection::columns::{big, id_bytes};
use crate::postgres::connection::pool::{Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::notify::channel::Urgency;
use crate::store::{Hint, Lease, StoreError, WriteError};

impl Inner {
    /// Deletes a held chat. No other process journals for it, and no append of this one is in flight.
    pub(crate) async fn delete(self: Arc<Self>, _turn: ChatLock, lease: Lease) -> Result<(), WriteError> {
        let (chat, right) = (lease.chat(), lease.append_right());
        let cache = self.caches.at(chat);
        let worker = self.state().current();
        let (true, Some(worker)) = (cache.is_open_to(right, worker), worker) else {
            return Err(self.refusal(chat).await);
        };
        cache.clear(right.fence);
        self.flush().await?;
        self.file(worker).await?; // What lies among that of other chats goes too.
        self.floor.fetch_max(big(right.fence.0), Ordering::Relaxed);
        let mut retry = self.reads.retry();
        let mut is_again = false;
        loop {
            match self.try_delete(&lease, worker).await {
                Ok(true) => break,
                // Only this process could delete it: its answer was lost.
                Ok(false) => match self.refusal(chat).await {
                    WriteError::Store(StoreError::NoSuchChat) if is_again => break,
                    error => return Err(error),
                },
                Err(fault) => retry.wait(fault).await?,
            }
            is_again = true;
        }
        self.tell(Hint::News(chat), Urgency::Now); // Subscribers read, and find that it is deleted.
        Ok(())
    }

    async fn try_delete(&self, lease: &Lease, worker: i64) -> Result<bool, DbFault> {
        let (id, fence) = (id_bytes(lease.chat()), big(lease.fence().0));
        // What refers to the chat goes with it. Drafts do not, for that would cost every row of theirs an index.
        let sql = "DELETE FROM chats WHERE id = $1 AND fence = $2 AND worker = $3 RETURNING no";
        let params: [Param<'_>; 3] = [(&&id[..], Type::BYTEA), (&fence, Type::INT8), (&worker, Type::INT8)];
        let conn = self.reads.pool.conn().await?;
        let (_, deleted) = tokio::try_join!(conn.begin(TxMode::Write), conn.query_opt(sql, &params))?;
        let Some(deleted) = deleted else {
            conn.rollback().await?;
            return Ok(false);
        };
        let no: i64 = deleted.get("no");
        // Behind the deletion, which waits for chats that are being created below this one.
        let (mark, uncount) =
            ("UPDATE chats SET orphaned = true WHERE parent = $1", "DELETE FROM used_below WHERE chat = $1");
        let (drafts, of_chat): ([Param<'_>; 1], [Param<'_>; 1]) = ([(&no, Type::INT8)], [(&&id[..], Type::BYTEA)]);
        tokio::try_join!(
            conn.execute("DELETE FROM drafts WHERE no = $1", &drafts),
            conn.execute(mark, &of_chat),
            conn.execute(uncount, &of_chat),
        )?;
        conn.commit().await?;
        Ok(true)
    }
}
