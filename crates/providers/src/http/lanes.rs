//! Lanes: which requests share a connection.
//!
//! Over HTTP/2 a client has one connection per host, and the host limits concurrent requests on it, most
//! often to a hundred. Further requests wait inside the HTTP library until an answer ends, which may take
//! minutes. So requests are spread over lanes: each has its own connections and stays below the host's limit.
//! A connection that breaks loses the answers of one lane and not all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_core::limits::Limits;
use reqwest::Client;
use rustls::ClientConfig;

use super::Names;

/// Requests under way in one lane. RFC 9113 asks hosts to take a hundred at least.
const LANE_LEN_MAX: usize = 64;
/// The receive window per answer. Each answer in a lane has its own, so an answer that is not read does not
/// block the others.
const UNREAD_BYTES_MAX: u32 = 256 << 10;
/// How often a quiet connection is asked whether it lives.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How hosts are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyUse {
    /// By the proxy that the usual variables name, if they name one.
    Usual,
    /// Past any proxy.
    Direct,
}

/// The lanes there are.
#[derive(Debug)]
pub(super) struct Lanes {
    limits: Limits,
    route: ProxyUse,
    /// One for all: certificates are read once, and a host that knows us from one lane knows us in the others.
    tls: ClientConfig,
    open: Mutex<Vec<LaneGuard>>,
}

/// A place in a lane, until it is dropped.
#[derive(Debug, Clone)]
pub(super) struct LaneGuard {
    pub(super) client: Client,
    /// The lane itself has one, and each request.
    held: Arc<()>,
}

impl Lanes {
    pub(super) fn new(limits: &Limits, route: ProxyUse, mut tls: ClientConfig) -> Self {
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let lanes = Self { limits: limits.clone(), route, tls, open: Mutex::default() };
        drop(lanes.place()); // A failing set-up shows now, and not at the first request.
        lanes
    }

    /// A place in the first lane that has one, or in a new lane.
    pub(super) fn place(&self) -> LaneGuard {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner); // Every change below is made whole.
        if let Some(lane) = open.iter().find(|lane| Arc::strong_count(&lane.held) <= LANE_LEN_MAX) {
            return lane.clone();
        }
        let lane = LaneGuard { client: self.client(), held: Arc::default() };
        open.push(lane.clone());
        lane
    }

    /// No redirects, no retries, no compression, no total time.
    fn client(&self) -> Client {
        let builder = Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .connect_timeout(self.limits.connect_max)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(self.limits.connect_max)
            .http2_initial_stream_window_size(UNREAD_BYTES_MAX)
            .http2_initial_connection_window_size(UNREAD_BYTES_MAX * LANE_LEN_MAX as u32)
            .pool_idle_timeout(KEEPALIVE * 2)
            .dns_resolver(Arc::new(Names))
            .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")));
        let builder = match self.route {
            ProxyUse::Usual => builder,
            ProxyUse::Direct => builder.no_proxy(),
        };
        builder.build().expect("a client without files or addresses of its own can be built")
    }
}
