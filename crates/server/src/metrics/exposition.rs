//! The two text formats in which Prometheus and its relatives read metrics.
//!
//! The registry writes OpenMetrics, which a scraper gets if its `Accept` header names it. Older scrapers, agents and
//! `promtool check metrics` read the classic format, where a type belongs to the exact name of its samples, and neither
//! units nor an end marker are written. The classic format is the default.

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus' text format 0.0.4.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that an `Accept` header prefers.
    pub fn wanted(accept: &str) -> Self {
        let weight = |kind: &str| {
            let named = accept.split(',').filter_map(|range| {
                let mut words = range.split(';').map(str::trim);
                let is_named = words.next()?.eq_ignore_ascii_case(kind);
                let weight = words.find_map(|word| word.strip_prefix("q=")?.parse::<f32>().ok());
                is_named.then_some(weight.unwrap_or(1.0))
            });
            named.fold(0.0, f32::max)
        };
        let open = weight("application/openmetrics-text");
        if open > 0.0 && open >= weight("text/plain") { Self::OpenMetrics } else { Self::Classic }
    }

    /// The format's media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts OpenMetrics text to this format.
    pub fn of(self, open: String) -> String {
        match self {
            Self::Classic => classic(&open),
            Self::OpenMetrics => open,
        }
    }
}

fn classic(open: &str) -> String {
    let (mut text, mut help) = (String::with_capacity(open.len()), None);
    for line in open.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            help = told.split_once(' '); // Written with the type, which decides the name of the samples.
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|told| told.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, words)) = help.take() {
                text.extend(["# HELP ", name, suffix, " ", words, "\n"]);
            }
            text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use everturn::Metrics;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::meter::ServerMetrics;

    #[test]
    fn the_accept_header_selects_openmetrics() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [prometheus, "application/openmetrics-text", "text/plain;q=0.1, application/openmetrics-text"] {
            assert_eq!(MetricsFormat::wanted(accept), MetricsFormat::OpenMetrics, "{accept}");
        }
        for accept in ["", "*/*", "text/plain", "text/plain, application/openmetrics-text;q=0.5", "text/html"] {
            assert_eq!(MetricsFormat::wanted(accept), MetricsFormat::Classic, "{accept}");
        }
        assert_eq!(MetricsFormat::wanted("application/openmetrics-text;q=0"), MetricsFormat::Classic);
    }

    /// Every registered metric follows the rules of the classic format: each family has one help and one type line under
    /// the name of its samples, before them; nothing else is written.
    #[test]
    fn the_classic_format_is_kept() {
        let mut registry = Registry::default();
        let meter = ServerMetrics::register(&mut registry);
        let _metrics = Metrics::register(&mut registry);
        meter.answered(
            &axum::http::Method::GET,
            "/v1/\"chats\"\\",
            axum::http::StatusCode::OK,
            std::time::Duration::ZERO,
        );
        let mut open = String::new();
        encode(&mut open, &registry).unwrap();
        let text = MetricsFormat::Classic.of(open);
        let (mut types, mut helped, mut samples) = (BTreeMap::new(), None, 0);
        for line in text.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|told| told.split_once(' ')) {
                assert!(!help.is_empty() && helped.replace(name).is_none(), "{line}");
                continue;
            }
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|told| told.split_once(' ')) {
                assert_eq!(helped.take(), Some(name), "{line}");
                assert!(["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(types.insert(name, kind).is_none(), "{line}");
                continue;
            }
            let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
            let value = rest.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let is_histogram = of_histogram.is_some_and(|name| types.get(name) == Some(&"histogram"));
            assert!(is_histogram || types.get(name).is_some_and(|kind| *kind != "histogram"), "{line}");
            samples += 1;
        }
        assert!(samples > 10 && types["everturn_http_requests_total"] == "counter");
        assert_eq!(types["everturn_build_info"], "gauge");
    }
}
