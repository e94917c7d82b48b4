//! Forgetting the drafts of steps that are over. Late or never does no harm: nobody reads them.

use std::collections::HashMap;
use std::sync::Arc;

use everturn_core::ids::StepId;
use tokio::sync::mpsc;
use tokio_postgres::types::Type;

use super::cells::big;
use super::fault::Fault;
use super::link::{Link, Mode, Param};
use crate::failpoint::failpoint;

/// How many steps wait at most. Those that find no room go with the chat's next.
pub(super) const QUEUE_LEN_MAX: usize = 4096;

/// Trims for ever.
pub(super) async fn run(link: Arc<Link>, mut trims: mpsc::Receiver<(i64, StepId)>) {
    let mut taken = Vec::new();
    while trims.recv_many(&mut taken, QUEUE_LEN_MAX).await > 0 {
        let newest: HashMap<i64, StepId> = taken.drain(..).collect();
        if let Err(fault) = trim(&link, newest).await {
            tracing::debug!(?fault, "drafts of steps that are over stay for now");
        }
    }
}

async fn trim(link: &Link, newest: HashMap<i64, StepId>) -> Result<(), Fault> {
    let (chats, steps): (Vec<i64>, Vec<i64>) = newest.into_iter().map(|(no, step)| (no, big(step.0))).unzip();
    let sql = "DELETE FROM drafts USING unnest($1, $2) AS newest (no, step)
        WHERE drafts.no = newest.no AND drafts.step < newest.step";
    let params: [Param<'_>; 2] = [(&chats, Type::INT8_ARRAY), (&steps, Type::INT8_ARRAY)];
    failpoint!("postgres-trim");
    let conn = link.conn().await?;
    tokio::try_join!(conn.begin(Mode::WriteLater), conn.execute(sql, &params), conn.commit())?;
    Ok(())
}
