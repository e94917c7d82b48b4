//! Listening, and ending in good order.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use everturn::stores::StoreError;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::app::{App, Parts, Shared};
use crate::guard::{Hosts, Peer};
use crate::routes;
use crate::stall::{Stall, Taking};

/// A server that listens.
pub struct Server {
    address: SocketAddr,
    resumed: usize,
    app: Shared,
    listening: JoinHandle<()>,
}

/// A server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// What was left in the middle cannot be found.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Server {
    /// Listens, and takes up every chat that was left in the middle of something. `hosts` are further names, with their
    /// ports, that requests may use.
    ///
    /// # Errors
    /// The address is taken, or the store cannot be read.
    pub async fn start(parts: Parts, address: SocketAddr, hosts: &[String]) -> Result<Self, StartError> {
        let listen = |error| StartError::Listen(address, error);
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let app = Arc::new(App::new(parts, Hosts::new(address, hosts)));
        let resumed = app.resume().await?;
        let listening = tokio::spawn(accept(listener, app.clone()));
        Ok(Self { address, resumed, app, listening })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
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

async fn accept(listener: TcpListener, app: Shared) {
    let (router, graceful) = (routes::router(app.clone()), GracefulShutdown::new());
    let room = Arc::new(Semaphore::new(app.bounds.connections_max));
    loop {
        let accepted = tokio::select! {
            biased;
            () = app.shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most often there are no file descriptors left: wait until some are closed.
                tracing::warn!(%error, "a connection cannot be taken");
                pause(&app.shutdown).await;
                continue;
            }
        };
        let Ok(place) = room.clone().try_acquire_owned() else {
            tracing::warn!("too many connections, one is closed");
            continue;
        };
        let connection = connect(stream, peer.ip(), &app, &router, &graceful);
        let app = app.clone();
        tokio::spawn(async move {
            app.meter.connections.inc();
            connection.await;
            app.meter.connections.dec();
            drop(place);
        });
    }
    drop(listener);
    if timeout(app.bounds.drain_max, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were still under way and are cut");
    }
}

/// One connection, until it is over.
fn connect(
    stream: TcpStream,
    peer: IpAddr,
    app: &Shared,
    router: &Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let _ = stream.set_nodelay(true); // Without, it is only slower.
    let mut builder = Builder::new(TokioExecutor::new());
    let bounds = &app.bounds;
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_time_max)
        .max_buf_size(bounds.head_bytes_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(bounds.head_bytes_max as u32)
        .max_concurrent_streams(128)
        .keep_alive_interval(bounds.stall_max);
    let (router, stall_max, cut) = (router.clone(), bounds.stall_max, app.meter.readers_cut.clone());
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let (router, is_shared) = (router.clone(), request.version() == hyper::Version::HTTP_2);
        let cut = cut.clone();
        async move {
            let response = router.oneshot(request).await.map_err(|never: Infallible| match never {})?;
            let is_stream = response.body().size_hint().exact().is_none();
            Ok::<_, Infallible>(match is_shared && is_stream {
                true => response.map(|body| Body::new(Taking::new(body, stall_max, cut))),
                false => response,
            })
        }
    });
    let io = TokioIo::new(Stall::new(stream, bounds.stall_max, app.meter.readers_cut.clone()));
    let connection = graceful.watch(builder.serve_connection(io, service).into_owned());
    async move {
        if let Err(error) = connection.await {
            tracing::debug!(error, "a connection ended badly");
        }
    }
}

async fn pause(shutdown: &CancellationToken) {
    let moment = Duration::from_millis(100);
    shutdown.run_until_cancelled(tokio::time::sleep(moment)).await;
}
