//! The metrics of the fronts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::fronts::Front;
use crate::fronts::gateway::answer::{AnswerEnd, EndReason};

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
    healed: Family<OfFront, Counter>,
    saved: Family<OfFront, Counter>,
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
        let help = "Answers that were whole although a provider's stream broke in them";
        registry.register("healed", help, meter.healed.clone());
        let help = "Tokens of answers that were told again instead of being generated again";
        registry.register("tokens_saved", help, meter.saved.clone());
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

    /// Counts what became of a generation when it was told to its end.
    pub fn ended(&self, front: Front, end: &AnswerEnd, is_attached: bool) {
        let front = OfFront { front: front.label() };
        if end.healed > 0 && !matches!(end.reason, EndReason::Failed(_)) {
            self.healed.get_or_create(&front).inc();
        }
        if is_attached {
            self.saved.get_or_create(&front).inc_by(end.usage.total());
        }
    }

    /// Counts a stream that was broken.
    pub fn broken(&self, front: Front) {
        self.broken.get_or_create(&OfFront { front: front.label() }).inc();
    }
}
