//! Acknowledgement of an append.

use crate::store::{StoreError, WriteError};

/// Callback that receives the result of an append. Called exactly once, also if the store is closed before it stores
/// the rows.
///
/// It runs on the thread that stored the rows, while other callers wait: it must be short and never block.
pub struct Ack(Option<Box<dyn FnOnce(Stored) + Send + Sync>>);

/// Result of an append: `Ok` once the rows are stored.
pub type Stored = Result<(), WriteError>;

impl Ack {
    /// Calls `hear` with the result.
    #[must_use]
    pub fn new(hear: impl FnOnce(Stored) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(hear)))
    }

    /// An acknowledgement, and a future that waits for it.
    pub(crate) fn awaited() -> (Self, impl Future<Output = Stored>) {
        let (tell, told) = tokio::sync::oneshot::channel();
        let ack = Self::new(move |stored| drop(tell.send(stored))); // The waiting future may be dropped.
        (ack, async { told.await.unwrap_or_else(|_| closed()) })
    }

    /// Reports the result.
    pub fn tell(mut self, stored: Stored) {
        if let Some(hear) = self.0.take() {
            hear(stored);
        }
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        if let Some(hear) = self.0.take() {
            hear(closed());
        }
    }
}

fn closed() -> Stored {
    Err(StoreError::Unavailable("the store is closed".into()).into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn an_append_is_acknowledged_once_whatever_happens() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ack = || {
            let heard = heard.clone();
            Ack::new(move |stored| heard.lock().unwrap().push(stored))
        };
        ack().tell(Ok(()));
        ack().tell(Err(WriteError::Fenced));
        drop(ack());
        assert_eq!(*heard.lock().unwrap(), [Ok(()), Err(WriteError::Fenced), closed()]);
    }

    #[tokio::test]
    async fn one_that_is_waited_for_may_be_left() {
        let (ack, stored) = Ack::awaited();
        ack.tell(Err(WriteError::OutOfPlace));
        assert_eq!(stored.await, Err(WriteError::OutOfPlace));
        let (ack, stored) = Ack::awaited();
        drop(stored);
        ack.tell(Ok(()));
    }
}
