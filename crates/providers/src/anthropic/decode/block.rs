//! One block of a message: begun, filled, ended.

use std::collections::BTreeSet;

use everturn_core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn_core::message::{RunBy, Seal, Source};
use serde_json::{Map, Value};

use super::odd::Odd;
use super::{Piece, own};
use crate::provider::Frame;

/// How many citations of one block are kept.
const CITATIONS_LEN_MAX: usize = 1024;

/// The kinds of pieces there are.
pub(super) const PIECES: [&str; 5] =
    ["text_delta", "citations_delta", "thinking_delta", "signature_delta", "input_json_delta"];

/// A block that is open.
#[derive(Debug)]
pub(super) struct Block {
    index: u32,
    kind: Kind,
    /// What the block holds besides what its kind is known for. Echoed when the block is sent back.
    rest: Map<String, Value>,
}

#[derive(Debug)]
enum Kind {
    Text {
        /// Whether there are words, so that there is a part to attach citations to.
        worded: bool,
        citations: Vec<Value>,
    },
    Thinking,
    Call {
        /// The input that came with the start, which counts if no other comes.
        whole: Option<String>,
    },
    /// Everything came with the start.
    Done,
    /// An unknown kind.
    Odd,
}

/// Calls of the provider's own tools, so that results find them.
#[derive(Debug, Default)]
pub(super) struct HostedCalls(Vec<HostedCall>);

#[derive(Debug)]
struct HostedCall {
    id: String,
    tool: String,
    slot: u32,
}

/// Sources already told.
#[derive(Debug, Default)]
pub(super) struct Cited(BTreeSet<(String, String)>);

impl Block {
    /// A block that begins, and what that tells.
    pub fn start(
        index: u32,
        mut block: Map<String, Value>,
        provider: &str,
        calls: &mut HostedCalls,
        odd: &mut Odd,
        out: &mut Vec<Frame>,
    ) -> Self {
        let name = text(&mut block, "type");
        let kind = match name.as_str() {
            "text" => Kind::text(&mut block, out),
            "thinking" => Kind::thinking(&mut block, provider, out),
            "redacted_thinking" => Kind::redacted(&mut block, provider, out),
            "tool_use" => Kind::call(index, &mut block, RunBy::Us, provider, calls, out),
            _ if name.ends_with("_tool_use") => {
                if name != "server_tool_use" {
                    block.insert("type".into(), name.into());
                }
                Kind::call(index, &mut block, RunBy::Provider, provider, calls, out)
            }
            _ if name.ends_with("_tool_result") => {
                let tool = name.trim_end_matches("_tool_result").to_owned();
                block.insert("type".into(), name.into());
                Kind::result(tool, &mut block, provider, calls, out)
            }
            _ => {
                block.insert("type".into(), name.into());
                odd.keep(&Value::Object(std::mem::take(&mut block)).to_string());
                Kind::Odd
            }
        };
        block.retain(|_, value| !value.is_null());
        Self { index, kind, rest: block }
    }

    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Takes a piece. `event` is all of it, should its kind be unknown.
    pub fn push(&mut self, piece: Piece<'_>, event: &str, odd: &mut Odd, out: &mut Vec<Frame>) {
        let delta = match (&mut self.kind, &*piece.kind) {
            (Kind::Text { worded, .. }, "text_delta") => {
                let text = piece.text.unwrap_or_default();
                *worded |= !text.is_empty();
                (!text.is_empty()).then_some(Delta::Text(text))
            }
            (Kind::Text { citations, .. }, "citations_delta") => {
                let citation = piece.citation.and_then(|citation| serde_json::from_str(citation.get()).ok());
                citations.extend(citation.filter(|_| citations.len() < CITATIONS_LEN_MAX));
                None
            }
            (Kind::Thinking, "thinking_delta") => piece.thinking.filter(|text| !text.is_empty()).map(Delta::Reasoning),
            (Kind::Thinking, "signature_delta") => {
                piece.signature.filter(|seal| !seal.is_empty()).map(|seal| Delta::Sealed(Seal::Signature(seal)))
            }
            (Kind::Call { whole }, "input_json_delta") => {
                let json = piece.partial_json.unwrap_or_default();
                if !json.is_empty() {
                    *whole = None;
                }
                (!json.is_empty()).then_some(Delta::CallInput { slot: self.index, json })
            }
            (_, _) => {
                odd.keep(event);
                None
            }
        };
        out.extend(delta.map(Frame::Delta));
    }

    /// The block is over.
    pub fn stop(mut self, provider: &str, cited: &mut Cited, out: &mut Vec<Frame>) {
        let mut tell = |delta| out.push(Frame::Delta(delta));
        match self.kind {
            Kind::Text { worded, citations } => {
                let sources = cited.of(&citations);
                if !citations.is_empty() {
                    self.rest.insert("citations".into(), citations.into());
                }
                if worded && !self.rest.is_empty() {
                    tell(Delta::PartMeta(Box::new(own(provider, self.rest))));
                }
                tell(Delta::Ended);
                sources.into_iter().for_each(|source| tell(Delta::Source(Box::new(source))));
            }
            Kind::Thinking => tell(Delta::Ended),
            Kind::Call { whole } => {
                let slot = self.index;
                if let Some(json) = whole {
                    tell(Delta::CallInput { slot, json });
                }
                tell(Delta::CallEnded { slot });
            }
            Kind::Done | Kind::Odd => {}
        }
    }
}

impl Kind {
    fn text(block: &mut Map<String, Value>, out: &mut Vec<Frame>) -> Self {
        let text = text(block, "text");
        let worded = !text.is_empty();
        if worded {
            out.push(Frame::Delta(Delta::Text(text)));
        }
        let citations = match block.remove("citations") {
            Some(Value::Array(citations)) => citations,
            _ => Vec::new(),
        };
        Self::Text { worded, citations }
    }

    /// The part is opened at once and marked as this provider's: its seal means nothing to any other.
    fn thinking(block: &mut Map<String, Value>, provider: &str, out: &mut Vec<Frame>) -> Self {
        let (thought, seal) = (text(block, "thinking"), text(block, "signature"));
        out.push(Frame::Delta(Delta::Reasoning(thought)));
        out.push(Frame::Delta(Delta::PartMeta(Box::new(own(provider, known(block))))));
        if !seal.is_empty() {
            out.push(Frame::Delta(Delta::Sealed(Seal::Signature(seal))));
        }
        Self::Thinking
    }

    fn redacted(block: &mut Map<String, Value>, provider: &str, out: &mut Vec<Frame>) -> Self {
        out.push(Frame::Delta(Delta::Sealed(Seal::Redacted(text(block, "data")))));
        out.push(Frame::Delta(Delta::PartMeta(Box::new(own(provider, known(block))))));
        Self::Thinking
    }

    fn call(
        slot: u32,
        block: &mut Map<String, Value>,
        run_by: RunBy,
        provider: &str,
        calls: &mut HostedCalls,
        out: &mut Vec<Frame>,
    ) -> Self {
        let (id, tool) = (text(block, "id"), text(block, "name"));
        let input = block.remove("input").filter(|input| !matches!(input, Value::Null));
        let whole = input.filter(|input| !input.as_object().is_some_and(Map::is_empty)).map(|input| input.to_string());
        if run_by == RunBy::Provider {
            calls.0.push(HostedCall { id: id.clone(), tool: tool.clone(), slot });
        }
        let meta = own(provider, known(block));
        out.push(Frame::Delta(Delta::CallBegan(Box::new(CallBegan { slot, provider_id: id, tool, run_by, meta }))));
        Self::Call { whole }
    }

    fn result(
        tool: String,
        block: &mut Map<String, Value>,
        provider: &str,
        calls: &HostedCalls,
        out: &mut Vec<Frame>,
    ) -> Self {
        let id = text(block, "tool_use_id");
        let output = block.remove("content").unwrap_or_default();
        let call = calls.0.iter().rev().find(|call| call.id == id);
        let (slot, tool) = call.map_or((None, tool), |call| (Some(call.slot), call.tool.clone()));
        let meta = own(provider, known(block));
        out.push(Frame::Delta(Delta::Provided(Box::new(ProvidedDelta { slot, tool, output, meta }))));
        Self::Done
    }
}

impl Cited {
    /// The sources among some citations that were not told before.
    fn of(&mut self, citations: &[Value]) -> Vec<Source> {
        let source = |citation: &Value| {
            let text = |keys: [&str; 2]| keys.iter().find_map(|key| citation.get(key)?.as_str()).unwrap_or_default();
            let (url, title) = (text(["url", "source"]), text(["title", "document_title"]));
            let named = !(url.is_empty() && title.is_empty());
            let is_new = named && self.0.insert((url.to_owned(), title.to_owned()));
            is_new.then(|| Source { url: url.to_owned(), title: title.to_owned(), ..Source::default() })
        };
        citations.iter().filter_map(source).collect()
    }
}

/// A text out of a block; empty if it has none.
fn text(block: &mut Map<String, Value>, key: &str) -> String {
    match block.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// What is left of a block, without what is null.
fn known(block: &mut Map<String, Value>) -> Map<String, Value> {
    let mut rest = std::mem::take(block);
    rest.retain(|_, value| !value.is_null());
    rest
}
