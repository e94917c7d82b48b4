//! The metrics of the fronts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::fronts::Front;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFront {
    front: &'static str,
}

/// Counters per front.
#[derive(Debug, Default)]
pub struct FrontMetrics {
    requests: Family<OfFront, Counter>,
    attached: Family<OfFront, Counter>,
    replayed: Family<OfFront, Counter>,
    broken: Family<OfFront, Counter>,
}

impl FrontMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let meter = Self::default();
        registry.register("requests", "Requests to a front", meter.requests.clone());
        let help = "Requests that were attached to a turn or a generation which had begun before";
        registry.register("attached", help, meter.attached.clone());
        let help = "Bytes sent again to clients that were attached";
        registry.register("replayed_bytes", help, meter.replayed.clone());
        let help = "Streams that the server broke before the protocol's last event, so that the client resumes";
        registry.register("broken_streams", help, meter.broken.clone());
        meter
    }

    /// Counts a request.
    pub fn requested(&self, front: Front) {
        self.requests.get_or_create(&OfFront { front: front.label() }).inc();
    }

    /// Counts a request that was attached to what had begun before.
    pub fn attached(&self, front: Front) {
        self.attached.get_or_create(&OfFront { front: front.label() }).inc();
    }

    /// Counts bytes that an attached client is sent again.
    pub fn replayed(&self, front: Front, bytes: usize) {
        self.replayed.get_or_create(&OfFront { front: front.label() }).inc_by(bytes as u64);
    }

    /// Counts a stream that was broken.
    pub fn broken(&self, front: Front) {
        self.broken.get_or_create(&OfFront { front: front.label() }).inc();
    }
}
