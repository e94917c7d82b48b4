//! The connections that only read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, Transaction};
use tokio::sync::Semaphore;

use super::connect;
use super::trouble::{Halt, told};
use crate::store::StoreError;

/// A few connections, and whoever waits for one.
#[derive(Debug)]
pub(super) struct Readers {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(file: PathBuf, len: usize) -> Arc<Self> {
        Arc::new(Self { file, idle: Mutex::new(Vec::new()), permits: Arc::new(Semaphore::new(len)) })
    }

    /// Runs `read` on a thread where it may block, on a picture of the database that does not change meanwhile.
    pub(super) async fn read<T, E>(
        self: &Arc<Self>,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Halt<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let closed = |_| StoreError::Unavailable("the store is closed".into());
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        let readers = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit; // Given back by the work: whoever asked for it may be gone long before it ends.
            readers.on_connection(read)
        });
        let done = done.await;
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Halt::No(error))) => Err(error),
            Ok(Err(Halt::Failed(error))) => Err(told(&error).into()),
            Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
            Err(_) => Err(StoreError::Unavailable("the program ends".into()).into()),
        }
    }

    fn on_connection<T, E>(&self, read: impl FnOnce(&Transaction<'_>) -> Result<T, Halt<E>>) -> Result<T, Halt<E>> {
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect::reading(&self.file).map_err(connect::as_sqlite)?,
        };
        let done = connection.transaction().map_err(Halt::Failed).and_then(|snapshot| read(&snapshot));
        if !matches!(done, Err(Halt::Failed(_))) {
            self.idle().push(connection); // One that failed is made anew.
        }
        done
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;
    use crate::sqlite::tests::{dir, open};

    async fn waits<F: Future>(mut future: Pin<&mut F>) -> bool {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }

    /// I19: whoever hangs up leaves a read behind, and that still counts: clients that come and go do not make more of them
    /// than may be at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_read_keeps_its_place_when_nobody_waits_for_it_any_more() {
        let dir = dir("readers");
        drop(open(&dir));
        let readers = Readers::new(dir.join("everturn.db"), 1);
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let mut first = Box::pin(readers.read(move |_| {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            Ok::<_, Halt<StoreError>>(())
        }));
        assert!(waits(first.as_mut()).await);
        begins.recv().unwrap();
        drop(first);
        let mut second = Box::pin(readers.read(|_| Ok::<_, Halt<StoreError>>(())));
        assert!(waits(second.as_mut()).await);
        assert_eq!((readers.permits.available_permits(), readers.idle().len()), (0, 0));
        end.send(()).unwrap();
        second.await.unwrap();
        assert_eq!(readers.idle().len(), 1, "and its connection was used again");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
