//! The file tools as the engine sees them: each call is one request to a confined process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use everturn::core::chat::Effect;
use everturn::core::ids::CallUid;
use everturn::core::message::Media;
use everturn::core::permission::{PatternKind, RuleSubject};
use everturn::core::prompt::ToolSpec;
use everturn::{Beside, Policy, SharedTool, Tool, ToolContext, ToolError, ToolOutput, ToolReturn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Workspace, files};
use crate::wire::{Access, Change, Edit, FileReply, FileRequest, SearchRequest};

/// How long a file tool may take.
const TIME_MAX: Duration = Duration::from_secs(30);

/// All of them.
pub fn all(workspace: &Workspace) -> Vec<SharedTool> {
    vec![
        FileTool::<ReadInput>::shared(workspace),
        FileTool::<ListInput>::shared(workspace),
        FileTool::<SearchInput>::shared(workspace),
        FileTool::<WriteInput>::shared(workspace),
        FileTool::<EditInput>::shared(workspace),
    ]
}

/// The input of a file tool, and what it asks for.
trait FileInput: for<'a> Deserialize<'a> + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const ACCESS: Access;

    /// The request of a call.
    fn request(self, call: CallUid) -> FileRequest;
}

#[derive(Deserialize, JsonSchema)]
struct ReadInput {
    /// A file or directory, relative to the workspace.
    path: String,
    /// The first line, from 1.
    #[serde(default = "one")]
    from: usize,
    /// How many lines, at most 2000.
    #[serde(default = "two_thousand")]
    lines: usize,
}

impl FileInput for ReadInput {
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = "Reads a file of the workspace. Lines are numbered. Images are shown.";
    const ACCESS: Access = Access::Read;

    fn request(self, _: CallUid) -> FileRequest {
        FileRequest::Read { path: self.path, from: self.from, lines: self.lines }
    }
}

#[derive(Deserialize, JsonSchema)]
struct ListInput {
    /// A directory, relative to the workspace.
    #[serde(default = "here")]
    path: String,
    /// How many levels of directories, at most 5.
    #[serde(default = "one")]
    depth: usize,
    /// Only paths that match, such as `*.rs` or `src/**`.
    glob: Option<String>,
}

impl FileInput for ListInput {
    const NAME: &'static str = "list";
    const DESCRIPTION: &'static str = "Lists a directory of the workspace, without files that .gitignore names.";
    const ACCESS: Access = Access::Read;

    fn request(self, _: CallUid) -> FileRequest {
        FileRequest::List { path: self.path, depth: self.depth, glob: self.glob }
    }
}

#[derive(Deserialize, JsonSchema)]
struct SearchInput {
    /// A regular expression in Rust's syntax.
    pattern: String,
    /// A file or directory, relative to the workspace.
    #[serde(default = "here")]
    path: String,
    /// Only files that match, such as `*.rs`.
    glob: Option<String>,
    /// Lines to show around each match, at most 5.
    #[serde(default)]
    context: usize,
    /// Do not tell upper from lower case.
    #[serde(default)]
    ignore_case: bool,
    /// Match the paths of files instead of their lines.
    #[serde(default)]
    names: bool,
}

impl FileInput for SearchInput {
    const NAME: &'static str = "search";
    const DESCRIPTION: &'static str = "Searches the files of the workspace for lines that match a regular expression.";
    const ACCESS: Access = Access::Read;

    fn request(self, _: CallUid) -> FileRequest {
        let Self { pattern, path, glob, context, ignore_case, names } = self;
        FileRequest::Search(SearchRequest { pattern, path, glob, context, ignore_case, names })
    }
}

#[derive(Deserialize, JsonSchema)]
struct WriteInput {
    /// The file, relative to the workspace. Missing directories are made.
    path: String,
    /// The whole new content.
    content: String,
}

impl FileInput for WriteInput {
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str =
        "Writes a whole file of the workspace. One that exists must have been read before. For small changes use edit.";
    const ACCESS: Access = Access::Write;

    fn request(self, call: CallUid) -> FileRequest {
        let change = Change::Write { content: self.content };
        FileRequest::Change { call: call.into(), path: self.path, change }
    }
}

#[derive(Deserialize, JsonSchema)]
struct EditInput {
    /// The file, relative to the workspace. It must have been read before.
    path: String,
    /// The replacements, in order. All of them are made, or none.
    edits: Vec<Edit>,
}

impl FileInput for EditInput {
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str =
        "Replaces exact texts in a file of the workspace. Each must occur once, unless `all` is set.";
    const ACCESS: Access = Access::Write;

    fn request(self, call: CallUid) -> FileRequest {
        let change = Change::Edit { edits: self.edits };
        FileRequest::Change { call: call.into(), path: self.path, change }
    }
}

const fn one() -> usize {
    1
}

const fn two_thousand() -> usize {
    2_000
}

fn here() -> String {
    ".".into()
}

struct FileTool<Input> {
    workspace: Workspace,
    input: std::marker::PhantomData<fn(Input)>,
}

impl<Input: FileInput> FileTool<Input> {
    fn shared(workspace: &Workspace) -> SharedTool {
        Arc::new(Self { workspace: workspace.clone(), input: std::marker::PhantomData })
    }
}

#[async_trait]
impl<Input: FileInput> Tool for FileTool<Input> {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(Input::NAME, Input::DESCRIPTION, Value::from(schemars::schema_for!(Input)))
    }

    fn policy(&self) -> Policy {
        let (effect, beside) = match Input::ACCESS {
            Access::Read => (Effect::Read, Beside::Any),
            Access::Write => (Effect::Idempotent, Beside::Serial),
        };
        Policy { effect, beside, time_max: Some(TIME_MAX), ..Policy::default() }
    }

    fn pattern(&self) -> PatternKind {
        PatternKind::Path
    }

    fn subject(&self, input: &Value) -> RuleSubject {
        let path = input.get("path").and_then(Value::as_str).unwrap_or(".");
        files::leads_to(&self.workspace.root, path).map_or(RuleSubject::Unknown, RuleSubject::Path)
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        match self.workspace.answer(context.chat, context.call, Input::ACCESS, input.request(context.call)).await? {
            FileReply::Text(text) => Ok(text.into()),
            FileReply::Changes(_) => Err("the file tool gave an answer of another kind".into()),
            FileReply::Image { path, media_type, data } => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(data)?;
                let text = format!("{path}: {media_type}, {} bytes", bytes.len());
                Ok(ToolOutput { media: vec![Media::new(media_type, bytes)], ..ToolOutput::from(text) }.into())
            }
            FileReply::Refused(cause) => Err(ToolError::new(cause)),
        }
    }
}
