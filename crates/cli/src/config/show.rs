//! `everturn config show`: the effective configuration as text.

use std::fmt::{Debug, Write as _};

use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn_server::{ServerLimits, default_model};
use reqwest::Url;

use super::budget::Spending;
use super::price::Price;
use super::profile::{Profile, Tools};
use super::provider::Provider;
use super::reach::Openness;
use super::{Config, Origin, Told, sampling};

/// Variables that hold secrets. Only whether they are set is shown.
const SECRETS: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "OLLAMA_API_KEY",
];

/// Variables with addresses of providers and collectors. Shown if set.
const PLACES: [&str; 8] = [
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "OPENROUTER_BASE_URL",
    "OLLAMA_BASE_URL",
    "OLLAMA_HOST",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];

/// Variables that hold neither a secret nor an address. Shown if set.
const WORDS: [&str; 6] = [
    "EVERTURN_LOG",
    "EVERTURN_LOG_FORMAT",
    "EVERTURN_PLAIN_HOSTS",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OTEL_SERVICE_NAME",
];

/// Variables that are rarely set and hold secrets. Shown as set, without the value.
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// Variables with database URLs, which hold passwords.
const DATABASES: [&str; 2] = ["DATABASE_URL", "DATABASE_LISTEN_URL"];

/// Lines in the format of the configuration file, each with the origin of its value.
struct Sheet(String);

impl Sheet {
    fn line(&mut self, name: &str, value: impl Debug, origin: &Origin) {
        self.say(format_args!("{name} = {value:?}  # {origin}"));
    }

    fn told<T: Debug>(&mut self, name: &str, told: &Told<Option<T>>) {
        if let Some(value) = &told.value {
            self.line(name, value, &told.origin);
        }
    }

    fn say(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{line}"); // Writing to a string cannot fail.
    }
}

impl Config {
    /// The effective configuration with the origin of each value, without secrets.
    pub fn shown(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let mut sheet = Sheet(String::new());
        self.show_reach(&mut sheet);
        sheet.line("data", &self.data.value, &self.data.origin);
        let model = self.show_model(&mut sheet, &variable);
        if !self.fallbacks.is_empty() {
            sheet.line("fallbacks", texts(&self.fallbacks), &self.file);
        }
        match self.models.origin {
            Origin::Default => sheet.say(format_args!("# models: chosen by the keys in the environment")),
            ref origin => sheet.line("models", texts(&self.models.value), origin),
        }
        sheet.told("system", &self.system);
        let usual = ServerLimits::default();
        for (name, told, usual) in [
            ("chats_max", &self.chats_max, everturn::CHATS_MAX),
            ("running_max", &self.running_max, usual.running_max),
            ("streams_max", &self.streams_max, usual.streams_max),
        ] {
            sheet.line(name, told.value.unwrap_or(usual), &told.origin);
        }
        sheet.line("stream_seconds_max", self.stream_seconds_max.value.get(), &self.stream_seconds_max.origin);
        let limits = Limits::default();
        for (name, told, usual) in [
            ("requests_max", &self.requests_max, limits.governor.at_once_max as u64),
            ("connect_seconds_max", &self.connect_seconds_max, limits.connect_max.as_secs()),
        ] {
            sheet.line(name, told.value.map_or(usual, |told| told.get().into()), &told.origin);
        }
        sheet.line("drain_seconds", self.drain_seconds.value, &self.drain_seconds.origin);
        sheet.line("record", self.record.value.to_string(), &self.record.origin);
        sheet.line("durability", self.durability.value.to_string(), &self.durability.origin);
        let connections = &self.database_connections;
        sheet.line("database_connections", connections.value.len(), &connections.origin);
        self.show_keys(&mut sheet, &self.usual);
        self.show_providers(&mut sheet);
        self.show_prices(&mut sheet);
        self.show_tools(&mut sheet, "tools", &self.usual.tools);
        for (name, profile) in &self.agents {
            self.show_agent(&mut sheet, name, profile);
        }
        self.show_budget(&mut sheet, "budget", &self.budget);
        for (owner, budget) in &self.owners {
            self.show_budget(&mut sheet, &format!("owners.{}", key(owner)), budget);
        }
        for warning in self.warnings(&model) {
            sheet.say(format_args!("# warning: {warning}"));
        }
        self.show_variables(&mut sheet, variable);
        sheet.0
    }

    /// The model of the default agent: configured, or chosen by the API keys.
    fn show_model(&self, sheet: &mut Sheet, variable: impl Fn(&str) -> Option<String>) -> ModelId {
        if let Some(model) = &self.model.value {
            sheet.line("model", model.to_string(), &self.model.origin);
            return model.clone();
        }
        let (model, key) = default_model(variable);
        let why = key.map_or("no key is set, so the understudy stands in".into(), |key| format!("{key} is set"));
        sheet.say(format_args!("model = {:?}  # default: {why}", model.to_string()));
        model
    }

    fn show_variables(&self, sheet: &mut Sheet, variable: impl Fn(&str) -> Option<String>) {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        for name in DATABASES {
            sheet.say(format_args!("# {name}: {}", set(name).map_or("not set".into(), |url| masked(&url))));
        }
        for (name, place) in PLACES.iter().filter_map(|name| Some((name, set(name)?))) {
            sheet.say(format_args!("# {name}: {}", shown_url(place.trim())));
        }
        for (name, word) in WORDS.iter().filter_map(|name| Some((name, set(name)?))) {
            sheet.say(format_args!("# {name}: {}", word.trim()));
        }
        for name in HEADERS.iter().filter(|name| set(name).is_some()) {
            sheet.say(format_args!("# {name}: set"));
        }
        let keys = self.providers.values().filter_map(|provider| provider.key_env.as_deref());
        for name in SECRETS.into_iter().chain(keys.filter(|name| !SECRETS.contains(name))) {
            sheet.say(format_args!("# {name}: {}", if set(name).is_some() { "set" } else { "not set" }));
        }
    }

    fn show_reach(&self, sheet: &mut Sheet) {
        let Openness { expose, tls_cert, tls_key, proxies, origins } = &self.openness;
        sheet.line("listen", self.listen.value.to_string(), &self.listen.origin);
        sheet.line("expose", expose.value, &expose.origin);
        sheet.told("tls_cert", tls_cert);
        sheet.told("tls_key", tls_key);
        sheet.line("proxies", texts(&proxies.value), &proxies.origin);
        sheet.line("hosts", &self.hosts.value, &self.hosts.origin);
        sheet.line("origins", texts(&origins.value), &origins.origin);
    }

    fn show_agent(&self, sheet: &mut Sheet, name: &str, profile: &Profile) {
        let (path, Profile { model, fallbacks, system, tools, .. }) = (format!("agents.{}", key(name)), profile);
        sheet.say(format_args!("\n[{path}]  # {}", self.file));
        sheet.say(format_args!("model = {model:?}"));
        if !fallbacks.is_empty() {
            sheet.say(format_args!("fallbacks = {fallbacks:?}"));
        }
        if let Some(system) = system {
            sheet.say(format_args!("system = {system:?}"));
        }
        self.show_keys(sheet, profile);
        self.show_tools(sheet, &format!("{path}.tools"), tools);
    }

    /// The limits and request options of an agent.
    fn show_keys(&self, sheet: &mut Sheet, profile: &Profile) {
        let told = profile.turns().shown().into_iter().chain(profile.bounds().shown()).chain(profile.habits().shown());
        for (name, value, is_told) in told {
            let origin = if is_told { &self.file } else { &Origin::Default };
            sheet.say(format_args!("{name} = {value}  # {origin}"));
        }
        for (name, value) in sampling::shown(&profile.sampling(), profile.output_tokens_max) {
            sheet.say(format_args!("{name} = {value}  # {}", self.file));
        }
    }

    fn show_providers(&self, sheet: &mut Sheet) {
        for (name, Provider { wire, url, key_env }) in &self.providers {
            sheet.say(format_args!("\n[providers.{}]  # {}", key(name), self.file));
            sheet.say(format_args!("wire = {:?}", wire.name()));
            sheet.say(format_args!("url = {:?}", shown_url(url)));
            if let Some(name) = key_env {
                sheet.say(format_args!("key_env = {name:?}"));
            }
        }
    }

    fn show_prices(&self, sheet: &mut Sheet) {
        for (model, Price { input, output, cache_read, cache_write }) in &self.prices {
            sheet.say(format_args!("\n[prices.{}]  # {}", key(&model.to_string()), self.file));
            let all = [
                ("input", Some(input)),
                ("output", Some(output)),
                ("cache_read", cache_read.as_ref()),
                ("cache_write", cache_write.as_ref()),
            ];
            for (name, money) in all.into_iter().filter_map(|(name, money)| Some((name, money?))) {
                sheet.say(format_args!("{name} = {money}"));
            }
        }
    }

    fn show_tools(&self, sheet: &mut Sheet, path: &str, tools: &Tools) {
        for (name, tool) in tools {
            sheet.say(format_args!("\n[{path}.{}]  # {}", key(name), self.file));
            sheet.say(format_args!("description = {:?}", tool.description));
            if let Some(file) = &tool.input_file {
                sheet.say(format_args!("input_file = {file:?}"));
            }
            if let Some(input) = &tool.input {
                sheet.say(format_args!("# input: {input}"));
            }
        }
    }

    fn show_budget(&self, sheet: &mut Sheet, name: &str, budget: &Spending) {
        let told = budget.told();
        if told.is_empty() {
            return;
        }
        sheet.say(format_args!("\n[{name}]  # {}", self.file));
        for (name, value) in told {
            sheet.say(format_args!("{name} = {value}"));
        }
    }
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

/// A TOML key, quoted if needed.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if is_bare { name.into() } else { format!("{name:?}") }
}

/// A URL as it was written, unless it may hold a secret.
fn shown_url(text: &str) -> String {
    if text.contains(['@', '?', '#']) { masked(text) } else { text.into() }
}

/// A URL without user, password, query and fragment.
fn masked(url: &str) -> String {
    let Some(url) = url.parse::<Url>().ok().filter(Url::has_host) else { return "set".into() };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let who = if url.username().is_empty() && url.password().is_none() { "" } else { "***@" };
    format!("{}://{who}{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_an_address_is_shown() {
        for plain in ["https://lab.example/v1", "http://127.0.0.1:8000", "lab.example"] {
            assert_eq!(shown_url(plain), plain);
        }
        for secret in ["https://me:pw@lab.example/v1", "https://pw@lab.example/v1", "https://:pw@lab.example/v1"] {
            assert_eq!(shown_url(secret), "https://***@lab.example/v1");
        }
        assert_eq!(shown_url("https://lab.example/v1?key=pw"), "https://lab.example/v1");
        assert_eq!(shown_url("me:pw@lab.example"), "set");
    }

    #[test]
    fn a_database_url_is_shown_without_its_password() {
        assert_eq!(
            masked("postgres://me:pw@db.example:5432/chats?password=pw"),
            "postgres://***@db.example:5432/chats"
        );
        assert_eq!(masked("host=db password=pw"), "set");
    }
}
