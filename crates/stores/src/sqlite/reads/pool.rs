//! The reader connections and their threads.
//!
//! Reads wait in one queue, and a few threads run them. They are threads of their own: blocking threads of a runtime are
//! started anew under every burst, each with its own memory, and may all be taken by DNS look-ups (decision 19).
//! Searches read every message and take long, so they never occupy all threads: other reads overtake waiting searches.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction};
use tokio::sync::oneshot;

use crate::sqlite::error::{TxError, store_error};
use crate::sqlite::setup::connect;
use crate::store::StoreError;

type Read = Box<dyn FnOnce(&PoolShared) + Send>;

/// Expected duration of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Short.
    Short,
    /// Reads every message.
    Search,
}

/// A few connections and the reads that wait for one. Its threads end when it is dropped.
#[derive(Debug)]
pub(crate) struct ReaderPool(Arc<PoolShared>);

/// What the threads share.
#[derive(Debug)]
struct PoolShared {
    file: PathBuf,
    len_max: usize,
    /// Searches at the same time.
    searches_max: usize,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Kind, Read)>,
    /// Number of threads.
    threads: usize,
    /// Threads that are idle, or were woken and have not taken their read yet.
    resting: usize,
    /// Threads that run a search.
    searches: usize,
    idle: Vec<Connection>,
    is_closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("waiting", &self.waiting.len()).field("threads", &self.threads).finish()
    }
}

impl ReaderPool {
    pub(crate) fn new(file: PathBuf, len_max: usize) -> Self {
        let (searches_max, state, woken) = ((len_max / 2).max(1), Mutex::default(), Condvar::new());
        Self(Arc::new(PoolShared { file, len_max, searches_max, state, woken }))
    }

    /// Runs `read` on a reader thread, on one snapshot of the database. A read is skipped if its future is dropped while it
    /// waits; one that has begun keeps its thread to its end.
    pub(crate) async fn read<T, E>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, TxError<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.wait(Kind::Short, read).await
    }

    /// Runs a read that may take long.
    pub(crate) async fn search<T, E>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, TxError<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.wait(Kind::Search, read).await
    }

    async fn wait<T, E>(
        &self,
        kind: Kind,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, TxError<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, done) = oneshot::channel();
        let read: Read = Box::new(move |shared| {
            if !reply.is_closed() {
                let done = catch_unwind(AssertUnwindSafe(|| shared.on_connection(read)));
                let _ = reply.send(done); // The caller may have dropped its future.
            }
        });
        self.put(kind, read);
        match done.await {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(TxError::Refused(error)))) => Err(error),
            Ok(Ok(Err(TxError::Failed(error)))) => Err(store_error(&error).into()),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(StoreError::Unavailable("no thread can be started to read".into()).into()),
        }
    }

    /// Queues a read, and starts a thread for it if there may be one more.
    fn put(&self, kind: Kind, read: Read) {
        let mut state = self.0.state();
        state.waiting.push_back((kind, read));
        self.0.woken.notify_one();
        if state.waiting.len() > state.resting && state.threads < self.0.len_max {
            let shared = self.0.clone();
            match std::thread::Builder::new().name("sqlite-reader".into()).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => state.waiting.clear(), // No thread will run it.
                Err(_) => {}
            }
        }
    }
}

impl Drop for ReaderPool {
    /// Closes idle connections before it returns: the directory may be released then.
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        self.0.woken.notify_all();
        drop(idle);
    }
}

impl PoolShared {
    /// Runs reads until the pool is closed.
    fn work(&self) {
        let mut before = Kind::Short;
        while let Some((kind, read)) = self.next(before) {
            read(self);
            before = kind;
        }
    }

    /// The next read that may run, after a read of kind `before`. A thread that ends a search takes the next entry itself,
    /// so no other thread has to be woken for it.
    fn next(&self, before: Kind) -> Option<(Kind, Read)> {
        let mut state = self.state();
        state.searches -= usize::from(before == Kind::Search);
        loop {
            let may_search = state.searches < self.searches_max;
            let place = state.waiting.iter().position(|(kind, _)| *kind == Kind::Short || may_search);
            if let Some((kind, read)) = place.and_then(|place| state.waiting.remove(place)) {
                state.searches += usize::from(kind == Kind::Search);
                return Some((kind, read));
            }
            if state.is_closed {
                return None;
            }
            state.resting += 1;
            state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.resting -= 1;
        }
    }

    fn on_connection<T, E>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, TxError<E>>,
    ) -> Result<T, TxError<E>> {
        let idle = self.state().idle.pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect::reading(&self.file).map_err(connect::as_sqlite)?,
        };
        let done = connection.transaction().map_err(TxError::Failed).and_then(|snapshot| read(&snapshot));
        if !matches!(done, Err(TxError::Failed(_))) {
            self.state().idle.push(connection); // A connection that failed is not used again.
        }
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change is made whole.
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

    /// I19: a read still counts after its client hung up: clients that come and go cause no more reads than the limit.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_read_keeps_its_place_when_nobody_waits_for_it_any_more() {
        let dir = dir("readers");
        drop(open(&dir));
        let readers = ReaderPool::new(dir.join("everturn.db"), 1);
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let mut first = Box::pin(readers.read(move |_| {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            Ok::<_, TxError<StoreError>>(())
        }));
        assert!(waits(first.as_mut()).await);
        begins.recv().unwrap();
        drop(first);
        let mut second = Box::pin(readers.read(|_| Ok::<_, TxError<StoreError>>(())));
        assert!(waits(second.as_mut()).await);
        assert_eq!(format!("{:?}", readers.0.state()), "State { waiting: 1, threads: 1 }", "there is no other thread");
        end.send(()).unwrap();
        second.await.unwrap();
        assert_eq!(readers.0.state().idle.len(), 1, "and its connection was used again");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// However many searches run, other reads do not wait for them; and every search gets its turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn searches_leave_room_for_others() {
        let dir = dir("readers-searching");
        drop(open(&dir));
        let readers = Arc::new(ReaderPool::new(dir.join("everturn.db"), 4));
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let ends = Arc::new(Mutex::new(ends));
        let mut searches = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (readers, begun, ends) = (readers.clone(), begun.clone(), ends.clone());
            let search = move |_: &Transaction<'_>| {
                begun.send(()).unwrap();
                let ends = ends.lock().unwrap();
                ends.recv().unwrap();
                Ok::<_, TxError<StoreError>>(())
            };
            searches.spawn(async move { readers.search(search).await });
        }
        for _ in 0..2 {
            begins.recv().unwrap();
        }
        for _ in 0..10 {
            readers.read(|_| Ok::<_, TxError<StoreError>>(())).await.unwrap();
        }
        assert!(begins.try_recv().is_err(), "the others wait");
        assert_eq!(readers.0.state().searches, 2);
        for _ in 0..6 {
            end.send(()).unwrap();
        }
        searches.join_all().await.into_iter().for_each(|searched| searched.unwrap());
        assert_eq!(begins.try_iter().count(), 4);
        // The threads that have nothing left to do say so a moment later.
        let is_busy = || {
            let state = readers.0.state();
            state.resting < state.threads
        };
        while is_busy() {
            tokio::task::yield_now().await;
        }
        assert_eq!(readers.0.state().searches, 0);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// A read with a dropped future is skipped, and a panic in one read does not affect others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_dropped_read_is_skipped_and_a_panic_affects_no_other() {
        let dir = dir("readers-given-up");
        drop(open(&dir));
        let readers = Arc::new(ReaderPool::new(dir.join("everturn.db"), 1));
        let (end, ends) = mpsc::channel::<()>();
        let mut first = Box::pin(readers.read(move |_| {
            ends.recv().unwrap();
            Ok::<_, TxError<StoreError>>(())
        }));
        assert!(waits(first.as_mut()).await);
        let mut second =
            Box::pin(readers.read(|_| -> Result<(), TxError<StoreError>> { panic!("no caller waits for this") }));
        assert!(waits(second.as_mut()).await);
        drop(second);
        let panics = tokio::spawn({
            let readers = readers.clone();
            async move { readers.read(|_| -> Result<(), TxError<StoreError>> { panic!("as it should") }).await }
        });
        end.send(()).unwrap();
        first.await.unwrap();
        let panicked = panics.await.unwrap_err().into_panic();
        assert_eq!(panicked.downcast_ref(), Some(&"as it should"));
        readers.read(|_| Ok::<_, TxError<StoreError>>(())).await.unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Threads wait for further reads, and end when the store is dropped.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn threads_end_with_the_store() {
        let dir = dir("readers-leaving");
        drop(open(&dir));
        let readers = ReaderPool::new(dir.join("everturn.db"), 100);
        for _ in 0..100 {
            readers.read(|_| Ok::<_, TxError<StoreError>>(())).await.unwrap();
        }
        let threads = readers.0.state().threads;
        assert!(threads < 50, "{threads} threads for one read at a time");
        let shared = Arc::downgrade(&readers.0);
        drop(readers);
        assert!(shared.upgrade().is_none_or(|shared| shared.state().idle.is_empty()), "a connection is still open");
        let gone = async {
            while shared.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.expect("a thread waits for ever");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
