//! Listening, and ending in good order.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use everturn::Dormant;
use everturn::stores::StoreError;
use futures_util::future::join_all;
use hyper::Version;
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

use crate::api::routes;
use crate::app::{App, Parts, Shared};
use crate::auth::cors::Site;
use crate::auth::guard::{Hosts, Peer};
use crate::auth::proxies::Network;
use crate::net::activity::Work;
use crate::net::coalesce::Gather;
use crate::net::listen::{Came, Entrance, Listen, Listener};
use crate::net::slow_reader::body::Taking;
use crate::net::slow_reader::budget::PIECE_BYTES;
use crate::net::slow_reader::connection::Stall;
use crate::net::tls::Tls;
use crate::setup::bounds::Bounds;

/// Requests at once on one connection of HTTP/2.
const STREAMS_LEN_MAX: u32 = 128;
/// How long nobody is taken when nobody can be.
const PAUSE: Duration = Duration::from_millis(100);
/// So many are told at the same time that there is no room. Others are sent away without a word.
const PORCH_LEN: usize = 64;

/// A server that listens.
pub struct Server {
    entrances: Vec<Entrance>,
    resumed: usize,
    app: Shared,
    listening: JoinHandle<()>,
}

/// Who is listened to, and under which names.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Names, with their ports, that requests may use beside those of the machine.
    pub hosts: Vec<String>,
    /// Where the proxies are that do TLS for us. Without TLS of our own, only they may come from other machines.
    pub proxies: Vec<Network>,
    /// Sites whose pages may ask.
    pub origins: Vec<Site>,
}

/// A server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(Listen, #[source] std::io::Error),
    /// What was left in the middle cannot be found.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Server {
    /// Listens on one address without TLS, and takes up every chat that was left in the middle of something. `hosts` are
    /// further names, with their ports, that requests may use. Whatever the address, only this machine is answered:
    /// for others there has to be TLS, or a proxy that does it ([`Self::open`]).
    ///
    /// # Errors
    /// The address is taken, or the store cannot be read.
    pub async fn start(parts: Parts, address: SocketAddr, hosts: &[String]) -> Result<Self, StartError> {
        let reach = Reach { hosts: hosts.to_vec(), ..Reach::default() };
        Self::open(parts, &[Entrance::plain(Listen::Tcp(address))], reach).await
    }

    /// The same, on each of these.
    ///
    /// # Errors
    /// One of them is taken, or the store cannot be read.
    pub async fn open(parts: Parts, entrances: &[Entrance], reach: Reach) -> Result<Self, StartError> {
        let (mut listeners, mut bound) = (Vec::new(), Vec::new());
        for Entrance { at, tls } in entrances {
            let (listener, at) = Listener::bind(at).await.map_err(|error| StartError::Listen(at.clone(), error))?;
            listeners.push((listener, tls.clone()));
            bound.push(Entrance { at, tls: tls.clone() });
        }
        let app = Arc::new(App::new(parts, Hosts::new(&bound, &reach.hosts), reach));
        let resumed = app.resume().await?;
        let listening = tokio::spawn(listen(listeners, app.clone()));
        Ok(Self { entrances: bound, resumed, app, listening })
    }

    /// Where it listens, as far as that is on ports: else at none.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let tcp = |entrance: &Entrance| match entrance.at {
            Listen::Tcp(address) => Some(address),
            Listen::Unix(_) => None,
        };
        self.entrances.iter().find_map(tcp).unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into())
    }

    /// Where it listens, as it was told, with the ports it took.
    #[must_use]
    pub fn entrances(&self) -> &[Entrance] {
        &self.entrances
    }

    /// How many chats it took up.
    #[must_use]
    pub const fn resumed(&self) -> usize {
        self.resumed
    }

    /// Ends it: streams say good-bye, requests under way are answered, steps that are nearly done come to their end, and
    /// turns are handed over.
    pub async fn stop(self) {
        let grace = self.app.bounds.grace_max;
        self.stop_within(grace, std::future::pending()).await;
    }

    /// The same, with another time for steps that may be nearly done, or until somebody is in a `hurry`.
    pub async fn stop_within(self, grace: Duration, hurry: impl Future<Output = ()>) {
        self.app.shutdown.cancel();
        let ends = async { tokio::join!(self.listening, self.app.halt(grace)) };
        tokio::select! {
            _ = ends => {} // Listening can only have panicked, and is over then too.
            () = hurry => {}
        }
        self.app.halt(Duration::ZERO).await; // What the last requests began.
    }
}

/// What all connections share.
#[derive(Clone)]
struct Hall {
    app: Shared,
    router: Router,
    room: Arc<Semaphore>,
    /// Where those stand who find no room, and what they are told.
    porch: Arc<Semaphore>,
    full: Router,
    connections: TaskTracker,
}

impl Hall {
    /// A place for whoever comes, and who answers there.
    fn place(&self) -> Option<(OwnedSemaphorePermit, Router)> {
        if let Ok(place) = self.room.clone().try_acquire_owned() {
            return Some((place, self.router.clone()));
        }
        let place = self.porch.clone().try_acquire_owned().ok();
        tracing::warn!(is_told = place.is_some(), "too many connections, one is turned away");
        place.map(|place| (place, self.full.clone()))
    }
}

async fn listen(listeners: Vec<(Listener, Option<Arc<Tls>>)>, app: Shared) {
    let places = |len| Arc::new(Semaphore::new(len));
    let (room, porch) = (places(app.bounds.connections_max), places(PORCH_LEN));
    let (router, full) = (routes::router(app.clone()), routes::full());
    let hall = Hall { app, router, room, porch, full, connections: TaskTracker::new() };
    join_all(listeners.into_iter().map(|(listener, tls)| accept(listener, tls, &hall))).await;
    hall.connections.close();
    hall.connections.wait().await; // Each has `drain_max` and is cut then.
    hall.app.begun.close();
    if timeout(hall.app.bounds.drain_max, hall.app.begun.wait()).await.is_err() {
        tracing::warn!("something that was begun is not done, and is left");
    }
}

async fn accept(listener: Listener, tls: Option<Arc<Tls>>, hall: &Hall) {
    let shutdown = &hall.app.shutdown;
    while let Some(came) = shutdown.run_until_cancelled(listener.accept()).await {
        let came = match came {
            Ok(came) => came,
            Err(error) => {
                // Most often there are no file descriptors left: wait until some are closed.
                tracing::warn!(%error, "a connection cannot be taken");
                shutdown.run_until_cancelled(sleep(PAUSE)).await;
                continue;
            }
        };
        let Some((place, router)) = hall.place() else { continue };
        let counted = Counted::new(&hall.app, place);
        let (app, tls) = (hall.app.clone(), tls.clone());
        hall.connections.spawn(async move {
            let _counted = counted;
            let work = Work::default();
            match came {
                Came::Tcp(stream, from) => {
                    let peer = Peer::over(from, tls.is_some());
                    connect(stalling(stream, &work, &app), tls, Guest { peer, work, app, router }).await;
                }
                Came::Unix(stream) => {
                    let stream = stalling(stream, &work, &app);
                    let guest = Guest { peer: Peer::LOCAL, work, app, router };
                    Box::pin(guest.talk(stream, Wire::Either)).await;
                }
            }
        });
    }
}

/// A connection that is counted, and has a place, until it is dropped: by its end, or by a panic.
struct Counted {
    app: Shared,
    _place: OwnedSemaphorePermit,
}

impl Counted {
    fn new(app: &Shared, place: OwnedSemaphorePermit) -> Self {
        app.meter.connections.inc();
        Self { app: app.clone(), _place: place }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.app.meter.connections.dec();
    }
}

/// A connection that is cut when the other side asks nothing, or does not read.
fn stalling<T>(stream: T, work: &Work, app: &Shared) -> Stall<T> {
    let (bounds, cut) = (&app.bounds, app.meter.readers_cut.clone());
    Stall::new(stream, bounds.stall_max, bounds.head_time_max, work.clone(), cut)
}

/// What is spoken on a connection.
enum Wire {
    Http1,
    /// HTTP/2, or it is not known yet.
    Either,
}

impl Wire {
    /// What the other side begins to speak, without taking it. Nothing if it is silent for too long, or gone.
    async fn of(stream: &TcpStream, silence_max: Duration) -> Option<Self> {
        let mut begins = [0; 3];
        let len = timeout(silence_max, stream.peek(&mut begins)).await.ok()?.ok()?;
        // hyper finds out by itself too, but then it has the first bytes apart, and gets twice the room for the rest.
        Some(if b"PRI".starts_with(&begins[..len]) { Self::Either } else { Self::Http1 })
    }
}

/// One connection from elsewhere, until it is over.
async fn connect(stream: Stall<TcpStream>, tls: Option<Arc<Tls>>, guest: Guest) {
    let shutdown = guest.app.shutdown.clone();
    let Some(tls) = tls else {
        let wire = Wire::of(stream.inner(), guest.app.bounds.head_time_max);
        return match shutdown.run_until_cancelled(wire).await.flatten() {
            Some(Wire::Http1) => guest.talk(stream, Wire::Http1).await,
            // In a box, here and below: it is large, and would make every connection as large.
            Some(Wire::Either) => Box::pin(guest.talk(stream, Wire::Either)).await,
            None => {}
        };
    };
    Box::pin(async move {
        match shutdown.run_until_cancelled(tls.acceptor().accept(stream)).await {
            Some(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                guest.talk(stream, Wire::Either).await;
            }
            Some(Ok(stream)) => guest.talk(stream, Wire::Http1).await,
            Some(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            None => {}
        }
    })
    .await;
}

/// Who has come, and to what.
struct Guest {
    peer: Peer,
    work: Work,
    app: Shared,
    router: Router,
}

impl Guest {
    /// Answers requests on a connection that can be read.
    async fn talk<T>(self, stream: T, wire: Wire)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { peer, work, app, router } = self;
        let bounds = &app.bounds;
        let (begun, stall_max, cut) = (work.clone(), bounds.stall_max, app.meter.readers_cut.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (router, cut, version) = (router.clone(), cut.clone(), request.version());
            let piece = begun.begin(version);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            async move {
                let mut response = router.oneshot(request).await.map_err(|never: Infallible| match never {})?;
                let ends = response.extensions_mut().remove();
                if response.body().is_end_stream() {
                    return Ok::<_, Infallible>(response);
                }
                Ok(response.map(|body| match version {
                    Version::HTTP_2 => Body::new(Taking::new(body, piece, stall_max, ends, cut)),
                    _ => piece.until_sent(body, ends, cut),
                }))
            }
        });
        match wire {
            Wire::Http1 => {
                let io = TokioIo::new(stream);
                until_over(http1(bounds).serve_connection(io, service), &work, &app).await;
            }
            Wire::Either => {
                let io = TokioIo::new(Gather::new(stream));
                Box::pin(until_over(either(bounds).serve_connection(io, service), &work, &app)).await;
            }
        }
    }
}

/// How a connection is left that is not over. What it takes to know is not asked with every event that is written.
enum Leave {
    InGoodOrder,
    AtOnce,
}

async fn until_over<C>(connection: C, work: &Work, app: &App)
where
    C: GracefulConnection<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let mut connection = pin!(connection);
    let leaves = pin!(async {
        tokio::select! {
            biased;
            () = app.shutdown.cancelled() => Leave::InGoodOrder,
            () = work.cut() => Leave::AtOnce,
            () = work.rested(app.bounds.idle_max) => Leave::InGoodOrder,
        }
    });
    let ended = tokio::select! {
        biased;
        leave = Dormant::new(leaves) => match leave {
            Leave::InGoodOrder => None,
            Leave::AtOnce => return,
        },
        ended = connection.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            connection.as_mut().graceful_shutdown();
            timeout(app.bounds.drain_max, connection).await
        }
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = error.into(), "a connection ended badly"),
        Err(_) => tracing::warn!("requests were still under way on a connection, and are cut"),
    }
}

// Without a time for heads: hyper would count the rest between two requests too. `Stall` counts from the first byte on, and
// `until_over` ends what rests.

fn http1(bounds: &Bounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(bounds.head_bytes_max);
    builder
}

fn either(bounds: &Bounds) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().header_read_timeout(None).max_buf_size(bounds.head_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(bounds.head_bytes_max as u32)
        .max_concurrent_streams(STREAMS_LEN_MAX)
        .max_send_buf_size(PIECE_BYTES)
        .keep_alive_interval(bounds.stall_max);
    builder
}

#[cfg(test)]
mod tests;
