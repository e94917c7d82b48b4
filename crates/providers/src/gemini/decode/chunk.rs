//! A frame of `streamGenerateContent`, as far as we read it. Each is a whole response that holds only what is new.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiChunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    pub(super) prompt_feedback: Option<Feedback>,
    pub(super) usage_metadata: Option<UsageMetadata>,
    pub(super) response_id: Option<String>,
    pub(super) model_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    pub(super) finish_reason: Option<String>,
    pub(super) finish_message: Option<String>,
    pub(super) safety_ratings: Option<Vec<Rating>>,
    pub(super) grounding_metadata: Option<Value>,
    pub(super) citation_metadata: Option<Value>,
    pub(super) url_context_metadata: Option<Value>,
    pub(super) continuation_token: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<GeminiPart<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPart<'a> {
    pub(super) text: Option<String>,
    pub(super) thought: Option<bool>,
    pub(super) thought_signature: Option<String>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
    #[serde(borrow)]
    pub(super) tool_call: Option<ToolCall<'a>>,
    pub(super) tool_response: Option<ToolResponse>,
    #[serde(borrow)]
    pub(super) executable_code: Option<&'a RawValue>,
    pub(super) code_execution_result: Option<Value>,
    pub(super) inline_data: Option<InlineData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) partial_args: Option<&'a RawValue>,
    pub(super) will_continue: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall<'a> {
    pub(super) id: Option<String>,
    pub(super) tool_type: Option<String>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResponse {
    pub(super) id: Option<String>,
    pub(super) tool_type: Option<String>,
    pub(super) response: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InlineData {
    pub(super) mime_type: Option<String>,
    pub(super) data: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback {
    pub(super) block_reason: Option<String>,
    pub(super) block_reason_message: Option<String>,
    pub(super) safety_ratings: Option<Vec<Rating>>,
}

#[derive(Debug, Deserialize)]
pub(in super::super) struct Rating {
    pub(in super::super) category: Option<String>,
    pub(in super::super) blocked: Option<bool>,
}

/// Token counts, each of which may be anything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageMetadata {
    pub(super) prompt_token_count: Option<Value>,
    pub(super) cached_content_token_count: Option<Value>,
    pub(super) tool_use_prompt_token_count: Option<Value>,
    pub(super) candidates_token_count: Option<Value>,
    pub(super) thoughts_token_count: Option<Value>,
}
