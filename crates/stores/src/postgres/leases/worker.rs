//! The worker row: heartbeats, and noticing when this process's leases are no longer valid.
//!
//! Chats are held by workers, one per process, so a heartbeat costs one small write every few seconds however many chats
//! there are. It runs on a thread of its own: a program too busy to run its tasks is not dead. Other processes decide by
//! the database's clock whether a worker is dead. This side counts from before each renewal was sent, by its own clock,
//! and gives up its chats well before they can be taken.
//! Other processes need not wait for a killed process: its row is removed at once if the database sees that its session has
//! ended ([`session`]), or when it is started again under the same instance name.

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
use crate::postgres::setup::address::DbAddress;
use crate::store::{Hint, StoreError};

const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long a drop waits for the row to be removed.
const UNREGISTER_MAX: Duration = Duration::from_secs(2);

/// Interval of looking for workers with an ended session.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time between the two looks that must both find a session gone. A live process that lost its session withdraws its lock
/// within milliseconds, over its other connection.
const GONE_MIN: Duration = Duration::from_millis(250);
/// Time from connecting to the first look: after a restart of the database all processes reconnect at about the same time.
const SETTLED_MIN: Duration = Duration::from_secs(2);

/// What this process knows of its own worker row.
pub(crate) struct WorkerState {
    standing: Mutex<Standing>,
    /// The advisory lock that a session of this process holds, if one does.
    pub(crate) session_lock: watch::Sender<Option<i64>>,
    lasts: Duration,
    is_paused: AtomicBool,
}

struct Standing {
    /// Number of the row. Every registration gets a new one.
    id: Option<i64>,
    /// Time at which the newest renewal was sent.
    renewed: Instant,
    /// Whether [`Hint::Lost`] was sent for this number.
    is_lost: bool,
    /// Error of the last heartbeat, if it failed.
    trouble: Option<StoreError>,
}

impl WorkerState {
    /// Number under which chats are held, unless other processes may take them by now.
    pub(crate) fn current(&self) -> Option<i64> {
        let standing = self.standing();
        let is_trusted = !standing.is_lost && clock::now() < standing.renewed + self.trusted();
        standing.id.filter(|_| is_trusted)
    }

    /// Fails if the leases are not valid or the last heartbeat failed. Asks no database.
    pub(crate) fn ready(&self) -> Result<(), StoreError> {
        let is_current = self.current().is_some();
        match &self.standing().trouble {
            Some(trouble) => Err(trouble.clone()),
            None if is_current => Ok(()),
            None => Err(StoreError::Unavailable("no valid heartbeat: this process cannot reach the database".into())),
        }
    }

    /// For tests: suspends heartbeats.
    #[cfg(feature = "failpoints")]
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// How long a renewal counts here: less than for other processes.
    fn trusted(&self) -> Duration {
        self.lasts * 2 / 3
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The heartbeat thread.
pub(crate) struct Worker {
    pub(crate) state: Arc<WorkerState>,
    stop: watch::Sender<bool>,
    done: Mutex<mpsc::Receiver<()>>,
}

impl Worker {
    /// Registers this process, and renews its row until this is dropped.
    pub(crate) async fn start(
        address: DbAddress,
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
            let _ = is_done.send(()); // The drop may have stopped waiting.
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
        let _ = done.recv_timeout(UNREGISTER_MAX); // Otherwise other processes wait until the lease has lapsed.
    }
}

struct Pulse {
    state: Arc<WorkerState>,
    address: DbAddress,
    every: Duration,
    answer_max: Duration,
    /// Factor on another worker's lease before it counts as dead.
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
                    tracing::debug!(?fault, "heartbeat failed; trying again");
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
            tracing::debug!(
                ?fault,
                "could not remove the worker row: other processes take its chats when the lease lapses"
            );
        }
    }

    /// Sends [`Hint::Lost`] when the leases are no longer valid.
    async fn watch(&self) {
        loop {
            if self.state.current().is_none() {
                self.lose("the database could not be told in time that this process is alive");
            }
            tokio::time::sleep(self.state.lasts / 60).await;
        }
    }

    /// Gives up all chats, once.
    fn lose(&self, why: &str) {
        let mut standing = self.state.standing();
        if !std::mem::replace(&mut standing.is_lost, true) {
            tracing::warn!("lost the database lease, stopping all turns: {why}");
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
                _ = session_lock.changed() => false, // The row must show the new lock at once.
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
                let _ = known.send(()); // The caller of `start` may have given up.
            }
        }
    }

    async fn connect(&self) -> Result<Client, DbFault> {
        let connected = timeout(self.answer_max, self.address.connect()).await;
        let (client, connection) = connected.map_err(|_| DbFault::Passing("no connection in time".into()))??;
        tokio::spawn(connection); // Ends with its client.
        Ok(client)
    }

    /// Renews the row, or registers again.
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
            "a heartbeat took longer than the lease"
        } else {
            "another process removed the worker row"
        });
        self.register(client).await
    }

    /// Removes workers without a heartbeat for too long, and notifies all processes.
    async fn expire_silent(&self, client: &Client, id: i64) -> Result<(), DbFault> {
        let expire = "DELETE FROM workers WHERE id <> $1 AND clock_timestamp() > seen + lasts * $2";
        let params: [Param<'_>; 2] = [(&id, Type::INT8), (&self.lease_tolerance, Type::FLOAT8)];
        match self.answer(async { Ok(client.execute_typed(expire, &params).await?) }).await? {
            0 => Ok(()),
            died => {
                tracing::info!(died, "another server died (no heartbeat for too long): taking over its chats");
                self.tell_of_free_chats(client).await
            }
        }
    }

    /// Removes workers with a session that has ended and was gone at the last look, too. Returns those gone since.
    async fn expire_disconnected(&self, client: &Client, suspects: &[WorkerLock]) -> Result<Vec<WorkerLock>, DbFault> {
        let gone = self.answer(session::disconnected(client)).await?;
        let (own, lock) = (self.state.standing().id, *self.state.session_lock.borrow());
        if gone.iter().any(|locked| (Some(locked.0), Some(locked.1)) == (own, lock)) {
            tracing::warn!(
                "session is shared by a pooler: not using its advisory lock; set DATABASE_LISTEN_URL to the database itself"
            );
            self.state.session_lock.send_replace(None);
        }
        let others = gone.into_iter().filter(|(id, _)| Some(*id) != own);
        let (dead, new): (Vec<_>, Vec<_>) = others.partition(|locked| suspects.contains(locked));
        if !dead.is_empty() && self.answer(session::expire(client, &dead)).await? > 0 {
            tracing::info!("another server died (its database session ended): taking over its chats");
            self.tell_of_free_chats(client).await?;
        }
        Ok(new)
    }

    async fn tell_of_free_chats(&self, client: &Client) -> Result<(), DbFault> {
        self.hints.put(Hint::Missed);
        self.answer(async { Ok(client.batch_execute(LOOK).await?) }).await
    }

    /// Registers this process under a new number. Chats held under its earlier number, or by the process that this one
    /// replaces, are free.
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
