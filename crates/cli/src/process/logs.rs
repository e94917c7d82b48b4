//! Logs, traces, and the audit file.
//!
//! Logs go to standard error, as text on a terminal and as JSON otherwise. Traces go to an OpenTelemetry
//! collector if the environment names one. The audit goes to an append-only file in the data directory.

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

/// Name of the audit file in the data directory.
const AUDIT_FILE: &str = "audit.jsonl";
/// Variable for the format of log lines.
const FORMAT: &str = "EVERTURN_LOG_FORMAT";
/// Either of these names a collector.
const COLLECTORS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text for a terminal.
    Text,
    /// One JSON object per line, and nothing else on standard error.
    Json,
}

impl Form {
    /// The format of the environment; by default text on a terminal, JSON otherwise.
    pub fn told(variable: impl Fn(&str) -> Option<String>) -> Self {
        match variable(FORMAT).as_deref().map(str::trim) {
            Some("json") => Self::Json,
            Some("text") => Self::Text,
            _ if std::io::stderr().is_terminal() => Self::Text,
            _ => Self::Json,
        }
    }

    /// The layer that writes this format to standard error.
    fn layer(self) -> Boxed {
        let to = fmt::layer().with_writer(std::io::stderr);
        match self {
            Self::Json => to.json().flatten_event(true).with_span_list(false).boxed(),
            Self::Text => to.boxed(),
        }
    }
}

/// Writes an unfiltered JSON line, also before logging has started.
pub fn line(level: Level, words: &str) {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(Form::Json.layer()), || match level {
        Level::ERROR => tracing::error!("{words}"),
        _ => tracing::info!("{words}"),
    });
}

/// Traces that have to be sent before the process exits.
#[must_use = "`end` sends the remaining traces"]
pub struct Logs(Option<SdkTracerProvider>);

impl Logs {
    /// Starts logging, tracing if a collector is configured, and the audit in this directory.
    pub fn start(data: &Path, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let form = Form::told(set);
        let (filter, mut troubles) = filter_told(&set);
        if let Some(told) = set(FORMAT).filter(|told| !["json", "text"].contains(&told.trim())) {
            troubles.push(format!("{FORMAT} must be json or text, not {told:?}"));
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

    /// Starts only the audit in this directory: for a command with an embedded daemon, whose terminal shows
    /// the chat.
    pub fn audit(data: &Path) -> anyhow::Result<()> {
        // Fails if it was started before, which does no harm.
        let _ = tracing_subscriber::registry().with(audit(data)?).try_init();
        Ok(())
    }

    /// Sends the remaining traces.
    pub async fn end(self) {
        let Some(provider) = self.0 else { return };
        match tokio::task::spawn_blocking(move || provider.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "some traces were not sent"),
            Err(join) => tracing::warn!(%join, "some traces were not sent"),
        }
    }
}

/// The log filter of the environment, and errors in it.
fn filter_told(set: &impl Fn(&str) -> Option<String>) -> (EnvFilter, Vec<String>) {
    let usual = || EnvFilter::new("warn");
    match set("EVERTURN_LOG").map(|told| filter(&told)) {
        Some(Ok(filter)) => (filter, Vec::new()),
        Some(Err(why)) => (usual(), vec![format!("EVERTURN_LOG: {why}; warnings and errors are logged")]),
        None => (usual(), Vec::new()),
    }
}

/// Parses a log filter. A single word must be a level: read as the name of a module, a misspelt level would
/// switch all our logs off.
fn filter(told: &str) -> Result<EnvFilter, String> {
    let is_word = told.trim().bytes().all(|byte| byte.is_ascii_alphanumeric());
    match told.trim().parse::<LevelFilter>() {
        Err(_) if is_word => {
            Err(format!("`{}` is not a level; write info, debug or everturn_server=debug", told.trim()))
        }
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
    // Keeps a provider that was installed before; ours is ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder().with_http().build().context("OTEL_EXPORTER_OTLP_ENDPOINT")?;
    let mut resource = Resource::builder();
    if set("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name("everturn");
    }
    let exporter = Listing(exporter);
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build())
}

/// Exports spans, with arrays where the conventions require arrays: fields of `tracing` spans cannot be
/// arrays.
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
    fn an_invalid_filter_is_named() {
        for told in ["info", " DEBUG ", "off", "everturn_server=debug", "warn,everturn=trace"] {
            assert!(filter(told).is_ok(), "{told}");
        }
        for told in ["verbose", "everturn=loud", "=="] {
            assert!(filter(told).is_err(), "{told}");
        }
    }
}
