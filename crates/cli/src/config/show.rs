//! `everturn config show`: the effective configuration.

use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn_server::{ServerLimits, default_model};
use reqwest::Url;
use serde_json::Value;

use super::budget::Spending;
use super::price::Price;
use super::profile::{Profile, Tools};
use super::provider::Provider;
use super::reach::Exposure;
use super::sheet::ConfigSheet;
use super::{AGENT, Config, Origin, sampling};
use crate::workspaces::Confinement;

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

impl Config {
    /// The effective configuration with the origin of each value, without secrets.
    pub fn shown(&self, confinement: Option<&Confinement>, variable: impl Fn(&str) -> Option<String>) -> ConfigSheet {
        let mut sheet = ConfigSheet::default();
        self.show_reach(&mut sheet);
        sheet.line("data", self.data.value.display().to_string(), &self.data.origin);
        let model = self.show_model(&mut sheet, &variable);
        if !self.fallbacks.is_empty() {
            sheet.line("fallbacks", texts(&self.fallbacks), &self.file);
        }
        match self.models.origin {
            Origin::Default => sheet.derived("models", "chosen by the keys in the environment", Value::Null),
            ref origin => sheet.line("models", texts(&self.models.value), origin),
        }
        if let Some(system) = &self.system.value {
            sheet.line("system", system, &self.system.origin);
        }
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
        sheet.line("sandbox", self.sandbox.value.to_string(), &self.sandbox.origin);
        if let Some(confinement) = confinement {
            sheet.derived("confinement", &confinement.told(), confinement.level.to_string().into());
        }
        self.show_keys(&mut sheet, &self.usual);
        if let Some(directory) = &self.workspace.value {
            sheet.line("workspace", directory.display().to_string(), &self.workspace.origin); // It overrides the file's.
        }
        if !self.hooks.is_empty() {
            let hooks = self.hooks.iter().map(|hook| format!("{} {}", hook.on.word(), hook.run.join(" ")));
            let hooks = hooks.collect::<Vec<_>>();
            sheet.derived("hooks", &hooks.join("; "), hooks.into());
        }
        for (name, entry) in &self.workspaces {
            sheet.table(&["workspaces", name], &self.file);
            sheet.field("path", entry.path.display().to_string());
        }
        self.show_providers(&mut sheet);
        self.show_prices(&mut sheet);
        self.show_tools(&mut sheet, &["tools"], &self.usual.tools);
        self.show_permissions(&mut sheet, &["permissions"], AGENT, &self.usual);
        self.show_mcp(&mut sheet);
        for (name, profile) in &self.agents {
            self.show_agent(&mut sheet, name, profile);
        }
        self.show_budget(&mut sheet, &["budget"], &self.budget);
        for (owner, budget) in &self.owners {
            self.show_budget(&mut sheet, &["owners", owner], budget);
        }
        for warning in self.warnings(&model) {
            sheet.warning(warning);
        }
        self.show_variables(&mut sheet, variable);
        sheet
    }

    /// The model of the default agent: configured, or chosen by the API keys.
    fn show_model(&self, sheet: &mut ConfigSheet, variable: impl Fn(&str) -> Option<String>) -> ModelId {
        if let Some(model) = &self.model.value {
            sheet.line("model", model.to_string(), &self.model.origin);
            return model.clone();
        }
        let (model, key) = default_model(variable);
        let why = key.map_or("no key is set, so the understudy stands in".into(), |key| format!("{key} is set"));
        sheet.remarked("model", model.to_string(), format!("{}: {why}", Origin::Default));
        model
    }

    fn show_variables(&self, sheet: &mut ConfigSheet, variable: impl Fn(&str) -> Option<String>) {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        for name in DATABASES {
            sheet.variable(name, set(name).map_or("not set".into(), |url| masked(&url)));
        }
        for (name, place) in PLACES.iter().filter_map(|name| Some((name, set(name)?))) {
            sheet.variable(name, shown_url(place.trim()));
        }
        for (name, word) in WORDS.iter().filter_map(|name| Some((name, set(name)?))) {
            sheet.variable(name, word.trim());
        }
        for name in HEADERS.iter().filter(|name| set(name).is_some()) {
            sheet.variable(name, "set");
        }
        let keys = self.providers.values().filter_map(|provider| provider.key_env.as_deref());
        for name in SECRETS.into_iter().chain(keys.filter(|name| !SECRETS.contains(name))) {
            sheet.variable(name, if set(name).is_some() { "set" } else { "not set" });
        }
    }

    fn show_reach(&self, sheet: &mut ConfigSheet) {
        let Exposure { expose, tls_cert, tls_key, proxies, origins } = &self.exposure;
        sheet.line("listen", self.listen.value.to_string(), &self.listen.origin);
        sheet.line("expose", expose.value, &expose.origin);
        for (name, told) in [("tls_cert", tls_cert), ("tls_key", tls_key)] {
            if let Some(path) = &told.value {
                sheet.line(name, path.display().to_string(), &told.origin);
            }
        }
        sheet.line("proxies", texts(&proxies.value), &proxies.origin);
        sheet.line("hosts", &self.hosts.value, &self.hosts.origin);
        sheet.line("origins", texts(&origins.value), &origins.origin);
    }

    fn show_agent(&self, sheet: &mut ConfigSheet, name: &str, profile: &Profile) {
        let Profile { model, fallbacks, system, tools, .. } = profile;
        sheet.table(&["agents", name], &self.file);
        sheet.field("model", model);
        if !fallbacks.is_empty() {
            sheet.field("fallbacks", fallbacks);
        }
        if let Some(system) = system {
            sheet.field("system", system);
        }
        if let Some(servers) = &profile.mcp {
            sheet.field("mcp", servers);
        }
        self.show_keys(sheet, profile);
        self.show_tools(sheet, &["agents", name, "tools"], tools);
        self.show_permissions(sheet, &["agents", name, "permissions"], name, profile);
    }

    fn show_permissions(&self, sheet: &mut ConfigSheet, path: &[&str], agent: &str, profile: &Profile) {
        if profile.permissions.is_empty() {
            return;
        }
        let shown = profile.permissions.shown(&self.rule_tools(agent, profile));
        sheet.table(path, &self.file);
        for (list, rules) in shown.lists {
            sheet.field(list, rules);
        }
        sheet.field("else", shown.otherwise.word());
        for (rule, meaning) in shown.meanings {
            sheet.derived(&rule, &meaning, meaning.clone().into());
        }
    }

    /// The limits and request options of an agent.
    fn show_keys(&self, sheet: &mut ConfigSheet, profile: &Profile) {
        let told =
            profile.turns().shown().into_iter().chain(profile.bounds().shown()).chain(profile.agent_options().shown());
        for (name, value, is_told) in told {
            sheet.toml(name, value, if is_told { &self.file } else { &Origin::Default });
        }
        if let Some(name) = profile.workspace.as_ref() {
            sheet.line("workspace", name, &self.file);
        }
        if let Some(names) = &profile.workspace_tools {
            sheet.line("workspace_tools", names, &self.file);
        }
        let origin = if profile.instructions.is_some() { &self.file } else { &Origin::Default };
        sheet.line("instructions", profile.instruction_files(), origin);
        if !profile.skills.is_empty() {
            sheet.line("skills", &profile.skills, &self.file);
        }
        if let Some(description) = &profile.description {
            sheet.line("description", description, &self.file);
        }
        if !profile.may_ask.is_empty() {
            sheet.line("may_ask", &profile.may_ask, &self.file);
        }
        if let Some(network) = profile.network {
            sheet.line("network", network.word(), &self.file);
        }
        if let Some(keep) = profile.keep_jobs {
            sheet.toml("keep_jobs", keep.to_string(), &self.file);
        }
        if let Some(long) = profile.long_commands {
            sheet.line("long_commands", long.word(), &self.file);
        }
        for (name, value) in sampling::shown(&profile.sampling(), profile.output_tokens_max) {
            sheet.toml(name, value, &self.file);
        }
    }

    fn show_providers(&self, sheet: &mut ConfigSheet) {
        for (name, Provider { wire, url, key_env }) in &self.providers {
            sheet.table(&["providers", name], &self.file);
            sheet.field("wire", wire.name());
            sheet.field("url", shown_url(url));
            if let Some(name) = key_env {
                sheet.field("key_env", name);
            }
        }
    }

    /// MCP servers as they are written, so that no variable's value is shown.
    fn show_mcp(&self, sheet: &mut ConfigSheet) {
        if let Some(servers) = &self.usual.mcp {
            sheet.line("mcp", servers, &self.file);
        }
        if !self.mcp.files.is_empty() {
            let files: Vec<_> = self.mcp.files.iter().map(|file| file.display().to_string()).collect();
            sheet.line("mcp_config", files, &self.file);
        }
        for (name, entry) in &self.mcp.own {
            sheet.table(&["mcpServers", name], &self.file);
            if let Some(command) = &entry.command {
                sheet.field("command", command);
                sheet.field("args", &entry.args);
            }
            if let Some(url) = &entry.url {
                sheet.field("url", shown_url(url));
            }
            sheet.field("trust", entry.trust);
        }
    }

    fn show_prices(&self, sheet: &mut ConfigSheet) {
        for (model, Price { input, output, cache_read, cache_write }) in &self.prices {
            sheet.table(&["prices", &model.to_string()], &self.file);
            let all = [
                ("input", Some(input)),
                ("output", Some(output)),
                ("cache_read", cache_read.as_ref()),
                ("cache_write", cache_write.as_ref()),
            ];
            for (name, money) in all.into_iter().filter_map(|(name, money)| Some((name, money?))) {
                sheet.number(name, money);
            }
        }
    }

    fn show_tools(&self, sheet: &mut ConfigSheet, path: &[&str], tools: &Tools) {
        for (name, tool) in tools {
            sheet.table(&[path, &[name]].concat(), &self.file);
            sheet.field("description", &tool.description);
            if let Some(file) = &tool.input_file {
                sheet.field("input_file", file.display().to_string());
            }
            if let Some(input) = &tool.input {
                sheet.derived("input", &input.to_string(), input.clone());
            }
        }
    }

    fn show_budget(&self, sheet: &mut ConfigSheet, path: &[&str], budget: &Spending) {
        let told = budget.told();
        if told.is_empty() {
            return;
        }
        sheet.table(path, &self.file);
        for (name, value) in told {
            sheet.number(name, value);
        }
    }
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
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
