//! Whether a tool can be offered at all.
//!
//! A request with a tool that its wire refuses is refused for ever, and with it every turn of the agent.
//! Which wire will be spoken is not known when a tool is made, and a fallback may change it in the middle of
//! a turn. So a tool must be one that all of them take, and it is checked when it is made.

use crate::ids::ModelId;
use crate::prompt::entry::{PromptEntry, PromptPart, Role};
use crate::prompt::request::Request;
use crate::prompt::schema::ToolSpec;
use crate::prompt::target::{Target, WireFormat};

use super::{RequestViolation, validate};

/// Why a tool cannot be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOfferable {
    /// A wire does not take its name.
    #[error(
        "its name is not taken by {0}; all take at most 64 letters, digits, `_` and `-` that begin with a letter or `_`"
    )]
    Name(&'static str),
    /// A wire does not take its schema, and why.
    #[error("its input schema is not taken by {0}: {1}")]
    Schema(&'static str, &'static str),
}

/// Whether every wire takes this tool.
///
/// # Errors
/// The first that does not, and what it refuses.
pub fn offerable(spec: &ToolSpec) -> Result<(), NotOfferable> {
    WireFormat::ALL.into_iter().try_for_each(|wire| taken_by(wire, spec))
}

fn taken_by(wire: WireFormat, spec: &ToolSpec) -> Result<(), NotOfferable> {
    let model: ModelId = "any/any".parse().expect("a model has a provider and a name");
    let target = Target::new(wire, model.provider());
    let hello = PromptEntry::new(Role::User, vec![PromptPart::text("hello")]);
    let mut request = Request::new(model, &target, vec![hello].into());
    request.tools = [spec.clone()].into();
    let refused = validate(&request.fit(&target), &target).err().unwrap_or_default();
    let name = match wire {
        WireFormat::Anthropic => "Anthropic",
        WireFormat::OpenAiResponses => "OpenAI Responses",
        WireFormat::OpenAiChat => "OpenAI Chat",
        WireFormat::Gemini => "Gemini",
    };
    let found = refused.into_iter().find_map(|violation| match violation {
        RequestViolation::BadToolName { .. } => Some(NotOfferable::Name(name)),
        RequestViolation::BadSchema { why, .. } => Some(NotOfferable::Schema(name, why)),
        _ => None,
    });
    found.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_must_be_taken_by_all() {
        let named = |name: &str| offerable(&ToolSpec::new(name, "", json!({"type": "object"})));
        for good in ["look", "look_up-2", "_x", &"x".repeat(64)] {
            assert_eq!(named(good), Ok(()), "{good}");
        }
        let cases = [("", "Anthropic"), ("ö", "Anthropic"), ("a b", "Anthropic"), ("a.b", "Anthropic")];
        let others = [("2x", "Gemini"), ("-x", "Gemini")];
        for (bad, wire) in cases.into_iter().chain(others) {
            assert_eq!(named(bad), Err(NotOfferable::Name(wire)), "{bad}");
        }
        assert_eq!(named(&"x".repeat(65)), Err(NotOfferable::Name("OpenAI Responses")));
    }

    /// What preparation mends is no fault; what it cannot is.
    #[test]
    fn a_schema_must_be_taken_by_all() {
        let with = |schema| offerable(&ToolSpec::new("look", "", schema));
        for good in
            [json!({}), json!(null), json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}})]
        {
            assert_eq!(with(good.clone()), Ok(()), "{good}");
        }
        let odd = json!({"type": "object", "properties": {"a b": {"type": "string"}}});
        let why = "a property has a name the wire does not take";
        assert_eq!(with(odd), Err(NotOfferable::Schema("Anthropic", why)));
        let whys = "a type is not string, number, integer, boolean, object, array or null";
        for misspelt in [json!({"type": "objekt"}), json!({"type": "array", "items": {"type": ["int", "null"]}})] {
            let whole = json!({"type": "object", "properties": {"a": misspelt}});
            assert_eq!(with(whole.clone()), Err(NotOfferable::Schema("Anthropic", whys)), "{whole}");
        }
        let theirs = ToolSpec::provider_defined("web_search", json!({"type": "web_search"}));
        assert_eq!(offerable(&theirs), Ok(()), "a provider's own definition is its own business");
    }
}
