//! The file tools as the engine sees them: each call is one request to a confined process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use everturn::core::chat::Effect;
use everturn::core::message::Media;
use everturn::core::prompt::ToolSpec;
use everturn::{Beside, Policy, SharedTool, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{ROLE, Workspace};
use crate::confine::namespace::INSIDE;
use crate::confine::probe::Level;
use crate::supervisor::ToolCommand;
use crate::wire::{Access, Edit, FileReply, FileRequest, Network, SearchRequest};

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

    /// The file whose state the request depends on or tells.
    fn path(&self) -> &str;

    /// The request, with the hash of the file when the chat last read it.
    fn request(self, read: Option<String>) -> FileRequest;
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

    fn path(&self) -> &str {
        &self.path
    }

    fn request(self, _: Option<String>) -> FileRequest {
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

    fn path(&self) -> &str {
        &self.path
    }

    fn request(self, _: Option<String>) -> FileRequest {
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

    fn path(&self) -> &str {
        &self.path
    }

    fn request(self, _: Option<String>) -> FileRequest {
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

    fn path(&self) -> &str {
        &self.path
    }

    fn request(self, read: Option<String>) -> FileRequest {
        FileRequest::Write { path: self.path, content: self.content, read }
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

    fn path(&self) -> &str {
        &self.path
    }

    fn request(self, read: Option<String>) -> FileRequest {
        FileRequest::Edit { path: self.path, edits: self.edits, read }
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

    async fn ask(&self, request: &FileRequest) -> io::Result<FileReply> {
        let workspace = &self.workspace;
        let helper = workspace.helper.canonicalize()?;
        let inside = if workspace.level == Level::Full { INSIDE.into() } else { helper.display().to_string() };
        let mut policy = workspace.policy(Input::ACCESS);
        policy.network = Network::Off;
        policy.also_read = vec![helper];
        let command =
            ToolCommand::new([inside, ROLE.into()], &workspace.root).with_helper(&workspace.helper).with_pipes();
        // Where commands cannot be confined this still is our own code, and answers only for its directory.
        let level = if workspace.level == Level::Files { Level::Off } else { workspace.level };
        let mut running = command.confine(policy, level)?.start().await?;
        if let Some(mut input) = running.stdin.take() {
            input.write_all(&serde_json::to_vec(request)?).await?;
        }
        let mut reply = Vec::new();
        running.stdout.read_to_end(&mut reply).await?;
        let mut errors = String::new();
        if let Some(stderr) = &mut running.stderr {
            stderr.read_to_string(&mut errors).await?;
        }
        running.wait().await?;
        serde_json::from_slice(&reply).map_err(|_| io::Error::other(format!("the file tool failed: {}", errors.trim())))
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
            Access::Write => (Effect::Once, Beside::Serial),
        };
        Policy { effect, beside, time_max: Some(TIME_MAX), ..Policy::default() }
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let path = input.path().to_owned();
        let request = input.request(self.workspace.seen(context.chat, &path));
        match self.ask(&request).await? {
            FileReply::Text { text, hash } => {
                if let Some(hash) = hash {
                    self.workspace.remember(context.chat, &path, hash);
                }
                Ok(text.into())
            }
            FileReply::Image { media_type, data } => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(data)?;
                let text = format!("{path}: {media_type}, {} bytes", bytes.len());
                Ok(ToolOutput { media: vec![Media::new(media_type, bytes)], ..ToolOutput::from(text) })
            }
            FileReply::Refused(cause) => Err(ToolError::new(cause)),
        }
    }
}
