//! Being told what became of an append.

use crate::store::{StoreError, WriteError};

/// Who hears what became of rows that were handed in. Told once, also if the store ends before it comes to them.
///
/// It is told on whatever thread knows, while others wait to be told: what it does there is little, and never waits.
pub struct Ack(Option<Box<dyn FnOnce(Stored) + Send + Sync>>);

/// What became of rows: once they are stored, it is `Ok`.
pub type Stored = Result<(), WriteError>;

impl Ack {
    /// Calls `hear` when it is known.
    #[must_use]
    pub fn new(hear: impl FnOnce(Stored) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(hear)))
    }

    /// One that is waited for.
    pub(crate) fn awaited() -> (Self, impl Future<Output = Stored>) {
        let (tell, told) = tokio::sync::oneshot::channel();
        let ack = Self::new(move |stored| drop(tell.send(stored))); // Whoever waited may have gone.
        (ack, async { told.await.unwrap_or_else(|_| closed()) })
    }

    /// It is known now.
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
    fn whoever_handed_rows_in_hears_of_them_once_whatever_happens() {
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
