//! What an answer rests on.
//!
//! Gemini tells its sources beside the text, not in it: pages a search found, places, documents, pages it was told to
//! read, works it quotes. They are collected and told once the text is complete, so that they do not tear it apart.

use everturn_core::message::{Meta, Source};
use serde_json::Value;

/// How many sources of one answer are told. The rest stays in the raw metadata.
const SOURCES_LEN_MAX: usize = 256;

/// Sources in the order they were named, each once.
#[derive(Debug, Default)]
pub(super) struct GroundingSources(Vec<Source>);

impl GroundingSources {
    /// Takes the sources of `groundingMetadata`.
    pub(super) fn ground(&mut self, provider: &str, metadata: &Value) {
        for chunk in metadata["groundingChunks"].as_array().into_iter().flatten() {
            let kinds = ["web", "maps", "retrievedContext", "image"];
            if let Some(found) = kinds.iter().map(|kind| &chunk[*kind]).find(|found| found.is_object()) {
                let url = found["uri"].as_str().or(found["sourceUri"].as_str());
                self.add(provider, url, found["title"].as_str(), chunk);
            }
        }
    }

    /// Takes the pages of `urlContextMetadata` that could be read.
    pub(super) fn read(&mut self, provider: &str, metadata: &Value) {
        for page in metadata["urlMetadata"].as_array().into_iter().flatten() {
            if page["urlRetrievalStatus"].as_str().is_none_or(|status| status.ends_with("SUCCESS")) {
                self.add(provider, page["retrievedUrl"].as_str(), None, page);
            }
        }
    }

    /// Takes the works of `citationMetadata`, under either of its names.
    pub(super) fn quote(&mut self, provider: &str, metadata: &Value) {
        let lists = [&metadata["citations"], &metadata["citationSources"]];
        for citation in lists.into_iter().filter_map(Value::as_array).flatten() {
            self.add(provider, citation["uri"].as_str(), citation["title"].as_str(), citation);
        }
    }

    /// Adds one source, unless it has no address or is there.
    pub(super) fn add(&mut self, provider: &str, url: Option<&str>, title: Option<&str>, raw: &Value) {
        let is_new = |url: &&str| !url.is_empty() && !self.0.iter().any(|known| known.url == *url);
        let Some(url) = url.filter(is_new).filter(|_| self.0.len() < SOURCES_LEN_MAX) else { return };
        self.0.push(Source {
            url: url.to_owned(),
            title: title.unwrap_or_default().to_owned(),
            meta: Meta::from_iter([(provider.to_owned(), raw.clone())]),
        });
    }

    /// All sources so far; they are not told again.
    pub(super) fn take(&mut self) -> Vec<Source> {
        std::mem::take(&mut self.0)
    }
}
