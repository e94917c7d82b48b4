//! The connections that only read.
//!
//! Reads wait in one queue, and a few threads take them from there one after the other. A thread does not go back to the
//! runtime between two reads: where that has more to do than it can, each of its turns would be a wait for all of them.
//! Whoever looks for words in everything that was ever said takes long, so searches never have all threads: other reads
//! go past those that wait.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction};
use tokio::sync::oneshot;

use super::connect;
use super::trouble::{Halt, told};
use crate::store::StoreError;

type Read = Box<dyn FnOnce(&Readers) + Send>;

/// How long a read may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// About as long as others.
    Short,
    /// As long as there is something to read.
    Search,
}

/// A few connections, and what waits for one.
#[derive(Debug)]
pub(super) struct Readers {
    file: PathBuf,
    len_max: usize,
    /// How many of them may search at once.
    searches_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Kind, Read)>,
    /// How many threads read.
    threads: usize,
    /// How many of them search.
    searches: usize,
    idle: Vec<Connection>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("waiting", &self.waiting.len()).field("threads", &self.threads).finish()
    }
}

impl Readers {
    pub(super) fn new(file: PathBuf, len_max: usize) -> Arc<Self> {
        Arc::new(Self { file, len_max, searches_max: (len_max / 2).max(1), state: Mutex::default() })
    }

    /// Runs `read` on a thread where it may block, on a picture of the database that does not change meanwhile. One that
    /// nobody waits for any more is not begun; one that has begun keeps its thread to its end.
    pub(super) async fn read<T, E>(
        self: &Arc<Self>,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Halt<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.wait(Kind::Short, read).await
    }

    /// The same for a read that may take long.
    pub(super) async fn search<T, E>(
        self: &Arc<Self>,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Halt<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.wait(Kind::Search, read).await
    }

    async fn wait<T, E>(
        self: &Arc<Self>,
        kind: Kind,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, Halt<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, done) = oneshot::channel();
        let read: Read = Box::new(move |readers| {
            if !reply.is_closed() {
                let done = catch_unwind(AssertUnwindSafe(|| readers.on_connection(read)));
                let _ = reply.send(done); // Whoever asked may be gone.
            }
        });
        self.put(kind, read);
        match done.await {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(Halt::No(error)))) => Err(error),
            Ok(Ok(Err(Halt::Failed(error)))) => Err(told(&error).into()),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(StoreError::Unavailable("the program ends".into()).into()),
        }
    }

    /// Puts a read behind the others, and finds it a thread if there may be one more.
    fn put(self: &Arc<Self>, kind: Kind, read: Read) {
        let mut state = self.state();
        state.waiting.push_back((kind, read));
        let is_short = state.threads < self.len_max;
        state.threads += usize::from(is_short);
        drop(state); // A runtime that ends drops what it is given, and that counts itself off.
        if is_short {
            let thread = Thread { readers: self.clone(), is_counted: true };
            tokio::task::spawn_blocking(move || thread.work());
        }
    }

    fn on_connection<T, E>(&self, read: impl FnOnce(&Transaction<'_>) -> Result<T, Halt<E>>) -> Result<T, Halt<E>> {
        let idle = self.state().idle.pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect::reading(&self.file).map_err(connect::as_sqlite)?,
        };
        let done = connection.transaction().map_err(Halt::Failed).and_then(|snapshot| read(&snapshot));
        if !matches!(done, Err(Halt::Failed(_))) {
            self.state().idle.push(connection); // One that failed is made anew.
        }
        done
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change is made whole.
    }
}

/// A thread that reads, from the moment it is asked for.
struct Thread {
    readers: Arc<Readers>,
    is_counted: bool,
}

impl Thread {
    /// Does what waits, until nothing does.
    fn work(mut self) {
        let mut before = Kind::Short;
        while let Some((kind, read)) = self.next(before) {
            read(&self.readers);
            before = kind;
        }
    }

    /// What waits and may be read, after a read of this kind. If nothing does, whoever comes next needs another thread; a
    /// search that may not be read yet is taken up by whoever searches now.
    fn next(&mut self, before: Kind) -> Option<(Kind, Read)> {
        let mut state = self.readers.state();
        state.searches -= usize::from(before == Kind::Search);
        let may_search = state.searches < self.readers.searches_max;
        let place = state.waiting.iter().position(|(kind, _)| *kind == Kind::Short || may_search);
        let next = place.and_then(|place| state.waiting.remove(place));
        match &next {
            Some((kind, _)) => state.searches += usize::from(*kind == Kind::Search),
            None => {
                state.threads -= 1;
                self.is_counted = false;
            }
        }
        next
    }
}

/// A runtime that ends may not even begin.
impl Drop for Thread {
    fn drop(&mut self) {
        if self.is_counted {
            self.readers.state().threads -= 1;
        }
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
        assert_eq!(format!("{:?}", readers.state()), "State { waiting: 1, threads: 1 }", "there is no other thread");
        end.send(()).unwrap();
        second.await.unwrap();
        assert_eq!(readers.state().idle.len(), 1, "and its connection was used again");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// However many search, somebody who reads does not wait for them; and every search has its turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn searches_leave_room_for_others() {
        let dir = dir("readers-searching");
        drop(open(&dir));
        let readers = Readers::new(dir.join("everturn.db"), 4);
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let ends = Arc::new(Mutex::new(ends));
        let mut searches = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (readers, begun, ends) = (readers.clone(), begun.clone(), ends.clone());
            let search = move |_: &Transaction<'_>| {
                begun.send(()).unwrap();
                let ends = ends.lock().unwrap();
                ends.recv().unwrap();
                Ok::<_, Halt<StoreError>>(())
            };
            searches.spawn(async move { readers.search(search).await });
        }
        for _ in 0..2 {
            begins.recv().unwrap();
        }
        for _ in 0..10 {
            readers.read(|_| Ok::<_, Halt<StoreError>>(())).await.unwrap();
        }
        assert!(begins.try_recv().is_err(), "the others wait");
        assert_eq!(readers.state().searches, 2);
        for _ in 0..6 {
            end.send(()).unwrap();
        }
        searches.join_all().await.into_iter().for_each(|searched| searched.unwrap());
        assert_eq!(begins.try_iter().count(), 4);
        // The threads that have nothing left to do say so a moment later.
        while readers.state().threads > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(readers.state().searches, 0);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// What nobody waits for costs nothing, and what panics costs nobody else.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_read_that_is_given_up_is_not_begun_and_one_that_panics_is_the_last_of_nobody() {
        let dir = dir("readers-given-up");
        drop(open(&dir));
        let readers = Readers::new(dir.join("everturn.db"), 1);
        let (end, ends) = mpsc::channel::<()>();
        let mut first = Box::pin(readers.read(move |_| {
            ends.recv().unwrap();
            Ok::<_, Halt<StoreError>>(())
        }));
        assert!(waits(first.as_mut()).await);
        let mut second =
            Box::pin(readers.read(|_| -> Result<(), Halt<StoreError>> { panic!("nobody waits for this") }));
        assert!(waits(second.as_mut()).await);
        drop(second);
        let panics = tokio::spawn({
            let readers = readers.clone();
            async move { readers.read(|_| -> Result<(), Halt<StoreError>> { panic!("as it should") }).await }
        });
        end.send(()).unwrap();
        first.await.unwrap();
        let panicked = panics.await.unwrap_err().into_panic();
        assert_eq!(panicked.downcast_ref(), Some(&"as it should"));
        readers.read(|_| Ok::<_, Halt<StoreError>>(())).await.unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
