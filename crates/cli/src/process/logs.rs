//! What is told to whoever runs this: logs, traces, and the audit.
//!
//! Logs go to standard error, as text for a person and as JSON for a machine. Traces go to an OpenTelemetry collector if
//! one is named in the environment, and nowhere else. The audit goes to a file in the data directory that only grows.

use std::fs::OpenOptions;
use std::io::IsTerminal as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Array, Value};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self, SdkTracerProvider, SpanData, Tracer};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Where the audit is, in the data directory.
const AUDIT_FILE: &str = "audit.jsonl";
/// Says how log lines look.
const FORMAT: &str = "EVERTURN_LOG_FORMAT";
/// Either of these names a collector.
const COLLECTORS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON object per line, and nothing else on standard error.
    Json,
}

impl Form {
    /// As the environment says, or as fits whoever reads.
    pub fn told(variable: impl Fn(&str) -> Option<String>) -> Self {
        match variable(FORMAT).as_deref().map(str::trim) {
            Some("json") => Self::Json,
            Some("text") => Self::Text,
            _ if std::io::stderr().is_terminal() => Self::Text,
            _ => Self::Json,
        }
    }

    /// What writes lines like this to standard error.
    fn layer(self) -> Boxed {
        let to = fmt::layer().with_writer(std::io::stderr);
        match self {
            Self::Json => to.json().flatten_event(true).with_span_list(false).boxed(),
            Self::Text => to.boxed(),
        }
    }
}

/// Writes a JSON line that is not to be filtered, whether or not logging has begun.
pub fn line(level: Level, words: &str) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(Form::Json.layer()), || match level {
        Level::ERROR => tracing::error!("{words}"),
        _ => tracing::info!("{words}"),
    });
}

/// What has to be told before the process ends.
#[must_use = "what was not sent yet is sent by its end"]
pub struct Logs(Option<SdkTracerProvider>);

impl Logs {
    /// Begins to log, to trace if a collector is named, and to write the audit into this directory.
    pub fn start(data: &Path, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let form = Form::told(set);
        let (filter, mut troubles) = filter_told(&set);
        if let Some(told) = set(FORMAT).filter(|told| !["json", "text"].contains(&told.trim())) {
            troubles.push(format!("{FORMAT} is json or text, and not {told:?}"));
        }
        let mut layers: Vec<Boxed> = vec![form.layer().with_filter(filter).boxed(), audit(data)?];
        let provider = COLLECTORS.iter().any(|name| set(name).is_some()).then(|| provider(&set)).transpose()?;
        layers.extend(provider.as_ref().map(|provider| traces(provider.tracer("everturn"))));
        tracing_subscriber::registry().with(layers).init();
        if form == Form::Json {
            std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a thread panicked")));
        }
        troubles.iter().for_each(|trouble| tracing::error!("{trouble}"));
        Ok(Self(provider))
    }

    /// Begins to write the audit into this directory and nothing else: for a command that is a daemon for a while, whose
    /// terminal is somebody's.
    pub fn audit(data: &Path) -> anyhow::Result<()> {
        let _ = tracing_subscriber::registry().with(audit(data)?).try_init(); // A second time it is begun already.
        Ok(())
    }

    /// Sends what is left to send.
    pub async fn end(self) {
        let Some(provider) = self.0 else { return };
        match tokio::task::spawn_blocking(move || provider.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "some traces were not sent"),
            Err(join) => tracing::warn!(%join, "some traces were not sent"),
        }
    }
}

/// What is logged, and what is wrong with how that was said.
fn filter_told(set: &impl Fn(&str) -> Option<String>) -> (EnvFilter, Vec<String>) {
    let usual = || EnvFilter::new("warn");
    match set("EVERTURN_LOG").map(|told| filter(&told)) {
        Some(Ok(filter)) => (filter, Vec::new()),
        Some(Err(why)) => (usual(), vec![format!("EVERTURN_LOG: {why}; warnings and errors are logged")]),
        None => (usual(), Vec::new()),
    }
}

/// What to log. A word alone is meant to be a level; as the name of a module, as which it could be read, it would say that
/// nothing of ours is logged.
fn filter(told: &str) -> Result<EnvFilter, String> {
    let is_word = told.trim().bytes().all(|byte| byte.is_ascii_alphanumeric());
    match told.trim().parse::<LevelFilter>() {
        Err(_) if is_word => Err(format!("`{}` is no level; write info, debug or everturn_server=debug", told.trim())),
        _ => EnvFilter::try_new(told).map_err(|error| error.to_string()),
    }
}

fn audit(data: &Path) -> anyhow::Result<Boxed> {
    let path = data.join(AUDIT_FILE);
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("{} cannot be written", path.display()))?;
    let to = fmt::layer().json().flatten_event(true).with_span_list(false).with_current_span(false).with_level(false);
    let only = Targets::new().with_target(everturn::AUDIT, LevelFilter::INFO);
    Ok(to.with_target(false).with_writer(Mutex::new(file)).with_filter(only).boxed())
}

fn provider(set: &impl Fn(&str) -> Option<String>) -> anyhow::Result<SdkTracerProvider> {
    // Whoever set a provider before has decided; ring is ours.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder().with_http().build().context("OTEL_EXPORTER_OTLP_ENDPOINT")?;
    let mut resource = Resource::builder();
    if set("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("everturn");
    }
    let exporter = Listing(exporter);
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}

/// Sends spans with lists where the conventions want lists, which fields of spans cannot be.
#[derive(Debug)]
struct Listing(SpanExporter);

impl trace::SpanExporter for Listing {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        let attributes = batch.iter_mut().flat_map(|span| &mut span.attributes);
        for attribute in attributes.filter(|attribute| attribute.key.as_str() == everturn::FINISH_REASONS) {
            if let Value::String(word) = &attribute.value {
                attribute.value = Value::Array(Array::String(vec![word.clone()]));
            }
        }
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn traces(tracer: Tracer) -> Boxed {
    let only = Targets::new().with_target(everturn::SPANS, LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_filter(only).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_means_nothing_is_named() {
        for told in ["info", " DEBUG ", "off", "everturn_server=debug", "warn,everturn=trace"] {
            assert!(filter(told).is_ok(), "{told}");
        }
        for told in ["verbose", "everturn=loud", "=="] {
            assert!(filter(told).is_err(), "{told}");
        }
    }
}
