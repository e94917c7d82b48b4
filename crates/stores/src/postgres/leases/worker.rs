//! Saying that this process is alive, and noticing when nobody may believe it any more.
//!
//! Chats are held by workers, one for a process, so staying alive costs one small write every few seconds however many
//! chats there are. It is made on a thread of its own: a program too busy to run its tasks is not dead. Whether others
//! take it for dead is decided by the database's clock. So this side counts from before each renewal was asked for, by a
//! clock of its own, and gives up its chats well before they can be taken.
//!
//! A process that was killed need not be waited for: its row goes at once if the database sees that its session has ended
//! ([`session`]), or when it is started again under the same instance name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, interval_at, timeout};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::clock;
use crate::postgres::PostgresOptions;
use crate::postgres::connection::pool::Param;
use crate::postgres::connection::retry::DbFault;
use crate::postgres::lasting;
use crate::postgres::leases::session::{self, WorkerLock};
use crate::postgres::notify::channel::LOOK;
use crate::postgres::notify::hints::HintQueue;
use crate::postgres::setup::address::Address;
use crate::store::{Hint, StoreError};

const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long a drop waits for the unregister.
const UNREGISTER_MAX: Duration = Duration::from_secs(2);

/// How often a worker looks for others whose session has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a session has to be gone before its worker is taken for dead. A live process that lost its session withdraws its
/// lock within milliseconds, over its other connection.
const GONE_MIN: Duration = Duration::from_millis(250);
/// How long a worker is connected before it looks: after a restart of the database all come back at about the same time.
const SETTLED_MIN: Duration = Duration::from_secs(2);

/// What this process knows of its own standing.
pub(crate) struct WorkerState {
    standing: Mutex<Standing>,
    /// The advisory lock that a session of this process holds, if one does.
    pub(crate) session_lock: watch::Sender<Option<i64>>,
    lasts: Duration,
    is_paused: AtomicBool,
}

struct Standing {
    /// Under which number this process is known. Every comeback has a new one.
    id: Option<i64>,
    /// Before when the newest renewal was asked for.
    renewed: Instant,
    /// Whether it was told that this number is no good any more.
    is_lost: bool,
    /// Why this process could not say that it is alive when it last tried to.
    trouble: Option<StoreError>,
}

impl WorkerState {
    /// The number chats are held under, unless others may take this process for dead.
    pub(crate) fn current(&self) -> Option<i64> {
        let standing = self.standing();
        let is_trusted = !standing.is_lost && clock::now() < standing.renewed + self.trusted();
        standing.id.filter(|_| is_trusted)
    }

    /// Nothing, if this process has a standing and could write when it last did. Asks nobody.
    pub(crate) fn ready(&self) -> Result<(), StoreError> {
        let is_current = self.current().is_some();
        match &self.standing().trouble {
            Some(trouble) => Err(trouble.clone()),
            None if is_current => Ok(()),
            None => Err(StoreError::Unavailable("the database was not told that this process is alive".into())),
        }
    }

    /// For tests: as if the process stood still.
    #[cfg(feature = "conformance")]
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// How long a renewal is relied on: less than others believe it.
    fn trusted(&self) -> Duration {
        self.lasts * 2 / 3
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that says so.
pub(crate) struct Worker {
    pub(crate) state: Arc<WorkerState>,
    stop: watch::Sender<bool>,
    done: Mutex<mpsc::Receiver<()>>,
}

impl Worker {
    /// Makes this process known, and keeps it so until it is dropped.
    pub(crate) async fn start(
        address: Address,
        options: &PostgresOptions,
        lease_tolerance: f64,
        hints: Arc<HintQueue>,
    ) -> Result<Self, StoreError> {
        let standing = Mutex::new(Standing { id: None, renewed: clock::now(), is_lost: true, trouble: None });
        let session_lock = watch::Sender::new(None);
        let state = Arc::new(WorkerState {
            standing,
            session_lock,
            lasts: options.lease_max,
            is_paused: AtomicBool::new(false),
        });
        let (stop, stopped) = watch::channel(false);
        let (is_done, done) = mpsc::channel();
        let (known, is_known) = tokio::sync::oneshot::channel();
        let pulse = Pulse {
            state: state.clone(),
            address,
            every: options.heartbeat,
            answer_max: options.lease_max / 3,
            lease_tolerance,
            instance: options.instance.clone().map(String::into_bytes),
            hints,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let thread = move || {
            runtime.block_on(pulse.run(known, stopped));
            let _ = is_done.send(()); // Nobody may be waiting.
        };
        let spawned = std::thread::Builder::new().name("everturn-worker".into()).spawn(thread);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread for the heartbeat: {error}")))?;
        let worker = Self { state, stop, done: Mutex::new(done) };
        match timeout(options.retry_max, is_known).await {
            Ok(Ok(())) => Ok(worker),
            _ => Err(StoreError::Unavailable("the database does not answer".into())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = done.recv_timeout(UNREGISTER_MAX); // Else others wait until the lease has lapsed.
    }
}

struct Pulse {
    state: Arc<WorkerState>,
    address: Address,
    every: Duration,
    answer_max: Duration,
    /// How much longer than its word a silent process is believed.
    lease_tolerance: f64,
    instance: Option<Vec<u8>>,
    hints: Arc<HintQueue>,
}

type Known = tokio::sync::oneshot::Sender<()>;

impl Pulse {
    async fn run(self, known: Known, mut stopped: watch::Receiver<bool>) {
        let mut known = Some(known);
        let beats = async {
            loop {
                if let Err(fault) = self.session(&mut known).await {
                    tracing::debug!(?fault, "this process could not say that it is alive");
                    self.state.standing().trouble = Some(lasting(fault));
                    self.hints.put(Hint::Late);
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        };
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = beats => {}
            () = self.watch() => {}
        }
        if let Err(fault) = timeout(UNREGISTER_MAX, self.unregister()).await.unwrap_or(Ok(())) {
            tracing::debug!(?fault, "this process could not say that it leaves");
        }
    }

    /// Tells when nobody may believe any more that this process is alive.
    async fn watch(&self) {
        loop {
            if self.state.current().is_none() {
                self.lose("the database could not be told in time that this process is alive");
            }
            tokio::time::sleep(self.state.lasts / 60).await;
        }
    }

    /// Lets go of all chats, once.
    fn lose(&self, why: &str) {
        let mut standing = self.state.standing();
        if !std::mem::replace(&mut standing.is_lost, true) {
            tracing::warn!("{why}: letting go of all chats");
            self.hints.put(Hint::Lost);
        }
    }

    async fn session(&self, known: &mut Option<Known>) -> Result<(), DbFault> {
        let client = self.connect().await?;
        let mut session_lock = self.state.session_lock.subscribe();
        let mut beats = interval(self.every);
        let mut looks = interval_at(tokio::time::Instant::now() + SETTLED_MIN, LOOK_EVERY);
        for ticks in [&mut beats, &mut looks] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let mut suspects = Vec::new();
        loop {
            let is_to_look = tokio::select! {
                biased;
                _ = session_lock.changed() => false, // The row is to say so at once.
                _ = beats.tick() => false,
                _ = looks.tick() => true,
            };
            if self.state.is_paused.load(Ordering::Relaxed) {
                continue;
            }
            if is_to_look {
                suspects = self.expire_disconnected(&client, &suspects).await?;
                if !suspects.is_empty() {
                    looks.reset_after(GONE_MIN);
                }
                continue;
            }
            self.beat(&client).await?;
            self.state.standing().trouble = None;
            if let Some(known) = known.take() {
                let _ = known.send(()); // Whoever opens may have given up.
            }
        }
    }

    async fn connect(&self) -> Result<Client, DbFault> {
        let connected = timeout(self.answer_max, self.address.connect()).await;
        let (client, connection) = connected.map_err(|_| DbFault::Passing("no connection in time".into()))??;
        tokio::spawn(connection); // Ends with its client.
        Ok(client)
    }

    /// Renews what others believe, or makes this process known anew.
    async fn beat(&self, client: &Client) -> Result<(), DbFault> {
        let asked = clock::now();
        let Some(id) = self.state.current() else { return self.register(client).await };
        let renew = "UPDATE workers SET seen = clock_timestamp(), session_lock = $2 WHERE id = $1";
        let session_lock = *self.state.session_lock.borrow();
        let params: [Param<'_>; 2] = [(&id, Type::INT8), (&session_lock, Type::INT8)];
        let renewed = self.answer(async { Ok(client.execute_typed(renew, &params).await?) });
        let is_known = renewed.await? == 1;
        if is_known && self.state.current().is_some() {
            self.state.standing().renewed = asked;
            return self.expire_silent(client, id).await;
        }
        self.lose(if is_known {
            "the database was slow to hear of this process"
        } else {
            "this process was taken for dead"
        });
        self.register(client).await
    }

    /// Gives up processes that were silent for too long, and tells all others that there may be work.
    async fn expire_silent(&self, client: &Client, id: i64) -> Result<(), DbFault> {
        let expire = "DELETE FROM workers WHERE id <> $1 AND clock_timestamp() > seen + lasts * $2";
        let params: [Param<'_>; 2] = [(&id, Type::INT8), (&self.lease_tolerance, Type::FLOAT8)];
        match self.answer(async { Ok(client.execute_typed(expire, &params).await?) }).await? {
            0 => Ok(()),
            _ => self.tell_of_free_chats(client).await,
        }
    }

    /// Gives up processes whose session has ended and was gone at the last look, too. Those it is gone of now are returned.
    async fn expire_disconnected(&self, client: &Client, suspects: &[WorkerLock]) -> Result<Vec<WorkerLock>, DbFault> {
        let gone = self.answer(session::disconnected(client)).await?;
        let (own, lock) = (self.state.standing().id, *self.state.session_lock.borrow());
        if gone.iter().any(|locked| (Some(locked.0), Some(locked.1)) == (own, lock)) {
            tracing::warn!("another client uses the session of this process: the lock in it is not relied on");
            self.state.session_lock.send_replace(None);
        }
        let others = gone.into_iter().filter(|(id, _)| Some(*id) != own);
        let (dead, new): (Vec<_>, Vec<_>) = others.partition(|locked| suspects.contains(locked));
        if !dead.is_empty() && self.answer(session::expire(client, &dead)).await? > 0 {
            tracing::info!("a server died and the database closed its session: its chats are taken over");
            self.tell_of_free_chats(client).await?;
        }
        Ok(new)
    }

    async fn tell_of_free_chats(&self, client: &Client) -> Result<(), DbFault> {
        self.hints.put(Hint::Missed);
        self.answer(async { Ok(client.batch_execute(LOOK).await?) }).await
    }

    /// Makes this process known under a new number. What was held under the one before, or by the process that this one
    /// replaces, is free.
    async fn register(&self, client: &Client) -> Result<(), DbFault> {
        self.lose("the database could not be told in time that this process is alive");
        let asked = clock::now();
        let lasts = self.state.lasts.as_millis() as i64;
        let session_lock = *self.state.session_lock.borrow();
        let insert = "
            INSERT INTO workers (seen, lasts, session_lock, instance)
            VALUES (clock_timestamp(), $1 * interval '1 millisecond', $2, $3) RETURNING id";
        let params: [Param<'_>; 3] = [(&lasts, Type::INT8), (&session_lock, Type::INT8), (&self.instance, Type::BYTEA)];
        let row = self.answer(async { Ok(client.query_typed_one(insert, &params).await?) }).await?;
        let id: i64 = row.get(0);
        let standing = Standing { id: Some(id), renewed: asked, is_lost: false, trouble: None };
        let before = std::mem::replace(&mut *self.state.standing(), standing).id;
        let remove = "DELETE FROM workers WHERE id = $2 OR instance = $3 AND id <> $1";
        let params: [Param<'_>; 3] = [(&id, Type::INT8), (&before, Type::INT8), (&self.instance, Type::BYTEA)];
        match self.answer(async { Ok(client.execute_typed(remove, &params).await?) }).await? {
            0 => Ok(()),
            _ => self.tell_of_free_chats(client).await,
        }
    }

    async fn unregister(&self) -> Result<(), DbFault> {
        let id = self.state.standing().id.take();
        let Some(id) = id else { return Ok(()) };
        self.remove(&self.connect().await?, id).await
    }

    async fn remove(&self, client: &Client, id: i64) -> Result<(), DbFault> {
        let remove = "DELETE FROM workers WHERE id = $1";
        self.answer(async { Ok(client.execute_typed(remove, &[(&id, Type::INT8)]).await?) }).await?;
        self.answer(async { Ok(client.batch_execute(LOOK).await?) }).await
    }

    async fn answer<T>(&self, asked: impl Future<Output = Result<T, DbFault>>) -> Result<T, DbFault> {
        match timeout(self.answer_max, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(DbFault::Passing("the database does not answer".into())),
        }
    }
}
