//! Accepting connections, and graceful shutdown.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use everturn::PollOnWake;
use everturn::stores::{StoreError, TokenHash};
use futures_util::future::join_all;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::api::problem::Problem;
use crate::api::routes::{self, sessions};
use crate::app::{App, ServerParts, SharedApp, generations};
use crate::auth::cors::Site;
use crate::auth::guard::{ClientPeer, Hosts};
use crate::auth::proxies::Network;
use crate::net::activity::Activity;
use crate::net::coalesce::CoalescedWrites;
use crate::net::listen::{BoundListener, ListenAddress, ListenerConfig, NewConnection};
use crate::net::slow_reader::SlowReaders;
use crate::net::slow_reader::budget::CHUNK_BYTES;
use crate::net::slow_reader::connection::TimedConnection;
use crate::net::tls::Tls;
use crate::setup::limits::ServerLimits;

/// Concurrent requests per HTTP/2 connection.
const STREAMS_LEN_MAX: u32 = 128;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections over the limit that get a 503 at the same time; any beyond are closed.
const REJECTIONS_MAX: usize = 64;

/// A running server.
pub struct Server {
    entrances: Vec<ListenerConfig>,
    resumed: usize,
    app: SharedApp,
    listening: JoinHandle<()>,
}

/// The host names, proxies and origins that requests may come with.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Host names, with their ports, that requests may use beside those of the machine.
    pub hosts: Vec<String>,
    /// Networks of the proxies that do TLS. A listener without TLS accepts requests from other machines only from these.
    pub proxies: Vec<Network>,
    /// Origins whose pages may use the API.
    pub origins: Vec<Site>,
}

/// A server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(ListenAddress, #[source] std::io::Error),
    /// The chats to resume cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Server {
    /// Listens on one address without TLS, and resumes every chat with an unfinished turn. `hosts` are further names, with
    /// their ports, that requests may use. Whatever the address, only clients on this machine are answered: others need
    /// TLS, or a proxy that does it ([`Self::open`]).
    ///
    /// # Errors
    /// The address is taken, or the store cannot be read.
    pub async fn start(parts: ServerParts, address: SocketAddr, hosts: &[String]) -> Result<Self, StartError> {
        let reach = Reach { hosts: hosts.to_vec(), ..Reach::default() };
        Self::open(parts, &[ListenerConfig::plain(ListenAddress::Tcp(address))], reach).await
    }

    /// Listens on each of these, and resumes every chat with an unfinished turn.
    ///
    /// # Errors
    /// One of them is taken, or the store cannot be read.
    pub async fn open(parts: ServerParts, entrances: &[ListenerConfig], reach: Reach) -> Result<Self, StartError> {
        let (mut listeners, mut bound) = (Vec::new(), Vec::new());
        for ListenerConfig { at, tls } in entrances {
            let (listener, at) =
                BoundListener::bind(at).await.map_err(|error| StartError::Listen(at.clone(), error))?;
            listeners.push((listener, tls.clone()));
            bound.push(ListenerConfig { at, tls: tls.clone() });
        }
        let app = Arc::new(App::new(parts, Hosts::new(&bound, &reach.hosts), reach));
        let resumed = app.resume().await?;
        tokio::spawn(generations::sweep(app.clone()));
        let listening = tokio::spawn(listen(listeners, app.clone()));
        Ok(Self { entrances: bound, resumed, app, listening })
    }

    /// The first TCP address; port 0 if the server listens on Unix sockets only.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let tcp = |entrance: &ListenerConfig| match entrance.at {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        };
        self.entrances.iter().find_map(tcp).unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// The listeners as configured, with their actual ports.
    #[must_use]
    pub fn entrances(&self) -> &[ListenerConfig] {
        &self.entrances
    }

    /// The number of chats that were resumed.
    #[must_use]
    pub const fn resumed(&self) -> usize {
        self.resumed
    }

    /// Whether the server has the web page.
    #[must_use]
    pub fn has_page(&self) -> bool {
        !self.app.page.is_empty()
    }

    /// The path of the web page with a code that opens one session of the token with this secret, within this time.
    ///
    /// # Errors
    /// The token is not valid, or the store cannot be used.
    pub async fn login_path(&self, secret: &str, time: Duration) -> Result<String, Problem> {
        let token = self.app.token(&TokenHash::of(secret)).await?.ok_or_else(Problem::not_found)?;
        Ok(sessions::make_code(&self.app, &token, token.scopes, time).await?.path)
    }

    /// Stops the server: streams end with a comment, requests under way are answered, steps that are nearly done finish,
    /// and turns are handed over.
    pub async fn stop(self) {
        let grace = self.app.limits.grace_max;
        self.stop_within(grace, std::future::pending()).await;
    }

    /// [`Self::stop`] with another time limit for steps that are nearly done; `hurry` ends the wait.
    pub async fn stop_within(self, grace: Duration, hurry: impl Future<Output = ()>) {
        self.app.shutdown.cancel();
        let ends = async { tokio::join!(self.listening, self.app.halt(grace)) };
        tokio::select! {
            _ = ends => {} // An error means that the listening task panicked: over too.
            () = hurry => {}
        }
        self.app.halt(Duration::ZERO).await; // Turns that the last requests began.
    }
}

/// State shared by all connections.
#[derive(Clone)]
struct ConnectionLimits {
    app: SharedApp,
    router: Router,
    room: Arc<Semaphore>,
    /// Connections over the limit that are being rejected, and the router that answers them with 503.
    rejections: Arc<Semaphore>,
    full: Router,
    readers: SlowReaders,
    connections: TaskTracker,
}

impl ConnectionLimits {
    /// A place in the connection limit with the routes, or a place for a rejection with the router that answers 503.
    fn place(&self) -> Option<(OwnedSemaphorePermit, Router)> {
        if let Ok(place) = self.room.clone().try_acquire_owned() {
            return Some((place, self.router.clone()));
        }
        let place = self.rejections.clone().try_acquire_owned().ok();
        tracing::warn!(is_told = place.is_some(), "connections_max reached; connection rejected");
        place.map(|place| (place, self.full.clone()))
    }
}

async fn listen(listeners: Vec<(BoundListener, Option<Arc<Tls>>)>, app: SharedApp) {
    let places = |len| Arc::new(Semaphore::new(len));
    let (room, rejections) = (places(app.limits.connections_max), places(REJECTIONS_MAX));
    let (router, full) = (routes::router(app.clone()), routes::full());
    let readers = SlowReaders::new(app.limits.stall_max, app.meter.readers_cut.clone());
    let shared = ConnectionLimits { app, router, room, rejections, full, readers, connections: TaskTracker::new() };
    join_all(listeners.into_iter().map(|(listener, tls)| accept(listener, tls, &shared))).await;
    shared.connections.close();
    shared.connections.wait().await; // Each is cut after `drain_max`.
    shared.app.begun.close();
    if timeout(shared.app.limits.drain_max, shared.app.begun.wait()).await.is_err() {
        tracing::warn!("background requests still running after the drain timeout; abandoning them");
    }
}

async fn accept(listener: BoundListener, tls: Option<Arc<Tls>>, shared: &ConnectionLimits) {
    let shutdown = &shared.app.shutdown;
    while let Some(came) = shutdown.run_until_cancelled(listener.accept()).await {
        let came = match came {
            Ok(came) => came,
            Err(error) => {
                // Most often there are no file descriptors left: wait until some are closed.
                tracing::warn!(%error, "cannot accept a connection; pausing");
                shutdown.run_until_cancelled(sleep(PAUSE)).await;
                continue;
            }
        };
        let Some((place, router)) = shared.place() else { continue };
        let counted = CountedConnection::new(&shared.app, place);
        let tls = tls.clone();
        let peer = match &came {
            NewConnection::Tcp(_, from) => ClientPeer::over(*from, tls.is_some()),
            NewConnection::Unix(_) => ClientPeer::LOCAL,
        };
        let (app, readers) = (shared.app.clone(), shared.readers.clone());
        let connection = Connection { peer, activity: Activity::default(), app, router, readers };
        shared.connections.spawn(async move {
            let _counted = counted;
            match came {
                NewConnection::Tcp(stream, _) => {
                    connect(connection.timed(stream), tls, connection).await;
                }
                NewConnection::Unix(stream) => {
                    let stream = connection.timed(stream);
                    Box::pin(connection.talk(stream, Protocol::Either)).await;
                }
            }
        });
    }
}

/// Counts a connection and holds its place until dropped, at its end or by a panic.
struct CountedConnection {
    app: SharedApp,
    _place: OwnedSemaphorePermit,
}

impl CountedConnection {
    fn new(app: &SharedApp, place: OwnedSemaphorePermit) -> Self {
        app.meter.connections.inc();
        Self { app: app.clone(), _place: place }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.app.meter.connections.dec();
    }
}

/// The protocol of a connection.
enum Protocol {
    Http1,
    /// HTTP/2, or not known yet.
    Either,
}

impl Protocol {
    /// Detects the protocol from the first bytes without consuming them. `None` if the client is silent for too long, or
    /// gone.
    async fn of(stream: &TcpStream, silence_max: Duration) -> Option<Self> {
        let mut begins = [0; 3];
        let len = timeout(silence_max, stream.peek(&mut begins)).await.ok()?.ok()?;
        // hyper detects it too, but keeps the first bytes in a buffer of their own, and then accepts twice the head size.
        Some(if b"PRI".starts_with(&begins[..len]) { Self::Either } else { Self::Http1 })
    }
}

/// Serves one TCP connection until its end.
async fn connect(stream: TimedConnection<TcpStream>, tls: Option<Arc<Tls>>, connection: Connection) {
    let shutdown = connection.app.shutdown.clone();
    let Some(tls) = tls else {
        let wire = Protocol::of(stream.inner(), connection.app.limits.head_time_max);
        return match shutdown.run_until_cancelled(wire).await.flatten() {
            Some(Protocol::Http1) => connection.talk(stream, Protocol::Http1).await,
            // Boxed, here and below: the future is large, and would make that of every connection as large.
            Some(Protocol::Either) => Box::pin(connection.talk(stream, Protocol::Either)).await,
            None => {}
        };
    };
    Box::pin(async move {
        match shutdown.run_until_cancelled(tls.acceptor().accept(stream)).await {
            Some(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                connection.talk(stream, Protocol::Either).await;
            }
            Some(Ok(stream)) => connection.talk(stream, Protocol::Http1).await,
            Some(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            None => {}
        }
    })
    .await;
}

/// One connection: its peer, its activity, and the router that answers it.
struct Connection {
    peer: ClientPeer,
    activity: Activity,
    app: SharedApp,
    router: Router,
    readers: SlowReaders,
}

impl Connection {
    /// The stream, cut when the client sends no request, or does not read.
    fn timed<T>(&self, stream: T) -> TimedConnection<T> {
        self.readers.connection(stream, self.app.limits.head_time_max, self.activity.clone())
    }

    /// Answers the requests on a connection, after TLS.
    async fn talk<T>(self, stream: T, wire: Protocol)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { peer, activity, app, router, readers } = self;
        let limits = &app.limits;
        let requests = activity.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (router, readers, version) = (router.clone(), readers.clone(), request.version());
            let active = requests.begin(version);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            async move {
                let mut response = router.oneshot(request).await.map_err(|never: Infallible| match never {})?;
                let ends = response.extensions_mut().remove();
                if response.body().is_end_stream() {
                    return Ok::<_, Infallible>(response);
                }
                Ok(response.map(|body| readers.body(version, body, active, ends)))
            }
        });
        match wire {
            Protocol::Http1 => {
                let io = TokioIo::new(stream);
                until_over(http1(limits).serve_connection(io, service), &activity, &app).await;
            }
            Protocol::Either => {
                let io = TokioIo::new(CoalescedWrites::new(stream));
                Box::pin(until_over(either(limits).serve_connection(io, service), &activity, &app)).await;
            }
        }
    }
}

/// How the server ends a connection. Waits for it are polled only on wake-up, not with every event that is written.
enum Close {
    Gracefully,
    AtOnce,
}

async fn until_over<C>(connection: C, activity: &Activity, app: &App)
where
    C: GracefulConnection<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let mut connection = pin!(connection);
    let leaves = pin!(async {
        tokio::select! {
            biased;
            () = app.shutdown.cancelled() => Close::Gracefully,
            () = activity.until_cut() => Close::AtOnce,
            () = activity.rested(app.limits.idle_max) => Close::Gracefully,
        }
    });
    let ended = tokio::select! {
        biased;
        leave = PollOnWake::new(leaves) => match leave {
            Close::Gracefully => None,
            Close::AtOnce => return,
        },
        ended = connection.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            connection.as_mut().graceful_shutdown();
            timeout(app.limits.drain_max, connection).await
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = error.into(), "connection failed"),
        Err(_) => tracing::warn!("requests still under way after drain_max; connection cut"),
    }
}

// Without hyper's time limit for heads, which would include the idle time between two requests. `TimedConnection` measures from the
// first byte of a head, and `until_over` ends idle connections.

fn http1(limits: &ServerLimits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(limits.head_bytes_max);
    builder
}

fn either(limits: &ServerLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().header_read_timeout(None).max_buf_size(limits.head_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.head_bytes_max as u32)
        .max_concurrent_streams(STREAMS_LEN_MAX)
        .max_send_buf_size(CHUNK_BYTES)
        .keep_alive_interval(limits.stall_max);
    builder
}

#[cfg(test)]
mod tests;
