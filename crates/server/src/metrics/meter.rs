//! The server's metrics, beside those of the engine.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::fronts::FrontMetrics;
use crate::metrics::process::Process;

/// Labels of requests. The route is the pattern, never the path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requests {
    method: &'static str,
    route: String,
    status: u16,
}

/// The server's metrics.
#[derive(Debug)]
pub struct ServerMetrics {
    requests: Family<Requests, Counter>,
    duration: Histogram,
    /// Open streams.
    pub streams: Gauge,
    /// Open connections.
    pub connections: Gauge,
    /// Clients that were cut because they did not read.
    pub readers_cut: Counter,
    /// Requests and streams of fronts.
    pub fronts: FrontMetrics,
}

impl ServerMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let meter = Self {
            requests: Family::default(),
            duration: Histogram::new(exponential_buckets(0.001, 4.0, 8)),
            streams: Gauge::default(),
            connections: Gauge::default(),
            readers_cut: Counter::default(),
            fronts: FrontMetrics::register(registry.sub_registry_with_prefix("everturn_front")),
        };
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("everturn_build", "Which version this is", version);
        registry.register_collector(Box::new(Process));
        let http = registry.sub_registry_with_prefix("everturn_http");
        http.register("requests", "Requests that were answered", meter.requests.clone());
        let help = "From a request's head to the head of its answer";
        http.register_with_unit("duration", help, Unit::Seconds, meter.duration.clone());
        http.register("streams", "Event streams that are open", meter.streams.clone());
        http.register("connections", "Connections that are open", meter.connections.clone());
        let help = "Readers that were cut because they did not read";
        http.register("readers_cut", help, meter.readers_cut.clone());
        meter
    }

    /// Counts an answered request.
    pub fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let labels = Requests { method: name(method), route: route.into(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
    }
}

/// The method as a label. Unknown methods share one, so that clients cannot create labels.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everturn::core::cost::Usage;
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::fronts::Front;
    use crate::fronts::gateway::answer::{AnswerEnd, EndReason};

    /// The registered metrics are the documented ones, by name, type and meaning. On Linux, where all of them exist.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_page_lists_what_is_registered() {
        let mut registry = Registry::default();
        let meter = ServerMetrics::register(&mut registry);
        meter.answered(&Method::GET, "/v1/chats", StatusCode::OK, Duration::ZERO);
        meter.fronts.requested(Front::AiSdk);
        meter.fronts.attached(Front::AiSdk);
        meter.fronts.replayed(Front::AiSdk, 1);
        meter.fronts.broken(Front::AiSdk);
        let end = AnswerEnd { reason: EndReason::Done, usage: Usage::default(), healed: 1 };
        meter.fronts.ended(Front::OpenAi, &end, true);
        let mut text = String::new();
        encode(&mut text, &registry).expect("numbers can be written");
        let lines = |kind: &str| -> Vec<(String, String)> {
            let of = text.lines().filter_map(|line| line.strip_prefix(kind)?.split_once(' '));
            of.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
        };
        let helps = lines("# HELP ");
        let registered: BTreeSet<String> = lines("# TYPE ")
            .into_iter()
            .zip(&helps)
            .map(|((name, kind), (_, help))| {
                let suffix = match kind.as_str() {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                format!("{name}{suffix} {kind} {}", help.trim_end_matches('.'))
            })
            .collect();
        let page = include_str!("../../../../docs/metrics.md");
        let ours = ["| `everturn_http_", "| `everturn_front_", "| `everturn_build_", "| `process_"];
        let rows = page.lines().filter(|line| ours.iter().any(|begin| line.starts_with(begin)));
        let documented: BTreeSet<String> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                format!("{} {} {}", cells[1].trim_matches('`'), cells[2], cells[4])
            })
            .collect();
        assert_eq!(registered, documented);
    }
}
